"""One connection to `/v1/realtime`, from its first frame to its last. No input or output.

    conversation = Conversation(wanted)
    for message in conversation.receive(frame): ...   # what is to be sent in answer
    for message in conversation.audio(pcm): ...       # once `state` is open
    conversation.turns                                # what has been heard, the oldest first

Times are samples at 16 kHz of all audio sent over this connection. With livecap's server audio goes
as it is, texts come with the hypothesis behind them and words with times; another server of this
API tells deltas and whole texts. Source: OpenAI Realtime API, and livecap's additions to it.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

from livecap.client.replay_buffer import Pcm16
from livecap.client.wire import (
    MS,
    Encoded,
    Frame,
    Message,
    Raw,
    Wanted,
    configuration,
    event,
    frame_of,
    inner,
    number,
    objects,
    samples,
    text,
)
from livecap.events import RATE

SYNC = 2 * RATE  # samples after which livecap's server is asked how far it has come
WINDOW = 10 * RATE  # samples that it may be behind before it is sent no more
REMEMBERED = 100  # turns whose late frames are known to be such
FIRST = ("session.created", "transcription_session.created")
TRANSCRIPTION = "conversation.item.input_audio_transcription."
# The last commit, or one in silence, found nothing to commit.
HARMLESS = ("input_audio_buffer_commit_empty",)
# What is told right before the server closes, which says the same.
FAREWELLS = ("session_expired", "session_idle_timeout", "server_stopping")

State = Literal["greeting", "configuring", "open", "closing", "over"]


@dataclass(slots=True, eq=False)
class ServerTurn:
    """A stretch of speech that the server has found."""

    id: str
    start: int
    stop: int | None = None  # None: it goes on
    is_speech: bool = False  # the server has heard a voice, not only a commit
    text_so_far: str = ""  # words that are said for good
    shown: str = ""  # those, and what may follow
    processed: int | None = None  # up to where it has been heard, as far as the server tells
    final: Frame | None = None  # the event with its text
    failure: str | None = None  # why there is none

    @property
    def is_over(self) -> bool:
        """Whether no more is told of it."""
        return self.final is not None or self.failure is not None


class Conversation:
    """The client's side of the protocol."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._format: Raw | Encoded = Raw()
        self._ended: deque[str] = deque(maxlen=REMEMBERED)  # ids of turns that are over
        self._marks: deque[int] = deque()  # what was sent when an answer was asked for
        self._last = 0  # where the last turn that was begun, ends or begins
        self._is_answered = False  # the commit at the end
        self.state: State = "greeting"
        self.is_own = False  # the server is livecap's
        self.model = ""  # as the server calls it
        self.length: float | None = None  # seconds until the server ends the session
        self.turns: deque[ServerTurn] = (
            deque()
        )  # all whose end has not been taken, the oldest first
        self.sent = 0  # samples
        self.taken = 0  # samples that the server has certainly got
        self.refusal: tuple[str, str] | None = None  # code and reason: it wants no such session
        self.broken: str | None = None  # why it hears no more, although it has not closed
        self.notices: list[str] = []  # what else it says; to be taken away

    # What is sent

    @property
    def room(self) -> int:
        """How many samples may be sent now."""
        if self.state != "open":
            return 0
        return max(self.taken + WINDOW - self.sent, 0) if self.is_own else WINDOW

    @property
    def is_asked(self) -> bool:
        """Whether the server still has to say that it has come so far."""
        return bool(self._marks)

    def audio(self, pcm: Pcm16) -> list[Message]:
        """Audio that follows that before."""
        messages: list[Message] = [self._format.encode(pcm)]
        before, self.sent = self.sent, self.sent + len(pcm)
        if not self.is_own:
            self.taken = self.sent
        elif self.sent // SYNC > before // SYNC:
            messages.append(self.ask())
        return messages

    def ask(self) -> Message:
        """An event that changes nothing: its answer says that all before it has come."""
        self._marks.append(self.sent)
        return event("session.update", event_id="sync", session={"type": "transcription"})

    def finish(self) -> list[Message]:
        """No more audio comes: the server is to tell the rest."""
        assert self.state == "open"
        self.state = "closing"
        if self.is_own:
            return [event("session.close")]
        return [*self._format.flush(), event("input_audio_buffer.commit", event_id="finish")]

    # What comes

    def receive(self, data: Message) -> list[Message]:
        """A frame -> what is to be sent in answer."""
        try:
            frame = frame_of(data)
        except ValueError:
            self.refusal = ("", "what it says is no JSON")
            return []
        kind = text(frame, "type")
        if kind == "error":
            self._error(inner(frame, "error"))
        elif self.state == "greeting":
            return self._greeted(kind, frame)
        elif kind in ("session.updated", "transcription_session.updated"):
            self._updated(frame)
        elif kind.startswith("input_audio_buffer."):
            self._buffer(kind.removeprefix("input_audio_buffer."), frame)
        elif kind == "livecap.transcription.partial":
            self._partial(frame)
        elif kind == "livecap.transcription.stalled":
            voiced = round((number(frame, "voiced_ms") or 0.0) / 1000)
            self.notices.append(f"{voiced} s of speech made no text; the server decodes it anew")
        elif kind.startswith(TRANSCRIPTION):
            self._text(kind.removeprefix(TRANSCRIPTION), frame)
        return []

    def take(self) -> list[ServerTurn]:
        """Turns that are over, in their order: none goes before an earlier one."""
        over = []
        while self.turns and self.turns[0].is_over:
            over.append(self.turns.popleft())
            self._ended.append(over[-1].id)
        if self.state == "closing" and self._is_answered and not self.turns:
            self.state = "over"
        return over

    def closed(self) -> bool:
        """The server has closed as it should: whether that is because all has been told."""
        if self.state == "closing" and self.is_own and not self.turns and self.broken is None:
            self.state = "over"
        return self.state == "over"

    def _greeted(self, kind: str, frame: Frame) -> list[Message]:
        if kind not in FIRST:
            self.refusal = ("", "it does not speak OpenAI's Realtime API")
            return []
        session = inner(frame, "session")
        self.is_own = isinstance(session.get("livecap"), dict)
        begun, end = number(frame, "created"), number(session, "expires_at")
        if not self.is_own:
            self._format = Encoded()
        elif begun and end:
            self.length = end - begun
        self.state = "configuring"
        return [configuration(self._wanted, own=self.is_own)]

    def _updated(self, frame: Frame) -> None:
        if self.state == "configuring":
            self.state = "open"
            spoken = inner(frame, "session", "audio", "input", "transcription")
            self.model = text(spoken, "model")
        elif self._marks:
            self.taken = self._marks.popleft()

    def _error(self, error: Frame) -> None:
        code, message = text(error, "code"), text(error, "message")
        payload = message or code or "an error without words"
        asked = error.get("event_id")
        if self.state in ("greeting", "configuring"):
            self.refusal = (code, payload)
        elif asked == "sync" and self._marks:
            self.taken = self._marks.popleft()
        elif self.state == "closing" and (asked == "finish" or code in HARMLESS):
            self._is_answered = not self.is_own
        elif code == "transcription_failed":
            self.broken = payload
        elif code not in (*HARMLESS, *FAREWELLS):
            self.notices.append(payload)

    def _buffer(self, kind: str, frame: Frame) -> None:
        item, at = text(frame, "item_id"), None
        if kind == "speech_started":
            at = number(frame, "audio_start_ms")
            turn = self._turn(item)
            turn.is_speech = True
            if at is not None:
                turn.start = self._last = max(round(at * MS), self._last)
        elif kind == "speech_stopped":
            at = number(frame, "audio_end_ms")
            self._stop(self._turn(item), round(at * MS) if at is not None else None)
        elif kind == "committed":
            turn = self._turn(item)
            if turn.stop is None:
                self._stop(turn, None)
            self._is_answered = self._is_answered or (self.state == "closing" and not self.is_own)

    def _partial(self, frame: Frame) -> None:
        turn = self._turn(text(frame, "item_id"))
        shown, reached = text(frame, "text"), number(frame, "audio_ms")
        # One that waited while words were said may be older than they are.
        turn.shown = shown if len(shown) >= len(turn.text_so_far) else turn.text_so_far
        if reached is not None:
            turn.processed = turn.start + round(reached * MS)

    def _text(self, kind: str, frame: Frame) -> None:
        if kind not in ("delta", "completed", "failed"):
            return
        turn = self._turn(text(frame, "item_id"))
        if kind == "delta":
            turn.text_so_far += text(frame, "delta")
            turn.shown = turn.text_so_far
            return
        start, stop = number(frame, "start_ms"), number(frame, "end_ms")
        if start is not None:
            turn.start = round(start * MS)
        self._stop(turn, turn.stop if stop is None else round(stop * MS))
        if kind == "completed":
            turn.final = frame
            return
        turn.failure = text(inner(frame, "error"), "message") or "the server gives no reason"
        if self.is_own:
            self.broken = turn.failure  # what it was to hear next is not heard either

    def _turn(self, item: str) -> ServerTurn:
        found = next((turn for turn in self.turns if turn.id == item), None)
        if found is None:
            found = ServerTurn(item, self._last)
            if item and item not in self._ended:
                self.turns.append(found)
        return found

    def _stop(self, turn: ServerTurn, at: int | None) -> None:
        turn.stop = max(self.sent if at is None else at, turn.start)
        self._last = max(self._last, turn.stop)


def language(final: Frame) -> str | None:
    """The language that a final text says it is in."""
    return next((text(one, "code") for one in objects(final, "languages")), "") or None


def spoken(final: Frame) -> list[tuple[str, int | None, int | None]]:
    """The words of a final text, each with its times, as far as they are told."""
    return [
        (text(one, "word"), samples(number(one, "start")), samples(number(one, "end")))
        for one in objects(final, "words")
    ]
