"""One live stream: PCM and speech probabilities -> updates for a model; hypotheses -> captions.

No I/O, threads, clock or torch. Time goes on frame by frame, and stands still while a hypothesis is
awaited: what comes out does not depend on the size of the pieces that come in. Only where a
machine is too slow for every update (`catch_up`) are some left out.
"""

from collections import deque
from collections.abc import Iterable

from livecap.epoch import Epoch
from livecap.events import RATE, Event
from livecap.live_config import SEARCH, LiveConfig
from livecap.opened import Opened
from livecap.segments import Pcm, Segment, is_audible, quietest
from livecap.transcript import Transcript
from livecap.turns import Turns
from livecap.vad import FRAME
from livecap.work import Hypothesis, Work

LATE = 10 * RATE  # samples that have come and wait, from which pauses are passed over, too
EVIDENCE = 3 * RATE  # samples of speech that tell its language
ENOUGH = 5  # words that tell it, too


class Live:
    """A stream that is captioned while it goes on. It is a `session.Stream`."""

    def __init__(self, config: LiveConfig) -> None:
        self.config = config
        self._epochs: deque[Epoch] = deque([Epoch(config.vad, 0)])
        self.opened = Opened(0)
        tail = config.vad.vad_tail * RATE // 1000 if config.vad else 0
        self._pause = max(config.pause, tail)  # what is kept after speech is heard with it
        self._bridge = max(config.bridge, tail)
        self._turns = Turns(config.vad if config.turns else None, self._pause)
        self._ready: Work | None = None
        self._hangs = False  # whether something waits for it: a pause or an end that was reached
        self._given: Work | None = None  # its hypothesis is awaited
        self._closing = 0, True  # where the open segment ends, in media time; and in a pause
        self._before: tuple[str, ...] = ()  # words that the next segment goes on from
        self._released: list[object] = []
        self._transcript = Transcript(language=config.language, speaker=config.speaker)
        self.heard = 0  # samples given to the model
        self.total = 0  # samples fed

    # What comes in

    def feed(self, pcm: Pcm, probabilities: Iterable[float]) -> None:
        """The next samples [n], and the speech probabilities of the frames they made whole."""
        assert not self._epochs[-1].is_closed, "audio after the end"
        chances = list(probabilities)
        self._epochs[-1].feed(pcm, chances)
        self._turns.feed(chances)
        self.total += len(pcm)

    def close(self) -> None:
        """No more audio comes. What was heard is finished; closing again does nothing."""
        self._epochs[-1].is_closed = True

    def skip(self, to: int) -> None:
        """The source goes on at media time `to`; between, it has nothing."""
        last = self._epochs[-1]
        assert to >= last.stop, "time went back"
        last.is_closed = True
        self._transcript.gap(last.stop, to)
        self._turns.skip(to)
        self._epochs.append(Epoch(self.config.vad, to))

    def accept(self, hypothesis: Hypothesis) -> None:
        """Take the result of the work that was given out last."""
        work, update = hypothesis.work, hypothesis.work.update
        assert work is self._given, "not what was asked for"
        assert update is not None
        self._given = None
        is_news = self.opened.take(hypothesis)
        if update.last:
            self._finish(work, hypothesis)
        elif is_news:
            part = self.opened.decide(self.config.policy, final=False)
            self._transcript.publish(work, part)

    # What goes out

    @property
    def has_work(self) -> bool:
        """Whether `work` has something now. Lets time go on."""
        if self._is_overtaken:
            self._ready = None
        if self._ready is None and self._given is None:
            self._advance()
        return self._ready is not None

    @property
    def _is_overtaken(self) -> bool:
        """Whether more has come since an update was found to be due, and nobody took it."""
        is_late = self.config.catch_up and bool(self._epochs[0].chances)
        return is_late and self._ready is not None and not self._hangs

    @property
    def is_urgent(self) -> bool:
        """Whether the next piece of work is what speech that has paused or ended waits for."""
        return self._ready is not None and self._hangs

    @property
    def overdue(self) -> int:
        """Samples that have come since the speech in the next piece of work ended."""
        return self.reached - self._ready.segment.stop if self._ready else 0

    def work(self) -> Work | None:
        """The next piece to recognise, or None for now."""
        if not self.has_work:
            return None
        self._given, self._ready = self._ready, None
        if self._given:
            self.heard += max(len(self._given.segment.pcm) - self.opened.heard, 0)
        return self._given

    @property
    def next_start(self) -> int:
        """Where the next piece of work begins, on the media timeline."""
        assert self._ready is not None
        return self._ready.segment.start

    @property
    def settled(self) -> int:
        """Media time before which no caption comes any more."""
        epoch, work = self._epochs[0], self._given or self._ready
        return work.segment.start if work else epoch.origin + epoch.speech.start

    @property
    def reached(self) -> int:
        """Media time up to which audio has come."""
        return self._epochs[-1].stop

    @property
    def unheard(self) -> int:
        """Samples that came in and have been neither heard by the model nor judged to be silent."""
        waiting = sum(epoch.fed - epoch.speech.now for epoch in self._epochs)
        work, heard = self._given or self._ready, self.opened.heard
        if work and work.update and work.update.last:
            return waiting + self._epochs[0].speech.length + len(work.segment.pcm) - heard
        return waiting + max(self._epochs[0].speech.length - heard, 0)

    @property
    def language(self) -> str | None:
        """The one that is spoken, once that is sure."""
        return self._transcript.language

    @property
    def is_done(self) -> bool:
        """Whether everything that came has been recognised."""
        return not self.has_work and self._given is None

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        return [*self._turns.take(), *self._transcript.take()]

    def finish(self) -> list[Event]:
        """After the last hypothesis: the events left, the silence at the end among them."""
        assert self.is_done
        self._transcript.silence(self._epochs[-1].stop)
        return self.events()

    def released(self) -> list[object]:
        """What families kept for segments that have ended without them: to be freed."""
        released, self._released = self._released, []
        return released

    def abandon(self) -> list[object]:
        """The stream is dropped: all that families kept for it. There is nothing to do after."""
        self._ready = self._given = None
        self._epochs = deque([Epoch(self.config.vad, self._epochs[-1].stop)])
        self._epochs[0].is_closed = True
        self._release()
        return self.released()

    # Time

    def _advance(self) -> None:
        """Let time go on until there is work or no more audio."""
        while self._ready is None:
            epoch = self._epochs[0]
            if epoch.step():
                self._consider(epoch)
            elif epoch.is_closed and not epoch.is_judged:
                epoch.end()
            elif epoch.is_judged and epoch.speech.is_open:
                length = epoch.speech.length
                self._close(epoch, self._cut(epoch) if length > self.config.most else length)
            elif epoch.is_judged and len(self._epochs) > 1:
                self._epochs.popleft()
            else:
                return

    def _consider(self, epoch: Epoch) -> None:
        """After a frame: whether the open segment ends here, or an update is due."""
        speech = epoch.speech
        if not speech.is_open:
            return
        length = speech.length
        if not speech.has_paused:
            self._turns.speaking()
        if length >= self.config.most:
            self._close(epoch, self._cut(epoch))
        elif speech.has_paused and speech.silence >= self._bridge:
            self._close(epoch, length)
        elif speech.has_paused and speech.silence >= self._pause and self._is_heard(length):
            self._settle(epoch, length)
        else:
            target = self._due(epoch, length)
            if target:
                self._ask(
                    speech.view(target).moved(epoch.origin),
                    whole=speech.has_paused,
                    hangs=speech.has_paused and speech.silence >= self._pause,
                )

    def _is_heard(self, length: int) -> bool:
        """Whether there is nothing more to be heard in the open segment of that length."""
        return self.opened.whole and self.opened.heard == length

    def _settle(self, epoch: Epoch, length: int) -> None:
        """A pause: say all that was heard. The segment goes on if it is short, and not stuck."""
        is_whole = length >= self.config.sentence and self.opened.ends_sentence
        if is_whole or self.opened.is_stuck:
            self._close(epoch, length)
            return
        if not self.opened.is_told:
            segment = epoch.speech.view(length).moved(epoch.origin)
            part = self.opened.decide(self.config.policy, final=True)
            self._transcript.publish(self._work(segment, whole=True, last=False), part)
        self._tell_settled(epoch.origin + epoch.speech.now, True)

    def _tell_settled(self, at: int, paused: bool) -> None:
        self._transcript.events += self._turns.settle(at, paused=paused)

    def _due(self, epoch: Epoch, length: int) -> int:
        """Samples of the open segment to be heard now; 0 if that can wait."""
        config, heard = self.config, self.opened.heard
        waiting = len(epoch.chances) * FRAME if config.catch_up else 0
        if waiting >= LATE:
            return 0  # so much more has come: better to hear that, too
        if epoch.speech.has_paused and epoch.speech.silence >= self._pause:
            return 0 if self._is_heard(length) else length
        if waiting:
            return 0
        if heard and length > config.most - config.search and not self.opened.is_timed:
            return 0  # what is said must not reach past the cut
        count = (length - heard - (0 if heard else config.lead)) // config.interval
        return heard + count * config.interval + (0 if heard else config.lead) if count > 0 else 0

    def _cut(self, epoch: Epoch) -> int:
        """Where a segment ends that gets too long: its quietest moment, behind what is said."""
        most, opened = self.config.most, self.opened
        known = opened.fixed if opened.is_timed else opened.heard
        low = min(max(most - SEARCH, most // 2, known), most - 1)
        return max(low + quietest(epoch.speech.view(most).pcm[low:]), 1)

    # Segments

    def _close(self, epoch: Epoch, length: int) -> None:
        """End the open segment after `length` samples, hearing it again if there is more in it."""
        speech, now = epoch.speech, epoch.origin + epoch.speech.now
        paused = length == speech.length and (speech.has_paused or epoch.is_judged)
        if not length:
            speech.discard()
            self._tell_settled(now, True)
            return
        segment = speech.close(length).moved(epoch.origin)
        self._closing = now if paused else segment.stop, paused
        if self.opened.whole and self.opened.heard == length:
            self._finish(self._work(segment, whole=True, last=True), None)
        elif not self.opened.heard and not is_audible(segment.pcm):
            self.opened = Opened(self.opened.number)
            self._tell_settled(*self._closing)
        else:
            self._ask(segment, whole=True, hangs=True, last=True)

    def _ask(self, segment: Segment, *, whole: bool, hangs: bool, last: bool = False) -> None:
        if not last and not is_audible(segment.pcm):
            if hangs:
                epoch = self._epochs[0]
                self._tell_settled(epoch.origin + epoch.speech.now, True)
            return
        self._ready, self._hangs = self._work(segment, whole=whole, last=last), hangs

    def _work(self, segment: Segment, *, whole: bool, last: bool) -> Work:
        return Work(
            self.opened.number,
            segment,
            self._transcript.language or (self.opened.language if self.opened.tokens else None),
            before="".join(self._before),
            update=self.opened.update(whole=whole, last=last),
        )

    def _finish(self, work: Work, hypothesis: Hypothesis | None) -> None:
        """The open segment is over: say the rest of it. Without a hypothesis, the last counts."""
        opened = self.opened
        was_told = opened.is_told
        part = opened.decide(self.config.policy, final=True)
        if hypothesis is None:
            self._release()
        text = opened.said.published
        if opened.detected and (len(work.segment.pcm) >= EVIDENCE or len(text) >= ENOUGH):
            self._transcript.pin(opened.detected)
        if part.words or not was_told:
            self._transcript.publish(work, part, scores=opened.scores)
        self._transcript.end(work.segment, opened.lost, opened.reason)
        self._tell_settled(*self._closing)
        carried = () if opened.reason else (*self._before, *text)
        self._before = carried[-self.config.carry :] if self.config.carry else ()
        self.opened = Opened(opened.number + 1)

    def _release(self) -> None:
        if self.opened.kept is not None:
            self._released.append(self.opened.kept)
            self.opened.kept = None
