"""Receivers over HTTP that answer oddly, or never come to an end."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from push_receivers import delivering, receiving, said, until
from test_push_http import Make, every

from livecap.output.push import http
from livecap.output.push.webhook import Webhook

ODD = {
    "no number": (429, {"Retry-After": "²"}),
    "no date": (503, {"Retry-After": "Mon, 01 Jan 2027 00:00:00 +99999999999999"}),
    "no length": (503, {"Content-Length": "²"}),
}


@every
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_an_odd_answer_is_one_like_others(make: Make, odd: tuple[int, dict[str, str]]) -> None:
    with receiving(odd) as receiver, delivering(make(f"{receiver.url}/in")) as (delivery, told):
        for number in (1, 2):
            delivery.put(said("One.", number))
        until(lambda: told.results == ["delivered"] * 2, lambda: told)
    assert "; trying again" in told.sentences[0]


@pytest.mark.parametrize("where", ["http://[bad", "file:///etc/hosts", "http://a..b/"])
def test_a_redirect_to_nowhere_is_one_like_others(where: str) -> None:
    with (
        receiving((302, {"Location": where})) as receiver,
        delivering(Webhook(receiver.url, None)) as (delivery, told),
    ):
        for number in (1, 2):
            delivery.put(said("One.", number))
        until(lambda: told.results == ["refused", "delivered"], lambda: told)


@every
def test_a_host_that_can_not_be_looked_up_is_away(make: Make) -> None:
    """As options refuse it."""
    with delivering(make("http://a..b/in")) as (delivery, told):
        delivery.put(said("One."))
        until(lambda: bool(told.sentences))
    assert "its name can't be looked up; trying again" in told.sentences[0]


@contextmanager
def trickling(start: bytes) -> Iterator[int]:
    """A port at which an answer begins and goes on by a byte now and then, without an end."""
    is_over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.sendall(start)
                with connection, suppress(OSError):
                    while not is_over.wait(0.02):
                        connection.sendall(b"1")

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        is_over.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


STARTS = {
    "head": b"HTTP/1.1 200 OK\r\nX: ",
    "measured": b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n",
    "unmeasured": b"HTTP/1.1 200 OK\r\n\r\n",
}


@every
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())
def test_an_answer_that_trickles_in_has_an_end(
    make: Make, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "TIMEOUT", 0.2)
    with (
        trickling(start) as port,
        delivering(make(f"http://127.0.0.1:{port}/in"), last=0.0) as (delivery, told),
    ):
        delivery.put(said("One."))
        until(lambda: bool(told.sentences))
    assert "it does not answer" in told.sentences[0]


def test_a_handshake_that_trickles_in_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS has the connection then."""
    monkeypatch.setattr(http, "TIMEOUT", 0.2)
    with (
        trickling(b"\x16\x03\x03\x40\x00") as port,
        delivering(Webhook(f"https://127.0.0.1:{port}", None), last=0.0) as (delivery, told),
    ):
        delivery.put(said("One."))
        until(lambda: bool(told.sentences))
    assert "it does not answer" in told.sentences[0]
