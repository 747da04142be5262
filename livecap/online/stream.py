"""One stream, live or a file: PCM and speech probabilities -> jobs; hypotheses -> caption events.

No I/O, threads, clock or torch. Time goes on frame by frame. A file is a stream without updates:
each segment is decoded once. Over the same segmenter, in the same transcript.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from livecap.events import RATE, Event, VoiceActivity
from livecap.online.config import StreamConfig
from livecap.online.decoding import DecodeIncrementally, DecodeOnce
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.segmenter import Segmenter
from livecap.online.speech_buffer import Pcm, Segment, SpeechBuffer
from livecap.online.transcript import Transcript
from livecap.online.windows import SequentialWindows
from livecap.vad.endpointer import FRAME, Edge, Endpointer, TurnEdge


@dataclass(frozen=True, slots=True)
class _Break:
    """The audio ends here, or has a gap."""

    stop: int  # samples before it
    judged: int  # of them in whole frames
    is_last: bool
    edges: tuple[Edge, ...]  # that are known because of it


@dataclass(frozen=True, slots=True)
class _Ended:
    """A segment that has ended and is still to be dealt with."""

    segment: Segment
    now: int  # media time
    paused: bool  # nobody speaks at that time


class OnlineStream:
    """A stream that is captioned while it comes."""

    def __init__(self, config: StreamConfig) -> None:
        self.config = config
        self.total = 0  # samples pushed
        self.decoded = 0  # samples given to the model; again, where it had got stuck
        self.reached = 0  # media time up to which audio has come
        self.is_finished = False  # no more audio comes
        self._now = 0  # samples up to here have passed
        self._transcript = Transcript(language=config.language, speaker=config.speaker)
        self._buffer = SpeechBuffer()
        self._edges: deque[Edge] = deque()  # known, and not passed yet
        self._breaks: deque[_Break] = deque()
        self._ended: deque[_Ended] = deque()
        updates = config.updates
        tail = config.vad.vad_tail * RATE // 1000 if config.vad else 0
        silence = max(updates.endpoint_silence, tail) if updates else 0
        self._endpointer = Endpointer(config.vad, endpoint_silence=silence)
        pad, lag = self._endpointer.pad, self._endpointer.lag
        self._windows: SequentialWindows | None = None
        self._segmenter = Segmenter(
            self._buffer,
            max_segment=config.max_segment,
            max_silence=config.max_silence,
            pad=pad,
            tail=tail,
            lag=lag,
        )
        if config.sequential and not updates:
            self._windows = SequentialWindows(self._buffer, pad=pad, tail=tail, lag=lag)
        self._segments = self._windows or self._segmenter
        self._live = (
            DecodeIncrementally(config, updates, self._transcript, tail=tail) if updates else None
        )
        self._decoding = self._live or DecodeOnce(config, self._transcript)

    # What comes in

    def push(self, pcm: Pcm, probs: Iterable[float]) -> None:
        """The next samples [n], and the speech probabilities of the frames they made whole."""
        assert not self.is_finished, "audio after the end"
        self._buffer.append(pcm)
        self.total += len(pcm)
        self.reached += len(pcm)
        edges, turns = self._endpointer.push(probs, self._buffer.stop)
        self._edges.extend(edges)
        self._report(turns)
        if self._live:
            self._live.drop_overtaken(self._endpointer.at - self._now)
        self._advance()

    def skip(self, to: int) -> None:
        """The source goes on at media time `to`; between, it has nothing.

        It is for the source to say why: a gap is no event of the stream.
        """
        assert to >= self.reached, "time went back"
        self._report(self._break(is_last=False))
        self._transcript.gap(self.reached, to)
        self.reached = to
        self._buffer.skip(to)
        self._advance()

    def finish(self) -> None:
        """No more audio comes. What has come is still decoded; finishing again does nothing."""
        if not self.is_finished:
            self._break(is_last=True)
            self.is_finished = True
            self._advance()

    def accept(self, hypothesis: Hypothesis) -> None:
        """Take the result of a job that was taken."""
        consumed = self._decoding.accept(hypothesis)
        self._collect(self._segments.consume(consumed))
        if self._windows:
            self.decoded += consumed
        self._advance()

    # What goes out

    @property
    def has_job(self) -> bool:
        """Whether `poll` has something now.

        While the language is unknown there is one job at a time, so that the result does not
        depend on how many run at once.
        """
        is_undecided = self._transcript.language is None and bool(self._decoding.in_flight)
        return bool(self._decoding.ready) and not is_undecided

    @property
    def is_urgent(self) -> bool:
        """Whether speech that has paused or ended waits for the next job."""
        return bool(self._decoding.ready) and self._live is not None and self._live.is_urgent

    @property
    def overdue(self) -> int:
        """Samples that have come since the speech in the next job ended."""
        ready = self._decoding.ready
        return self.reached - ready[0].segment.stop if ready else 0

    def poll(self) -> DecodeJob | None:
        """The next job, or None for now."""
        if not self.has_job:
            return None
        job = self._decoding.ready.popleft()
        job = replace(job, language=job.language or self._transcript.language)
        self._decoding.in_flight[job.number] = job
        if not self._windows:
            self.decoded += max(len(job.segment.pcm) - self._decoding.processed, 0)
        return job

    @property
    def next_start(self) -> int:
        """Media time at which the next job begins."""
        return self._decoding.ready[0].segment.start

    @property
    def final_until(self) -> int:
        """Media time before which no caption comes any more."""
        jobs = [*self._decoding.in_flight.values(), *self._decoding.ready]
        segments = [job.segment for job in jobs] + [one.segment for one in self._ended]
        if segments:
            return min(segment.start for segment in segments)
        return self._buffer.media(self._segments.first_needed)

    @property
    def backlog(self) -> int:
        """Samples that came in and have been neither decoded nor judged to be silent."""
        jobs = [*self._decoding.in_flight.values(), *self._decoding.ready]
        ending = [len(job.segment.pcm) for job in jobs if not job.prefix or job.prefix.final]
        ending += [len(one.segment.pcm) for one in self._ended]
        open_length = self._segmenter.length
        if ending:
            decoding = open_length + sum(ending) - self._decoding.processed
        else:
            decoding = max(open_length - self._decoding.processed, 0)
        return self._buffer.stop - self._now + decoding

    @property
    def language(self) -> str | None:
        """The one that is spoken, once that is sure."""
        return self._transcript.language

    @property
    def is_done(self) -> bool:
        """Whether everything that came has been decoded."""
        return not self._decoding.ready and not self._decoding.in_flight

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        return self._transcript.take()

    def close(self) -> list[Event]:
        """After the last hypothesis: the events left, the silence at the end among them."""
        assert self.is_done
        self._transcript.silence(self.reached)
        return self.events()

    def freed(self) -> list[object]:
        """Encoder states that are no longer needed, since the last call."""
        if not self._live:
            return []
        freed, self._live.freed = self._live.freed, []
        return freed

    def cancel(self) -> list[object]:
        """Nobody wants the stream any more -> the encoder states that were kept for it."""
        self.is_finished = True
        for queue in (self._edges, self._breaks, self._ended, self._decoding.ready):
            queue.clear()
        self._decoding.in_flight.clear()
        self._segmenter.clear()
        self._now = self._buffer.stop
        if self._live:
            self._live.free()
        return self.freed()

    # Time

    def _break(self, *, is_last: bool) -> list[TurnEdge]:
        """The audio so far is all there is of it -> turns that end with it."""
        judged = self._endpointer.at
        edges, turns = self._endpointer.finish(self._buffer.stop)
        self._breaks.append(_Break(self._buffer.stop, judged, is_last, tuple(edges)))
        return turns

    def _report(self, turns: Iterable[TurnEdge]) -> None:
        updates = self.config.updates
        if updates and updates.turns and self.config.vad:
            for turn in turns:
                at = self._buffer.media(turn.at) if turn.begins else self._buffer.media_end(turn.at)
                self._transcript.append(VoiceActivity(at, begins=turn.begins))

    def _advance(self) -> None:
        """Let time go on until there is a job to wait for, or no more audio."""
        while not self._decoding.blocks_time and self._step():
            pass

    def _step(self) -> bool:
        """Deal with a segment that has ended, or let a frame pass; False if there is neither."""
        if self._ended:
            one = self._ended.popleft()
            self._decoding.end(one.segment, one.now, paused=one.paused)
            return True
        end = self._breaks[0] if self._breaks else None
        judged = end.judged if end else self._endpointer.at
        if self._now < judged:
            self._pass_frames(judged)
        elif end:
            self._pass_break(end)
        else:
            return False
        return True

    def _pass_frames(self, judged: int) -> None:
        """One frame; or, where nobody decides by frames, all up to where something happens."""
        if self._live and self._segmenter.is_open:
            self._now += FRAME
        else:
            self._now = min(self._edges[0].known, judged) if self._edges else judged
        edges = self._known(self._now)
        self._collect(
            self._segments.advance(self._now, edges, min_length=self._decoding.min_length)
        )
        if not self._ended:
            now = self._buffer.media_end(self._now)
            ended = self._decoding.grow(self._segmenter, now, judged - self._now)
            if ended:
                self._collect([ended])

    def _pass_break(self, end: _Break) -> None:
        """What is left after the last frame; then the audio is over, or goes on after a gap."""
        self._breaks.popleft()
        edges, least = [*self._known(end.judged), *end.edges], self._decoding.min_length
        self._now = end.stop
        ended = self._segments.advance(end.stop, edges, min_length=least)
        least = 0 if ended else least
        ended += self._segments.finish(end.stop, is_last=end.is_last, min_length=least)
        self._collect(ended)

    def _known(self, now: int) -> list[Edge]:
        edges = []
        while self._edges and self._edges[0].known <= now:
            edges.append(self._edges.popleft())
        return edges

    def _collect(self, segments: list[Segment]) -> None:
        now = self._buffer.media_end(self._now)
        for number, segment in enumerate(segments, 1):
            paused = number == len(segments) and not self._segmenter.is_open
            self._ended.append(_Ended(segment, now, paused))
