"""Items: one turn or one commit of audio each, from its first word to its transcript.

Every committed item gets exactly one `completed` or `failed`, in the order of the commits.
Source: OpenAI Realtime API, the server events of conversation items.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from livecap.api.realtime.dialects import PARTIAL, STALLED, TRANSCRIPTION
from livecap.api.realtime.errors import Refusal, new_id
from livecap.api.realtime.settings import WITH_LOGPROBS, WITH_PARTIALS, WITH_WORDS
from livecap.api.realtime.wire import ActionQueue
from livecap.errors import ConfigError, LivecapError
from livecap.events import RATE, Word

MS = RATE // 1000  # samples
LEAST_LOGPROB = -100.0  # for a probability of zero, whose logarithm JSON can't hold


@dataclass(slots=True, eq=False)
class Item:
    """One stretch of audio. Times are samples at 16 kHz on the session's clock."""

    id: str
    start: int
    stop: int | None = None  # None: it is not committed yet
    spoken: int | None = None  # until when its speech lasted; None: until its hearing ends
    text: str = ""  # all that was said for good: the deltas, joined
    tail: str = ""  # that may follow it
    words: list[Word] = field(default_factory=list)
    segments: list[tuple[int, int, str]] = field(default_factory=list)
    language: str | None = None
    partials: int = 0  # that were sent
    outcome: dict[str, object] | None = None  # the terminal event, sent when its turn comes
    is_completed: bool = False  # it was sent, and held a transcript

    def shape(self) -> dict[str, object]:
        """The item as clients see it."""
        content = {"type": "input_audio", "transcript": self.text if self.is_completed else None}
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": [content],
        }


class Ledger:
    """All items of a session. Keeps the texts of the last ones, and nothing of older ones."""

    def __init__(self, outbox: ActionQueue, limit: int, now: Callable[[], float]) -> None:
        """`most`: committed items that can be retrieved. `now`: Unix seconds."""
        self._outbox = outbox
        self._most = limit
        self._now = now
        self._known: dict[str, Item] = {}  # committed ones, the oldest first
        self._last: str | None = None  # the item committed last
        self.pending: deque[Item] = deque()  # committed, and their end is not told yet
        self.mark = 0  # samples: up to here, audio has been committed or cleared
        self.included: frozenset[str] = frozenset()  # extras that the client wants

    # Before the commit

    def reserve(self, start: int) -> Item:
        """An item for audio from there on. Nobody is told of it."""
        return Item(new_id("item"), start)

    def begin(self, start: int) -> Item:
        """The same, for speech that was detected: clients are told."""
        item = self.reserve(start)
        payload = {"audio_start_ms": start // MS, "item_id": item.id}
        self._outbox.send({"type": "input_audio_buffer.speech_started", **payload})
        return item

    def quieten(self, item: Item, stop: int) -> None:
        """Its speech has ended, silence included."""
        payload = {"audio_end_ms": stop // MS, "item_id": item.id}
        self._outbox.send({"type": "input_audio_buffer.speech_stopped", **payload})

    def commit(self, item: Item, stop: int) -> None:
        """The item's audio is complete."""
        assert item.stop is None, "committed twice"
        item.stop = max(stop, item.start)
        self.mark = max(self.mark, item.stop)
        chain = {"previous_item_id": self._last}
        self._last = item.id
        self._outbox.send({"type": "input_audio_buffer.committed", **chain, "item_id": item.id})
        for kind in ("added", "done"):
            self._outbox.send({"type": f"conversation.item.{kind}", **chain, "item": item.shape()})
        self.pending.append(item)
        self._known[item.id] = item
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    # Its text

    def say(self, item: Item, words: Sequence[Word], start: int, end: int) -> None:
        """Words that were said for good, and where they were heard."""
        assert item.outcome is None, "words after the end"
        text = "".join(word.text for word in words)
        text = text if item.text else text.lstrip()
        if not text:
            return
        item.text += text
        if self.included & {WITH_WORDS, WITH_LOGPROBS}:
            item.words += words
            item.segments.append((start, end, text.strip()))
        event: dict[str, object] = {
            "type": f"{TRANSCRIPTION}.delta",
            "item_id": item.id,
            "content_index": 0,
            "delta": text,
        }
        self._outbox.send(event | self._logprobs(words))

    def expect(self, item: Item, tail: str, processed_until: int) -> None:
        """What may follow its text, `heard` samples into the session."""
        if WITH_PARTIALS not in self.included or item.outcome is not None:
            return
        item.tail = tail if item.text else tail.lstrip()
        item.partials += 1
        event = {
            "type": PARTIAL,
            "item_id": item.id,
            "text": item.text + item.tail,
            "stable_chars": len(item.text),
            "audio_ms": max(processed_until - item.start, 0) // MS,
            "seq": item.partials,
            "created": int(self._now()),
        }
        self._outbox.send(event, coalesce=item.id)

    def stall(self, start: int, end: int, voiced: int) -> None:
        """So many samples of speech between made no text, and are decoded anew."""
        if WITH_PARTIALS in self.included:
            times = {"audio_start_ms": start // MS, "audio_end_ms": end // MS}
            self._outbox.send({"type": STALLED, **times, "voiced_ms": voiced // MS})

    # Its end

    def complete(self, item: Item) -> None:
        """All of a committed item's audio has been captioned."""
        assert item.stop is not None
        seconds = round((item.stop - item.start) / RATE, 3)
        event: dict[str, object] = {
            "type": f"{TRANSCRIPTION}.completed",
            "item_id": item.id,
            "content_index": 0,
            "transcript": item.text,
            "usage": {"type": "duration", "seconds": seconds},
        }
        if item.language:
            event["languages"] = [{"code": item.language}]
        self._end(item, event | self._logprobs(item.words) | self._timing(item))

    def fail(self, item: Item, error: LivecapError) -> None:
        """A committed item has no transcript."""
        failure = {
            "type": "server_error",
            "code": "transcription_failed",
            "message": error_message(error),
            "param": None,
        }
        event = {"type": f"{TRANSCRIPTION}.failed", "item_id": item.id, "content_index": 0}
        self._end(item, {**event, "error": failure})

    def _end(self, item: Item, event: dict[str, object]) -> None:
        assert item.outcome is None, "ended twice"
        item.outcome = event
        while self.pending and self.pending[0].outcome is not None:
            done = self.pending.popleft()
            outcome, done.outcome = done.outcome or {}, {}
            done.is_completed = "transcript" in outcome
            done.words, done.segments, done.tail = [], [], ""
            self._outbox.send(outcome)

    def _logprobs(self, words: Sequence[Word]) -> dict[str, object]:
        """A word stands for its tokens, whose mean probability is what is known."""
        if WITH_LOGPROBS not in self.included:
            return {}
        entries = [
            {
                "token": word.text,
                "logprob": math.log(word.probability) if word.probability > 0 else LEAST_LOGPROB,
                "bytes": list(word.text.encode()),
            }
            for word in words
            if word.probability is not None
        ]
        return {"logprobs": entries or None}

    def _timing(self, item: Item) -> dict[str, object]:
        if WITH_WORDS not in self.included or item.stop is None:
            return {}
        words = [
            {"word": word.text.strip(), "start": _seconds(word.start), "end": _seconds(word.end)}
            for word in item.words
        ]
        segments = [
            {"id": number, "start": start / RATE, "end": end / RATE, "text": text}
            for number, (start, end, text) in enumerate(item.segments)
        ]
        span = {"start_ms": item.start // MS, "end_ms": item.stop // MS}
        return {"words": words, "segments": segments, **span}

    # Afterwards

    def find(self, item_id: str) -> Item:
        """A committed item. Raises Refusal if it is unknown, deleted or too old."""
        if item_id not in self._known:
            message = f"There is no item {item_id[:100]!r}, or it is no longer kept."
            raise Refusal("item_not_found", message, param="item_id")
        return self._known[item_id]

    def delete(self, item_id: str) -> None:
        """Forget a committed item. Its transcript is still told if it is awaited."""
        del self._known[self.find(item_id).id]


def error_message(error: LivecapError) -> str:
    """What a client may know of an error: no paths and no names of this machine."""
    if isinstance(error, ConfigError):  # about what the client asked for
        return Refusal("", str(error)).message
    return f"The audio could not be transcribed ({error.code})."


def _seconds(samples: int | None) -> float | None:
    return None if samples is None else samples / RATE
