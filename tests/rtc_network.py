"""A network that loses, delays and swaps packets by a pattern, the same at every run.

A packet's fate depends on its number alone, and a delay is counted in the packets that are sent
meanwhile: nothing here looks at a clock.
"""

import heapq
import random
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from aiortc.rtp import is_rtcp
from numpy.typing import NDArray
from rtc_clients import FRAME, Caller

from livecap.api.webrtc.timeline import RtpTimeline

Fate = Callable[[int], int | None]  # a packet's number -> after which it comes; None: it is lost


def unharmed(number: int) -> int:
    """Each as it is sent."""
    return number


def every(period: int, *, lost: int = 1, first: int = 0) -> Fate:
    """The last `lost` ones of so many, from packet `first` on."""
    return lambda n: None if n >= first and (n - first) % period >= period - lost else n


def shaken(seed: int, most: int, *, lost: float = 0.0) -> Fate:
    """Each but the first ones comes up to `most` packets late, so that they overtake each other; a
    share is lost.
    """

    def fate(number: int) -> int | None:
        if number < most:
            return number
        chance = random.Random(seed * 1_000_003 + number)
        late = number + chance.randint(0, most)
        return None if chance.random() < lost else late

    return fate


def stalled(first: int, count: int) -> Fate:
    """Nothing comes for as long as it takes to send so many, and then all of it at once."""
    return lambda n: max(n, first + count) if n >= first else n


class Network:
    """What lies between a client's track and the server. RTCP goes by unharmed."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]], fate: Fate) -> None:
        self._send = send
        self._fate = fate
        self._waiting: list[tuple[int, int, bytes]] = []  # after which, number, packet
        self.count = 0  # packets so far
        self.lost: set[int] = set()

    async def send(self, data: bytes) -> None:
        """In the place of the transport's."""
        if is_rtcp(data):
            await self._send(data)
            return
        number, self.count = self.count, self.count + 1
        due = self._fate(number)
        if due is None:
            self.lost.add(number)
        else:
            heapq.heappush(self._waiting, (due, number, data))
        while self._waiting and self._waiting[0][0] <= number:
            await self._send(heapq.heappop(self._waiting)[2])


def between(caller: Caller, fate: Fate) -> Network:
    """Put it into a call that has not begun."""
    transport: Any = caller.peer.getTransceivers()[0].sender.transport
    network = Network(transport._send_rtp, fate)
    transport._send_rtp = network.send
    return network


class Recorded(RtpTimeline):
    """A server's timeline that can be looked at afterwards."""

    def __init__(self, network: Network) -> None:
        """`network`: what its packets come by."""
        super().__init__()
        self._network = network
        self.numbers: list[int] = []  # of the packets whose frames came
        self.delays: list[int] = []  # packets that had been sent meanwhile, for each of them
        self._placed: list[NDArray[np.int16]] = []

    def position(self, timestamp: int, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        """See `Timeline`."""
        self.numbers.append(timestamp // FRAME)
        self.delays.append(self._network.count - self.numbers[-1])
        self._placed.append(super().position(timestamp, samples))
        return self._placed[-1]

    @property
    def samples(self) -> NDArray[np.int16]:
        """All that was placed."""
        return np.concatenate([np.zeros(0, np.int16), *self._placed])
