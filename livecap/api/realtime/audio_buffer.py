"""A client's audio, commits and clears -> hearings; what they tell -> items.

One hearing follows the other; a new one is opened with the first audio after the last was
finished. Sources: OpenAI Realtime API, `input_audio_buffer`.
"""

from collections.abc import Sequence

from livecap.api.realtime.actions import Drop, Feed, Finish, Open, Pcm
from livecap.api.realtime.connection import SessionLimits
from livecap.api.realtime.errors import Refusal, error_event
from livecap.api.realtime.formats import Int16, Intake
from livecap.api.realtime.items import MS, Ledger, error_message
from livecap.api.realtime.settings import SessionSettings
from livecap.api.realtime.turn_tracker import TurnTracker
from livecap.api.realtime.wire import ActionQueue
from livecap.errors import EngineFault, LivecapError
from livecap.events import RATE, Event

BLOCK_S = 60  # of audio that are resampled at once, however much comes in one event
RETRY = 5 * RATE  # samples after which a stream that failed is tried again


class Listener:
    """The audio buffer of a session, and the hearings that it goes to."""

    def __init__(
        self, settings: SessionSettings, limits: SessionLimits, outbox: ActionQueue, ledger: Ledger
    ) -> None:
        self.settings = settings
        self._limits = limits
        self._outbox = outbox
        self._ledger = ledger
        self._ears: dict[int, TurnTracker] = {}  # that are not over, the oldest first
        self._ear: TurnTracker | None = None  # the one that audio goes to
        self._opened = 0  # hearings so far
        self._clock = 0  # samples at 16 kHz that the resamplers have given
        self._intake: Intake | None = None  # None: nothing is held back
        self._half = b""  # of a sample whose other half has not come
        self.has_heard = False  # any audio at all has come
        self.is_broken = False  # the engine has ended: there is nobody to hear anything

    @property
    def pending(self) -> int:
        """Hearings that are not over."""
        return len(self._ears)

    @property
    def buffered(self) -> float:
        """Milliseconds of audio since the last commit or clear."""
        position = self._intake.position if self._intake else self._clock
        return max(position - self._ledger.mark, 0) / MS

    @property
    def is_idle(self) -> bool:
        """Whether nothing is awaited."""
        return not self._ears and not self._ledger.pending

    # What the client does

    def take(self, raw: bytes) -> None:
        """Audio as it came, in the session's format. A sample may be cut in two."""
        raw = self._half + raw
        whole = len(raw) - len(raw) % self.settings.form.width
        self._half = raw[whole:]
        self.sound(self.settings.form.samples(raw[:whole]))

    def sound(self, samples: Int16) -> None:
        """Audio in the session's format, [sample]."""
        self.has_heard = self.has_heard or bool(len(samples))
        while len(samples):
            if self._intake is None:
                self._intake = Intake(self.settings.form, self._clock)
            room = BLOCK_S * self._intake.form.rate
            if self.settings.turns is None:
                room = min(room, self._intake.room(self._limit))
            self._hear(self._intake, samples[:room])
            samples = samples[room:]
            is_full = self._intake is not None and self._intake.position >= self._limit
            if self.settings.turns is None and is_full:
                self._commit()

    def commit(self, least: int | None) -> None:
        """The client's commit; of at least so many milliseconds. None: of nothing at all, too.

        Raises Refusal, and keeps the buffer.
        """
        held, ear = self.buffered, self._ear
        speaks = ear is not None and ear.follows and ear.speaking is not None
        if least is not None and not speaks and (held < least or not held):
            raise Refusal(
                "input_audio_buffer_commit_empty",
                f"The input audio buffer is too small: a commit needs at least {max(least, 1)} ms "
                f"of audio, and the buffer holds {held:.2f} ms.",
            )
        if len(self._ledger.pending) >= self._limits.pending:
            message = "Too many commits are waiting for their text. Wait for some to be completed."
            raise Refusal("rate_limit_exceeded", message, kind="rate_limit_error")
        self._commit()

    def clear(self) -> None:
        """Forget what is not committed."""
        self._half = b""
        self._flush(None)
        self._ear = None
        for ear in list(self._ears.values()):
            if ear.follows or not ear.is_finished:
                ear.abandon()
                self._discard(ear)
        self._ledger.mark = self._clock
        self._process()

    def pause(self) -> None:
        """No audio comes for now: a turn that goes on is over. The clock stands still meanwhile."""
        if self._ear and self._ear.follows:
            self._end(self._ear)

    def finish(self) -> None:
        """No more audio comes: commit what there is, or let the last turn end."""
        self.pause()
        if self._ear:
            self._empty()

    def apply(self, settings: SessionSettings) -> None:
        """New settings, from the next item on. The format may change on an empty buffer alone."""
        before, self.settings = self.settings, settings
        ear = self._ear
        if settings.form != before.form:
            self._half = b""
            self._flush(ear)
        if ear is None:
            return
        if settings.turns is None:
            if ear.follows:
                ear.manual(self._clock)
        elif not ear.follows:  # the client commits no more, so nobody else would
            self._empty()
        elif (settings.hearing, settings.turns) != (before.hearing, before.turns):
            ear.is_stale = True
            self._renew(ear)

    # What hearings tell

    def accept(self, number: int, events: Sequence[Event]) -> None:
        """Events of a hearing. Those of one that was dropped are left alone."""
        if number in self._ears:
            self._ears[number].inbox.extend(events)
            self._process()

    def ended(self, number: int, error: LivecapError | None) -> None:
        """A hearing has told all it had to tell."""
        ear = self._ears.get(number)
        if ear is None or ear.is_over:
            return
        if error is None and not ear.is_finished:
            error = LivecapError("the stream ended before its audio did", remedy="Go on speaking")
        ear.is_over, ear.error = True, error
        self.is_broken = self.is_broken or isinstance(error, EngineFault)
        self._process()

    def give_up(self) -> None:
        """All that is awaited has failed: there is no time left."""
        error = LivecapError("the session had to end first", remedy="Connect again")
        for ear in self._ears.values():
            ear.error = ear.error or error
            ear.fail(self._clock)
            if not ear.is_over:
                self._outbox.do(Drop(ear.number))
        self._ears.clear()
        self._ear = None

    # Inside

    @property
    def _limit(self) -> int:
        """Session time at which a buffer without turn detection is full, samples."""
        limits = self._limits
        is_vllm = self.settings.dialect == "vllm"
        seconds = limits.max_stream_s if is_vllm else limits.max_buffer_s
        return self._ledger.mark + seconds * RATE

    def _hear(self, intake: Intake, samples: Int16) -> None:
        ear = self._ear
        if ear and ear.error and ear.follows and self._clock - ear.failed_at >= RETRY:
            ear = None
        ear = ear or self._open()
        self._feed(ear, intake.feed(samples))
        ear.advance(intake.position)

    def _open(self) -> TurnTracker:
        self._opened += 1
        hearing, turns = self.settings.hearing, self.settings.turns
        self._outbox.do(Open(self._opened, hearing))
        ear = TurnTracker(
            self._opened,
            hearing,
            self._ledger,
            start=self._clock,
            wait=turns.wait if turns else None,
        )
        self._ears[ear.number] = self._ear = ear
        return ear

    def _feed(self, ear: TurnTracker | None, pcm: Pcm) -> None:
        """Count the audio, and give it to the ear if that still hears."""
        start, self._clock = self._clock, self._clock + pcm.shape[1]
        if ear and not ear.is_over and pcm.shape[1]:
            self._outbox.do(Feed(ear.number, start, pcm))

    def _flush(self, ear: TurnTracker | None) -> None:
        """What the resampler held back. The next audio gets a new one."""
        if self._intake:
            self._feed(ear, self._intake.flush())
            self._intake = None

    def _end(self, ear: TurnTracker) -> None:
        """No more audio for it."""
        self._flush(ear)
        ear.is_finished, ear.stop = True, self._clock
        self._ear = None
        if not ear.is_over:
            self._outbox.do(Finish(ear.number))

    def _empty(self) -> None:
        """Commit the buffer, if it holds anything."""
        if self.buffered:
            self._commit()
        else:
            self.clear()

    def _commit(self) -> None:
        ear = self._ear or next((one for one in self._ears.values() if one.follows), None)
        if ear is None:  # no audio at all
            item = self._ledger.reserve(self._ledger.mark)
            self._ledger.commit(item, self._clock)
            self._ledger.complete(item)
            return
        if ear is self._ear:
            self._end(ear)
        ear.commit(self._clock)
        if ear.error:
            ear.fail(self._clock)
        else:
            self._process()  # newer hearings need not wait for it any more

    def _discard(self, ear: TurnTracker) -> None:
        """Nothing more is wanted of it, unless it has items whose text is awaited."""
        if ear.is_over:
            ear.is_discarded = True
        elif not ear.items:
            self._outbox.do(Drop(ear.number))
            del self._ears[ear.number]
        elif not ear.is_finished:
            ear.is_finished = ear.is_discarded = True
            self._outbox.do(Finish(ear.number))
        else:
            ear.is_discarded = True

    def _renew(self, ear: TurnTracker) -> None:
        """Its configuration is old: the next audio goes to another, but for a turn's own."""
        if ear.is_stale and ear is self._ear and (ear.speaking is None or ear.is_over):
            self._end(ear)

    def _process(self) -> None:
        """Take in what hearings have told. One that may still make items goes before later ones."""
        for ear in list(self._ears.values()):
            while ear.inbox:
                ear.take(ear.inbox.popleft())
                self._renew(ear)
            if ear.is_over:
                self._close(ear)
            elif ear.is_discarded and not ear.items:
                self._discard(ear)
            elif ear.follows:
                return

    def _close(self, ear: TurnTracker) -> None:
        del self._ears[ear.number]
        stop = self._clock if ear.stop is None else ear.stop
        if ear.error is None:
            ear.close(stop)
            return
        is_silent = not ear.items
        ear.fail(stop)
        ear.failed_at = self._clock
        if (
            is_silent and not ear.is_discarded and not self.is_broken
        ):  # there is no item that could fail
            refusal = Refusal("transcription_failed", error_message(ear.error), kind="server_error")
            self._outbox.send(error_event(refusal))
