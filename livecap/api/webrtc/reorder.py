"""Packets as they come -> as they were sent. Those that don't come are not waited for for long.

The library's own buffer keeps a packet back until the next one tells that it was whole, and throws
it away if that one is lost; after the first loss it stays late by as much as it can hold. A packet
of Opus is always whole (RFC 7587, section 4.2).
"""

from aiortc import RTCRtpReceiver
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.rtp import RtpPacket

MOST = 8  # packets that come after one which is missing, before it is taken for lost
FAR = 100  # packets: one that is as much older is not late, but of another start
BUFFER = "_RTCRtpReceiver__jitter_buffer"  # there is no public way to it


class Order:
    """The packets of one track."""

    def __init__(self) -> None:
        self._source: int | None = None  # SSRC
        self._next = 0  # sequence number of the packet that is to be given out next
        self._waiting: dict[int, RtpPacket] = {}  # by how far they are ahead of it: from 1 to MOST

    def put(self, packet: RtpPacket) -> list[RtpPacket]:
        """One that has come -> those whose turn it is now, in order."""
        ahead = _signed(packet.sequence_number - self._next)
        if packet.ssrc != self._source or ahead < -FAR:
            left = [self._waiting[at] for at in sorted(self._waiting)]
            self._source, self._waiting = packet.ssrc, {}
            self._next = _wrapped(packet.sequence_number + 1)
            return [*left, packet]
        if ahead < 0:
            return []  # twice, or too late
        self._waiting.setdefault(ahead, packet)
        return self._due()

    def _due(self) -> list[RtpPacket]:
        found, at = [], 0
        while self._waiting:
            if at not in self._waiting:
                if max(self._waiting) - at < MOST:
                    break
                at = min(self._waiting)  # what is before it is lost
            found.append(self._waiting.pop(at))
            at += 1
        self._next = _wrapped(self._next + at)
        self._waiting = {ahead - at: packet for ahead, packet in self._waiting.items()}
        return found


class _Straight(JitterBuffer):
    """Gives out what it gets."""

    def __init__(self) -> None:
        super().__init__(1)

    def add(self, packet: RtpPacket) -> tuple[bool, JitterFrame | None]:
        """One packet is one frame. One without audio would end the decoder."""
        data = vars(packet)["_data"]  # as the library's own buffer takes it
        return False, JitterFrame(data, packet.timestamp) if data else None


def put_in_order(receiver: RTCRtpReceiver) -> None:
    """From now on this receiver of Opus decodes all that comes, in order and at once."""
    vars(receiver)[BUFFER] = _Straight()
    order, take = Order(), receiver._handle_rtp_packet

    async def handle(packet: RtpPacket, arrival_time_ms: int) -> None:
        for one in order.put(packet):
            await take(one, arrival_time_ms)

    # Instead of a subclass: the library makes the receiver itself.
    receiver._handle_rtp_packet = handle  # type: ignore[method-assign]


def _wrapped(number: int) -> int:
    return number & 0xFFFF


def _signed(difference: int) -> int:
    return (difference + 0x8000 & 0xFFFF) - 0x8000
