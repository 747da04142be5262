"""When a stream's segments are decoded, and what is published of them: once, or while they grow."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from livecap.events import RATE, Settled, Stalled, Word
from livecap.online.config import StreamConfig, UpdateConfig
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.segment import SegmentState
from livecap.online.segmenter import Segmenter
from livecap.online.speech_buffer import Segment, is_audible
from livecap.online.transcript import Transcript
from livecap.online.watchdog import Watchdog

MAX_LAG = RATE // 2  # samples that have come and wait, from which updates are left out
MAX_PAUSE_LAG = 10 * RATE  # the same, from which pauses are passed over, too
LANGUAGE_EVIDENCE = 3 * RATE  # samples of speech that tell its language
LANGUAGE_WORDS = 5  # words that tell it, too
CUT_RESERVE = 3 * RATE  # samples before a limit that are left for a cut where words have no times


class DecodeOnce:
    """Each segment once, in any order; captions leave in the order of the segments."""

    def __init__(self, config: StreamConfig, transcript: Transcript) -> None:
        self.ready: deque[DecodeJob] = deque()
        self.in_flight: dict[int, DecodeJob] = {}
        self._sequential = config.sequential
        self._transcript = transcript
        self._number = 0  # of the next segment
        self._context: tuple[int, ...] = ()  # tokens that the next window goes on from
        self._hypotheses: dict[int, Hypothesis] = {}  # that wait for an earlier one

    blocks_time = False
    min_length = 0
    processed = 0

    def grow(self, segmenter: Segmenter, now: int, waiting: int) -> Segment | None:
        """Nothing is decoded before its end."""
        return None

    def end(self, segment: Segment, now: int, *, paused: bool) -> None:
        """A segment has ended; `paused`: nobody speaks at media time `now`."""
        if is_audible(segment.pcm):
            self.ready.append(DecodeJob(self._number, segment, None, self._context))
            self._number += 1

    def accept(self, hypothesis: Hypothesis) -> int:
        """Take the result of a job -> samples of its segment that are done with."""
        job = hypothesis.job
        self._hypotheses[job.number] = hypothesis
        length = len(job.segment.pcm)
        consumed = length
        if self._sequential:
            self._context = hypothesis.context
            consumed = min(hypothesis.consumed or length, length)
        while self.in_flight and (number := min(self.in_flight)) in self._hypotheses:
            done = self._hypotheses.pop(number)
            del self.in_flight[number]
            segment = done.job.segment
            self._transcript.add(done, segment.first(consumed) if self._sequential else segment)
        return consumed


class DecodeIncrementally:
    """The open segment again and again; a commit policy says which words are sure.

    One job at a time, for which the stream's time stands still: so what comes out does not depend
    on the size of the pieces that come in. Only where a machine is too slow for every update
    (`catch_up`) are some left out.
    """

    def __init__(
        self, config: StreamConfig, updates: UpdateConfig, transcript: Transcript, *, tail: int
    ) -> None:
        """`tail`: samples that are kept after speech, and decoded with it."""
        self.ready: deque[DecodeJob] = deque()
        self.in_flight: dict[int, DecodeJob] = {}
        self.is_urgent = False  # speech that has paused or ended waits for what is ready
        self.freed: list[object] = []  # encoder states of segments that have ended without them
        self._updates = updates
        self._max_segment = config.max_segment
        self._endpoint_silence = max(updates.endpoint_silence, tail)
        self._transcript = transcript
        self._state = SegmentState(0)
        self._context: tuple[str, ...] = ()  # words that the next segment is conditioned on
        self._end = 0, False  # media time up to which the ending segment settles; in a pause
        self._is_unsettled = False  # something has been said since all was settled
        self._watchdog = Watchdog()
        self._is_stalled = False  # speech makes no text: the segment is to be decoded anew

    @property
    def blocks_time(self) -> bool:
        """A job is ready or under way."""
        return bool(self.ready or self.in_flight)

    @property
    def processed(self) -> int:
        """Samples of the open or ending segment that have been decoded."""
        return self._state.processed

    @property
    def min_length(self) -> int:
        """Nothing that is committed or kept may be about what lies behind a cut, unless it has
        times.
        """
        state = self._state
        return 0 if state.is_timed and state.encoder_state is None else state.processed

    def drop_overtaken(self, waiting: int) -> None:
        """So many samples have come since an update was found to be due, and nobody took it."""
        if self._updates.catch_up and waiting >= MAX_LAG and not self.is_urgent:
            self.ready.clear()

    def grow(self, segmenter: Segmenter, now: int, waiting: int) -> Segment | None:
        """A frame has passed, up to media time `now`; so many samples more have come already.

        Returns the open segment if it is ended here.
        """
        if not segmenter.is_open:
            return None
        if self._is_stalled:
            length_value = self._start_anew()
            return segmenter.end(length_value) if length_value else None
        length, paused = segmenter.length, segmenter.has_paused
        waiting = waiting if self._updates.catch_up else 0
        if not paused:
            self._is_unsettled = True
        at_endpoint = paused and segmenter.silence >= self._endpoint_silence
        if at_endpoint and self._state.endpointed and self._state.processed == length:
            if length >= self._updates.min_sentence and self._state.ends_sentence:
                return segmenter.end(length)
            if self._state.tail_is_open:
                self._flush(segmenter.view(length))
            self._settle(now, paused=True)
        elif at_endpoint and waiting < MAX_PAUSE_LAG:
            self._ask(segmenter.view(length), endpointed=True, now=now)
        elif not at_endpoint and (due := self._due(segmenter, length, waiting)):
            self._ask(segmenter.view(due), endpointed=paused, now=None)
        return None

    def end(self, segment: Segment, now: int, *, paused: bool) -> None:
        """A segment has ended; `paused`: nobody speaks at media time `now`."""
        state, length = self._state, len(segment.pcm)
        self._end = now if paused else segment.stop, paused
        if self._is_stalled:
            self._end_anew(segment)
        elif state.endpointed and state.processed == length:
            self._finish(segment, None)
        elif slid := state.slid(length):  # all that was said before the cut is committed
            state.reason = None  # what may have no text is decoded once more
            self._leave(segment, state.committed[: len(state.committed) - len(slid.committed)])
            self._state = slid
            self._watchdog.cut(length, (word.text for word in slid.committed))
        elif state.processed or is_audible(segment.pcm):
            job = self._job(segment, endpointed=True, final=True)
            self.ready.append(job)
            self.is_urgent = True
        else:
            self._state = SegmentState(state.number)
            self._watchdog.cut(length)
            self._settle(*self._end)

    def accept(self, hypothesis: Hypothesis) -> int:
        """Take the result of a job -> samples of its segment that are done with."""
        job = hypothesis.job
        del self.in_flight[job.number]
        assert job.prefix is not None
        is_news = self._state.accept(hypothesis)
        self._watch(job.segment)
        if job.prefix.final and self._is_stalled:
            self._end_anew(job.segment)
        elif job.prefix.final:
            self._finish(job.segment, hypothesis)
        elif is_news:
            commit = self._state.commit(self._updates.policy)
            self._transcript.commit(self._state.number, job.segment, commit)
        return len(job.segment.pcm)

    def _watch(self, segment: Segment) -> None:
        """Say when speech makes no text; the segment's memory is the first thing to go."""
        state = self._state
        committed = (word.text for word in state.committed)
        pending = (word.text for word in state.pending)
        if voiced := self._watchdog.decoded(segment, committed, pending):
            start, end = self._watchdog.since, segment.stop
            self._transcript.append(Stalled(start, end, voiced, self._transcript.speaker))
            self._is_stalled = True
            self.free()

    def _start_anew(self) -> int:
        """Forget all that was kept and said of what made no text, which is to be decoded once more
        -> samples of the segment that stand as they are, and end it.
        """
        state, self._is_stalled = self._state, False
        length = state.give_up(self._watchdog.heard_by)
        if not length:
            self._state = SegmentState(state.number, tail_is_open=state.tail_is_open)
            self._context = ()
        return length

    def _end_anew(self, segment: Segment) -> None:
        """The same, where the segment has ended."""
        length = self._start_anew()
        if length:
            end, first = self._end, segment.first(length)
            self._end = first.stop, False
            self._finish(first, None)
            self._end, segment = end, segment.after(length)
        if is_audible(segment.pcm):
            self.ready.append(self._job(segment, endpointed=True, final=True))
            self.is_urgent = True
        elif len(segment.pcm):
            self._finish(segment, None)

    def free(self) -> None:
        """Nothing kept for the open segment is needed any more."""
        if self._state.encoder_state is not None:
            self.freed.append(self._state.encoder_state)
            self._state.encoder_state = None

    def _due(self, segmenter: Segmenter, length: int, waiting: int) -> int:
        """Samples of the open segment to be decoded now; 0 if that can wait."""
        updates, processed = self._updates, self._state.processed
        if waiting >= MAX_LAG:
            return 0  # better to decode that, too
        if self.min_length and length > self._max_segment - min(
            CUT_RESERVE, self._max_segment // 4
        ):
            return 0  # what is committed must not reach past the cut
        new = length - processed
        if segmenter.has_paused and updates.pause_update and new >= updates.pause_update:
            return length  # it is there for the endpoint, if the pause becomes one
        first = 0 if processed else updates.first_update
        count = (new - first) // updates.interval
        return processed + first + count * updates.interval if count > 0 else 0

    def _flush(self, segment: Segment) -> None:
        """A pause: commit all that was decoded. The segment goes on."""
        commit = self._state.flush()
        self._transcript.commit(self._state.number, segment, commit)

    def _ask(self, segment: Segment, *, endpointed: bool, now: int | None) -> None:
        """Have the open segment decoded; `now`: the media time of an endpoint that waits for it."""
        if is_audible(segment.pcm):
            self.ready.append(self._job(segment, endpointed=endpointed, final=False))
            self.is_urgent = now is not None
        elif now is not None:
            self._settle(now, paused=True)

    def _job(self, segment: Segment, *, endpointed: bool, final: bool) -> DecodeJob:
        state = self._state
        known = state.language if state.committed else None
        return DecodeJob(
            state.number,
            segment,
            self._transcript.language or known,
            context_text="".join(self._context),
            prefix=state.prefix(endpointed=endpointed, final=final),
        )

    def _finish(self, segment: Segment, hypothesis: Hypothesis | None) -> None:
        """The segment is over: commit the rest of it. Without a hypothesis, the last counts."""
        state = self._state
        if hypothesis is None:
            self.free()
        was_open = state.tail_is_open
        commit = replace(state.flush(), scores=state.scores)
        if commit.words or was_open:
            self._transcript.commit(state.number, segment, commit)
        self._leave(segment, state.committed)
        self._state = SegmentState(state.number + 1)
        self._watchdog.cut(len(segment.pcm))

    def _leave(self, segment: Segment, words: Sequence[Word]) -> None:
        """Nothing more will be decoded of a segment, of which these words are committed."""
        state = self._state
        if state.detected and self._is_evidence(segment):
            self._transcript.detect(state.detected)
        self._transcript.end(segment, state.untranscribed_from, state.reason)
        self._settle(*self._end)
        count = self._updates.context_words
        is_sound = not state.reason and not state.given_up
        text = (*self._context, *(word.text for word in words))
        self._context = text[-count:] if count and is_sound else ()

    def _is_evidence(self, segment: Segment) -> bool:
        """Whether there is enough to tell the language by."""
        enough = len(segment.pcm) >= LANGUAGE_EVIDENCE
        return enough or len(self._state.committed) >= LANGUAGE_WORDS

    def _settle(self, at: int, paused: bool) -> None:
        """All that was said up to media time `at` is published; reported once a pause."""
        if self._updates.turns and (self._is_unsettled or not paused):
            self._is_unsettled = not paused
            self._transcript.append(Settled(at, paused))
