"""Where the server listens: host and port -> bound sockets, and the URL that people may open."""

import errno
import os
import socket
from collections.abc import Sequence

from livecap.api.access.connection_limits import CountedListener, Crowd
from livecap.api.server.tls import Names
from livecap.errors import ConfigError, OutputError

BACKLOG = 2048  # connections that wait to be accepted
LOCALHOST = "localhost"
ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
EVERYWHERE = ("0.0.0.0", "::")


def bind(host: str, port: int) -> list[socket.socket]:
    """Listen at every address of a host. Raises LivecapError if there is none that can be had.

    With port 0 the system chooses one, the same for all addresses.
    """
    addresses = _addresses(host, port)
    bound: list[socket.socket] = []
    for family, address in addresses:
        try:
            bound.append(_listen(family, address, bound[0].getsockname()[1] if bound else port))
        except OSError as error:
            if error.errno in ABSENT and len(addresses) > 1:
                continue  # localhost has two addresses, but here may be no IPv6
            for one in bound:
                one.close()
            raise _taken(host, port, error) from error
    if not bound:
        raise _taken(host, port, OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL)))
    return bound


def _addresses(host: str, port: int) -> Sequence[tuple[socket.AddressFamily, str]]:
    """Those of a host. Raises ConfigError."""
    if host.lower() == LOCALHOST:  # whatever this machine's list of hosts says: clients try both
        return ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"--host {host}: this machine knows no such name",
            remedy="Use localhost, 0.0.0.0, or an address of this machine.",
        ) from error
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def counted(bound: Sequence[socket.socket], crowd: Crowd, *, secure: bool) -> list[socket.socket]:
    """The same sockets, whose connections have to find a place in the crowd."""
    return [CountedListener.of(one, crowd, is_plain=not secure) for one in bound]


def _listen(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    both = family == socket.AF_INET6 and address == "::" and socket.has_dualstack_ipv6()
    found = socket.create_server(
        (address, port), family=family, backlog=BACKLOG, dualstack_ipv6=both
    )
    # asyncio does this only for sockets that say they are TCP's, as this one does not: a small
    # answer would wait 40 ms for an acknowledgement. Connections inherit it.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _taken(host: str, port: int, error: OSError) -> OutputError | ConfigError:
    where = f"{host}, port {port}"
    if error.errno == errno.EADDRINUSE:
        return OutputError(
            f"Another program listens at {where} already",
            remedy="Stop it, or choose another port: --port 8001, or 0 for any that is free.",
        )
    if error.errno == errno.EACCES:
        return OutputError(
            f"This user may not listen at {where}", remedy="Choose a port from 1024 on."
        )
    return ConfigError(
        f"--host {host}: can't listen there ({error.strerror})",
        remedy="Use 127.0.0.1, 0.0.0.0, or an address of this machine.",
    )


def urls(sockets: Sequence[socket.socket], names: Names, *, secure: bool) -> str:
    """All that can be opened, for people."""
    return " and ".join(url([one], names, secure=secure) for one in sockets)


def url(sockets: Sequence[socket.socket], names: Names, *, secure: bool) -> str:
    """What to open. Of a server that listens everywhere: an address that other machines reach."""
    host, port = sockets[0].getsockname()[:2]
    if host in EVERYWHERE:
        others = [one for one in names.addresses if one not in ("127.0.0.1", "::1")]
        host = next((one for one in others if ":" not in one), "127.0.0.1")
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"
