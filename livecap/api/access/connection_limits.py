"""How many connections there are, in all and from one address: counted before a byte is read.

A connection counts from when it is accepted until its socket is closed, TLS handshake included.
Only half of them may be without a whole request, or be a WebSocket that was not let in yet. The
next one is told 503 (over TLS: nothing) and closed. Where the event loop doesn't accept by the
socket itself (Windows), nothing is counted.
"""

import ipaddress
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from livecap.api.access.refusal_pace import RefusalPace

NETWORK = 64  # bits of an IPv6 address that one customer has for all of theirs
QUIET = 60.0  # seconds between two lines in the log
AT_ONCE = 64  # connections refused before others of the event loop have their turn
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)

LOG = logging.getLogger("livecap.server")


@dataclass(eq=False)
class ConnectionSlot:
    """One connection's."""

    address: tuple[str, int]  # host and port of the client
    party: str  # who it is counted with
    is_waiting: bool = True  # it has not made a whole request


class Crowd:
    """Counts connections. For the event loop alone."""

    def __init__(
        self,
        limit: int,
        each: int,
        *,
        trusted: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most` in all, `each` from one address; 0: any number. `trusted`: addresses and networks
        of proxies, which stand for many.
        """
        self._most = limit
        self._each = each
        self._trusted = [ipaddress.ip_network(one, strict=False) for one in trusted]
        self._clock = clock
        self.refusals = RefusalPace(clock)  # of requests
        self._places: dict[tuple[str, int], ConnectionSlot] = {}
        self._all: Counter[str] = Counter()  # by party
        self._waiting: Counter[str] = Counter()  # those of them without a request
        self._told = -QUIET  # when the log was last told
        self.refused = 0  # so far

    @property
    def count(self) -> int:
        """Connections."""
        return self._all.total()

    @property
    def waiting(self) -> int:
        """Those without a whole request."""
        return self._waiting.total()

    def enter(self, host: str, port: int) -> ConnectionSlot | None:
        """A place for a new connection; None if there is none."""
        who = party(host)
        is_full = self._is_over(self._all.total(), self._waiting.total(), self._most)
        is_greedy = self._is_over(self._all[who], self._waiting[who], self._each)
        is_greedy = is_greedy and not self._is_trusted(host)
        if is_full or is_greedy:
            self._refuse(host, is_greedy=is_greedy)
            return None
        slot = self._places[host, port] = ConnectionSlot((host, port), who)
        self._all[who] += 1
        self._waiting[who] += 1
        return slot

    def settle(self, client: tuple[str, int] | None) -> None:
        """The connection from there has made its request, or its WebSocket was let in."""
        slot = self._places.get(client) if client else None
        if slot:
            self._settle(slot)

    def leave(self, slot: ConnectionSlot) -> None:
        """It is closed."""
        self._settle(slot)
        _less(self._all, slot.party)
        if self._places.get(slot.address) is slot:
            del self._places[slot.address]

    def _settle(self, slot: ConnectionSlot) -> None:
        if slot.is_waiting:
            slot.is_waiting = False
            _less(self._waiting, slot.party)

    def _is_trusted(self, host: str) -> bool:
        if not self._trusted:
            return False
        address = ipaddress.ip_address(host.partition("%")[0])
        return any(address in network for network in self._trusted)

    @staticmethod
    def _is_over(count: int, waiting: int, limit: int) -> bool:
        return bool(limit) and (count >= limit or waiting >= max(limit // 2, 1))

    def _refuse(self, host: str, *, is_greedy: bool) -> None:
        self.refused += 1
        if self._clock() - self._told < QUIET:
            return
        self._told = self._clock()
        option = "--max-per-address" if is_greedy else "--max-connections"
        fields = {"client": host, "connections": self.count, "limit": option}
        LOG.warning("connections are refused", extra={"fields": fields})


class CountedListener(socket.socket):
    """A listening socket whose connections have places."""

    crowd: Crowd  # set before the first is accepted
    is_plain: bool  # no TLS: the refusal can be read

    @classmethod
    def of(cls, bound: socket.socket, crowd: Crowd, *, is_plain: bool) -> "CountedListener":
        """A socket that listens; it is taken over."""
        found = cls(bound.family, bound.type, bound.proto, fileno=bound.detach())
        found.crowd, found.is_plain = crowd, is_plain
        return found

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that has a place. Raises ConnectionAbortedError after many that had
        none, which event loops take for "later".
        """
        for _ in range(AT_ONCE):
            connection, address = super().accept()
            slot = self.crowd.enter(*address[:2])
            if slot:
                return _Counted.of(connection, self.crowd, slot), address
            with connection:
                if self.is_plain:
                    connection.setblocking(False)
                    with suppress(OSError):
                        connection.send(BUSY)
        raise ConnectionAbortedError("many were refused")


class _Counted(socket.socket):
    """A connection, which gives its place back when it is closed."""

    slot: ConnectionSlot | None = None
    crowd: Crowd

    @classmethod
    def of(cls, connection: socket.socket, crowd: Crowd, slot: ConnectionSlot) -> "_Counted":
        family, kind, proto = connection.family, connection.type, connection.proto
        found = cls(family, kind, proto, fileno=connection.detach())
        found.crowd, found.slot = crowd, slot
        return found

    def close(self) -> None:
        """Once."""
        if self.slot:
            self.crowd.leave(self.slot)
            self.slot = None
        super().close()


def party(host: str) -> str:
    """Who an address is counted with: itself, or its network where it is of IPv6."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return host
    return str(ipaddress.ip_network((address, NETWORK), strict=False))


def _less(counts: Counter[str], who: str) -> None:
    counts[who] -= 1
    if not counts[who]:
        del counts[who]
