"""Where the server listens: sockets, what is wrong with an address, and what to open."""

import socket
from contextlib import closing, suppress

import pytest

from livecap.api.options import ServeConfig
from livecap.api.server.listen import bind, url, urls
from livecap.api.server.tls import Names
from livecap.errors import ConfigError, OutputError

NAMES = Names(("localhost",), ("10.0.0.5", "127.0.0.1", "2001:db8::5", "::1"))


def test_any_free_port() -> None:
    (one,) = bind("127.0.0.1", 0)
    with closing(one):
        port = one.getsockname()[1]
        assert port
        assert url([one], NAMES, secure=False) == f"http://127.0.0.1:{port}"
        assert url([one], NAMES, secure=True) == f"https://127.0.0.1:{port}"
        with closing(socket.create_connection(("127.0.0.1", port))):
            pass


def test_a_name_with_several_addresses_has_one_port() -> None:
    bound = bind("localhost", 0)
    try:
        assert len({one.getsockname()[1] for one in bound}) == 1
    finally:
        for one in bound:
            one.close()


def test_a_port_that_is_taken_is_told_with_a_remedy() -> None:
    (one,) = bind("127.0.0.1", 0)
    with closing(one):
        port = one.getsockname()[1]
        with pytest.raises(OutputError, match=rf"port {port} already.*--port"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "a" * 80, "1.2.3.4.5"])
def test_an_address_that_is_none_of_ours_is_told(host: str) -> None:
    with pytest.raises(ConfigError, match="--host"):
        bind(host, 0)


class Everywhere:
    """A socket that listens at every address; a real one could be reached from elsewhere."""

    def __init__(self, host: str) -> None:
        self._host = host

    def getsockname(self) -> tuple[str, int]:
        return self._host, 8000


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_for_all_is_shown_by_an_address_of_the_network(host: str) -> None:
    everywhere: list[socket.socket] = [Everywhere(host)]  # type: ignore[list-item]  # stands for one
    assert url(everywhere, NAMES, secure=False) == "http://10.0.0.5:8000"
    alone = Names(("localhost",), ("127.0.0.1", "::1"))
    assert url(everywhere, alone, secure=False) == "http://127.0.0.1:8000"


def test_an_address_of_six_has_brackets() -> None:
    with suppress(ConfigError):  # there may be no IPv6
        (one,) = bind("::1", 0)
        with closing(one):
            assert url([one], NAMES, secure=False).startswith("http://[::1]:")


def test_small_answers_do_not_wait() -> None:
    """Connections inherit it from the socket that listens."""
    (bound,) = bind("127.0.0.1", 0)
    with bound, socket.create_connection(bound.getsockname()[:2]):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_this_machine_is_both_of_its_addresses() -> None:
    """Many clients take localhost for ::1 alone."""
    assert ServeConfig().host == "localhost"
    bound = bind("localhost", 0)
    try:
        port = bound[0].getsockname()[1]
        hosts = [one.getsockname()[0] for one in bound]
        assert hosts == (["127.0.0.1", "::1"] if has_six() else ["127.0.0.1"])
        for host in hosts:
            with socket.create_connection((host, port)):
                pass
        told = urls(bound, NAMES, secure=False)
        assert told.startswith(f"http://127.0.0.1:{port}")
        assert (f" and http://[::1]:{port}" in told) == has_six()
    finally:
        for one in bound:
            one.close()


def has_six() -> bool:
    """Whether this machine has ::1."""
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False
