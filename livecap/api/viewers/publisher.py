"""What one connection says in a broadcast, which may go on over several."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from livecap.api.viewers.channel import Broadcast
from livecap.events import RATE, Caption, Event, Gap, Word

LONGEST = 7 * 24 * 3600 * 1000  # ms: no talk is longer


@dataclass(frozen=True, slots=True)
class Part:
    """A connection that is one of several of a talk: when it breaks, another will come."""

    of: str = ""  # the broadcast's id, if the talk has begun before
    at: int | None = None  # samples on its clock where this connection's audio begins
    key: str = ""  # what only those know who have begun it

    @staticmethod
    def of_query(query: Mapping[str, str]) -> "Part | None":
        """`captions=` begins a talk, `captions=ID&captions_at=MS` goes on with it (and with the
        `captions_key` of its session, where there are keys). Without the first, the connection is
        all there is; what is no number counts as not known.
        """
        if "captions" not in query:
            return None
        at = query.get("captions_at", "")
        known = at.isascii() and at.isdecimal() and len(at) < 10 and int(at) <= LONGEST
        samples = int(at) * RATE // 1000 if known else None
        return Part(query["captions"], samples, query.get("captions_key", ""))


class Speaker:
    """Passes on what is heard, on the broadcast's clock, until another connection goes on.

    What one connection has told is not told again by the next, which hears the end of it anew.
    """

    def __init__(self, broadcast: Broadcast, *, shift: int = 0, told: int = 0) -> None:
        """`shift`: samples on the broadcast's clock when this one's begins; `told`: up to which all
        has been told.
        """
        self.broadcast = broadcast
        self.may_return = False  # when it breaks off, another will come
        self.is_current = True
        self.is_away = False  # its connection broke, and another is waited for
        self._shift = shift
        self._told = told

    def take(self, hearing: int, events: Sequence[Event]) -> None:
        """What one of the connection's streams has told, in order."""
        if self.is_current:
            self.broadcast.take(hearing, [*self._placed(events)])

    def finish(self, hearing: int) -> None:
        """That stream is over."""
        if self.is_current:
            self.broadcast.finish(hearing)

    def _placed(self, events: Sequence[Event]) -> Iterable[Event]:
        for event in events:
            match event:
                case Caption():
                    yield self._caption(event)
                case Gap():
                    shifted = replace(
                        event, start=event.start + self._shift, end=event.end + self._shift
                    )
                    if shifted.end > self._told:
                        yield shifted
                case _:
                    yield event

    def _caption(self, caption: Caption) -> Caption:
        words = [self._word(word) for word in caption.words]
        processed_until = caption.processed_until + self._shift
        new_words = tuple(word for word in words if self._is_new(word, processed_until))
        start = max(caption.start + self._shift, 0)
        return replace(caption, start=start, processed_until=processed_until, words=new_words)

    def _word(self, word: Word) -> Word:
        start, end = (None if at is None else at + self._shift for at in (word.start, word.end))
        return replace(word, start=start, end=end)

    def _is_new(self, word: Word, processed_until: int) -> bool:
        start, end = word.start, word.end
        middle = processed_until if start is None or end is None else (start + end) // 2
        return middle > self._told
