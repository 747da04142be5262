"""What was sent over one connection -> where that is on the media timeline.

A server counts the audio that it was sent. The media may have gaps, and a connection that follows
another begins in the middle.
"""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Piece:
    """Audio, or silence that stands for a gap."""

    wire: int
    length: int  # on the wire
    media: int
    end: int  # media time
    is_gap: bool = False

    def media_of(self, wire: int) -> int:
        """Media time, within it."""
        return min(self.media + max(wire - self.wire, 0), self.end)


class Clock:
    """Times are samples at 16 kHz: `wire` since the connection began, `media` since capture did."""

    def __init__(self) -> None:
        self._pieces: deque[_Piece] = deque()
        self.sent = 0  # wire time: all that was sent

    def send(self, media: int, length: int) -> None:
        """So many samples are sent, which are at that media time."""
        last = self._pieces[-1] if self._pieces else None
        if last and last.end == media and not last.is_gap:
            self._replace(last, length, media + length)
        else:
            self._pieces.append(_Piece(self.sent, length, media, media + length))
        self.sent += length

    def skip(self, media: int, end: int, max_samples: int) -> int:
        """A gap from there to there -> how much silence is to be sent for it: no more than there
        is gap, nor than `most` for gaps that follow each other. At the beginning none is needed.
        """
        last = self._pieces[-1] if self._pieces else None
        if last is None:
            return 0
        goes_on = last.is_gap and last.end == media
        length = min(end - media, max_samples - last.length if goes_on else max_samples)
        if goes_on:
            self._replace(last, length, end)
        else:
            self._pieces.append(_Piece(self.sent, length, media, end, is_gap=True))
        self.sent += length
        return length

    def start(self, wire: int) -> int:
        """Media time of what begins at a wire time: never in a gap."""
        piece = self._at(wire)
        return piece.end if piece.is_gap else piece.media_of(wire)

    def end(self, wire: int) -> int:
        """Media time of what ends at a wire time: never in a gap, or behind one that follows."""
        piece = self._at(wire - 1)
        return piece.media if piece.is_gap else piece.media_of(wire)

    def forget(self, wire: int) -> None:
        """Nobody asks for what was before that any more."""
        while len(self._pieces) > 1 and self._pieces[1].wire <= wire:
            self._pieces.popleft()

    def _at(self, wire: int) -> _Piece:
        found = self._pieces[0] if self._pieces else _Piece(0, 0, 0, 0)
        for piece in self._pieces:
            if piece.wire > wire:
                break
            found = piece
        return found

    def _replace(self, last: _Piece, more: int, end: int) -> None:
        self._pieces[-1] = _Piece(last.wire, last.length + more, last.media, end, last.is_gap)
