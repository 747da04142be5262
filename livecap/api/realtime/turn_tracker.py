"""One hearing: its events -> which item its words belong to, and when items begin and end."""

from collections import deque
from collections.abc import Sequence

from livecap.api.realtime.actions import Hearing
from livecap.api.realtime.items import Item, Ledger
from livecap.errors import LivecapError
from livecap.events import RATE, Caption, Event, Language, Settled, Stalled, VoiceActivity, Word
from livecap.text.sentences import is_complete

LONGEST_TURN = 120 * RATE  # samples: from here on a pause ends a turn, whatever was said


class TurnTracker:
    """What comes of one stream of audio.

    With turn detection its speech makes items, one after another, as long as `follows` holds.
    Otherwise it has one, which the client commits. After a commit by the client or `manual`,
    what voice activity says has no effect.
    """

    def __init__(
        self, number: int, hearing: Hearing, ledger: Ledger, *, start: int, wait: int | None
    ) -> None:
        """`start`: samples on the session's clock. `wait`: see `TurnDetection.wait`."""
        self.number = number
        self.hearing = hearing
        self._ledger = ledger
        self._wait = wait
        self._settled = start  # samples: all that was said by then has been captioned
        self._language = hearing.language
        self._latest: Item | None = None  # that words were added to
        self._cut: int | None = None  # samples: from here on, words were cleared
        self.follows = hearing.turns
        self.items: list[Item] = []  # without an outcome, the oldest first
        self.inbox: deque[Event] = deque()  # events that older ears have to go before
        self.is_over = False  # and after these there are no more
        self.error: LivecapError | None = None  # why it ended
        self.failed_at = 0  # samples, then
        self.is_finished = False  # no more audio goes here
        self.stop: int | None = None  # samples: where its audio ended, others may follow
        self.is_discarded = False  # nothing is wanted but the items that it has
        self.is_stale = False  # the configuration has changed; to be finished when nobody speaks
        if not self.follows:
            self.items.append(ledger.reserve(start))

    @property
    def speaking(self) -> Item | None:
        """The item that goes on, not committed yet."""
        return self.items[-1] if self.items and self.items[-1].stop is None else None

    def take(self, event: Event) -> None:
        """What has been heard, in order."""
        match event:
            case VoiceActivity(start=at, begins=True):
                self._begin(at)
            case VoiceActivity(start=at):
                self._pause(at)
            case Caption():
                self._say(event)
            case Settled():
                self._settle(event)
            case Stalled(start, end, voiced):
                self._ledger.stall(start, end, voiced)
            case Language(code=code):
                self._language = code
            case _:
                pass  # silence, gaps and such are nothing that clients are told of

    def advance(self, position: float) -> None:
        """So much audio has come, samples. It may be long enough that nobody spoke."""
        item = self.speaking
        if self.follows and self._wait is not None and item and item.spoken is not None:
            stop = item.spoken + self._wait
            if position >= stop:
                self._stop(item, stop)

    # What the client does

    def commit(self, stop: int) -> None:
        """The client's commit: an item of all audio up to there, samples. It ends with the hearing.

        Sends no `speech_stopped` (OpenAI Realtime API).
        """
        item = self.speaking
        if item is None:
            item = self._ledger.reserve(self._ledger.mark)
            self.items.append(item)
        item.spoken = None
        self.follows = False
        self._ledger.commit(item, stop)

    def manual(self, position: int) -> None:
        """From here on, samples, the client commits: the item that goes on, or a new one."""
        self.follows = False
        if self.speaking is None:
            self._ledger.mark = max(self._ledger.mark, position)  # silence so far is no buffer
            self.items.append(self._ledger.reserve(self._ledger.mark))

    def abandon(self) -> None:
        """Nothing that is not committed yet is wanted any more."""
        item = self.speaking
        self._cut = item.start if item else self._ledger.mark
        self.follows = False
        if item:
            self.items.pop()

    # How it ends

    def close(self, stop: int) -> None:
        """All has been heard, up to there."""
        item = self.speaking
        if item and self.follows:
            self._stop(item, item.spoken if item.spoken is not None else stop)
        for waiting in list(self.items):
            self._complete(waiting)

    def fail(self, stop: int) -> None:
        """It broke off. What the client has not committed yet stays as it is."""
        assert self.error is not None
        item = self.speaking
        if item and self.follows:
            self._ledger.quieten(item, stop)
            self._ledger.commit(item, stop)
        for waiting in [one for one in self.items if one.stop is not None]:
            self.items.remove(waiting)
            self._ledger.fail(waiting, self.error)

    # Voice activity

    def _begin(self, at: int) -> None:
        if not self.follows:
            return
        item = self.speaking
        if item is None:
            self._open(at)
        elif item.spoken is not None:  # it was in doubt whether the turn had ended
            assert self._wait is not None
            if at < item.spoken + self._wait:
                item.spoken = None
            else:
                self._stop(item, item.spoken + self._wait)
                self._open(at)

    def _pause(self, at: int) -> None:
        item = self.speaking
        if not self.follows or item is None or item.spoken is not None:
            return
        item.spoken = max(at, item.start)
        if self._wait is None:
            self._stop(item, at)
        else:
            self._judge(item)

    def _judge(self, item: Item) -> None:
        """Someone has paused: end the turn if what was said is whole sentences."""
        assert item.spoken is not None
        is_long = item.spoken - item.start >= LONGEST_TURN
        if self._settled >= item.spoken and (is_long or is_complete(item.text)):
            self._stop(item, item.spoken)

    def _open(self, at: int) -> Item:
        item = self._ledger.begin(max(at, self._ledger.mark))
        self.items.append(item)
        return item

    def _stop(self, item: Item, stop: int) -> None:
        item.spoken = item.spoken if item.spoken is not None else stop
        self._ledger.quieten(item, max(stop, item.start))
        self._ledger.commit(item, stop)
        if self._settled >= item.spoken:
            self._complete(item)

    # Text

    def _say(self, caption: Caption) -> None:
        self._language = caption.language or self._language
        if not self.items and self.follows and (caption.words or caption.tail.strip()):
            self._open(caption.start)  # text without detected speech is text all the same
        groups: list[tuple[Item, list[Word]]] = []
        for word in caption.words:
            item = self._owner(word)
            if item and groups and groups[-1][0] is item:
                groups[-1][1].append(word)
            elif item:
                groups.append((item, [word]))
        for item, words in groups:
            item.language = self._language
            start, end = _span(words, caption)
            self._ledger.say(item, words, start, end)
        if self._latest not in self.items:
            self._latest = self.items[0] if self.items else None
        if self._latest and (caption.tail or self._latest.tail or caption.words):
            self._ledger.expect(self._latest, caption.tail, caption.processed_until)

    def _owner(self, word: Word) -> Item | None:
        """The item that a word belongs to: never an older one than the word before it."""
        if self._cut is not None and word.start is not None and word.start >= self._cut:
            return None
        first = self.items.index(self._latest) if self._latest in self.items else 0
        owner = None
        for item in self.items[first:]:
            if owner is None or (word.start is not None and item.start <= word.start):
                owner = item
        self._latest = owner
        return owner

    def _settle(self, event: Settled) -> None:
        self._settled = max(self._settled, event.start)
        for item in list(self.items):
            is_heard = item.spoken is not None and item.spoken <= self._settled
            if item.stop is not None and is_heard:
                self._complete(item)
        going = self.speaking
        if going is None or not self.follows:
            return
        if going.spoken is not None:
            self._judge(going)
        elif not event.paused and going.start < event.start:
            self._stop(going, event.start)
            self._open(event.start)

    def _complete(self, item: Item) -> None:
        self.items.remove(item)
        if item.text:
            item.language = item.language or self._language
        self._ledger.complete(item)


def _span(words: Sequence[Word], caption: Caption) -> tuple[int, int]:
    """From the first word's start to the last one's end; as exact as the caption if unknown."""
    start, end = words[0].start, words[-1].end
    start = caption.start if start is None else start
    return start, max(caption.processed_until if end is None else end, start)
