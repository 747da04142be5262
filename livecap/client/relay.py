"""Live audio -> captions, over as many connections as it takes. No input or output, no clock.

Audio is kept until its captions are final: when a connection is gone, the next one hears again all
that was not. So nothing is lost or said twice, and what was final never changes.
"""

import numpy as np
from numpy.typing import NDArray

from livecap.client.conversation import Conversation, ServerTurn, language, spoken
from livecap.client.replay_buffer import Pcm16, ReplayBuffer, pcm16
from livecap.client.timeline import Clock
from livecap.client.transcript import Story, words_of
from livecap.client.wire import Message, Wanted, text
from livecap.events import RATE, Event
from livecap.output.lines import seam

MOST = 120 * RATE  # samples that are kept for a server that can't be reached, or is behind
PIECE = RATE // 2  # samples of a message, at most
LATE = 40 * RATE  # samples: livecap's server is never further behind with what it has taken
LEAD = RATE  # samples before speech that are heard again with it
FILL = 4 * RATE  # samples of silence for a gap that is longer: they end any turn
TRIES = 3  # connections that fail at the same speech before it is left out

BACKLOG = "more audio waited for the server than is kept"
NO_TEXT = "the server made no text of it"


class Relay:
    """All times are samples of media time, unless they are said to be on the wire."""

    def __init__(self, wanted: Wanted, *, most: int = MOST) -> None:
        self._wanted = wanted
        self._most = most
        self._kept = ReplayBuffer()
        self._story = Story()
        self._clock = Clock()  # of the connection
        self._cursor = 0  # up to here audio has been sent over it
        self._settled = 0  # up to here all is final
        self._shed = 0  # up to here audio is not kept any more, final or not
        self.is_finished = False  # no more audio comes
        self._tries = (0, 0)  # where connections have failed, and how often
        self.talk: Conversation | None = None  # None: there is no connection
        self.hopeless: str | None = None  # why the server can't caption this at all
        self.is_done = False

    # Those who have audio

    def hear(self, start: int, pcm: NDArray[np.float32], reason: str) -> None:
        """Audio [sample] from media time `start` on; if some is missing before it, that is why."""
        assert not self.is_finished, "audio after the end"
        if start > self._kept.end:
            self._story.gap(self._kept.end, start, reason)
        self._kept.add(start, pcm16(pcm))
        waiting = self._kept.count(self._cursor)
        for stretch in self._kept.drop(self._cursor, waiting - self._most):
            self._story.gap(*stretch, BACKLOG)
        sent = self._kept.count(self._kept.start) - min(waiting, self._most)
        if sent > self._most:
            self._shed = self._kept.drop(self._kept.start, sent - self._most)[-1][1]

    def finish(self) -> None:
        """No more audio comes."""
        self.is_finished = True

    def take(self) -> list[Event]:
        """What has happened since the last call."""
        events, self._story.events = self._story.events, []
        return events

    @property
    def has_events(self) -> bool:
        """Whether there is something to take."""
        return bool(self._story.events)

    @property
    def lag(self) -> float:
        """Seconds of audio that have come and that the server has not heard, as far as it tells."""
        talk = self.talk
        if talk is None or talk.state in ("greeting", "configuring"):
            return self._kept.count(self._settled) / RATE
        reached = self._clock.start(talk.taken) if talk.is_asked else self._cursor
        newest = talk.turns[-1] if talk.turns else None
        if newest and newest.stop is None and newest.processed is not None:
            reached = min(reached, self._clock.start(newest.processed))
        return self._kept.count(reached) / RATE

    @property
    def language(self) -> str | None:
        """The one that was spoken last."""
        return self._story.language

    # Those who have a connection

    @property
    def progress(self) -> int:
        """It grows with what is final."""
        return self._story.until

    def begin(self) -> Conversation:
        """There is a connection. It begins with what is not final."""
        self.talk, self._clock = Conversation(self._wanted), Clock()
        self._cursor = self._kept.start
        return self.talk

    def receive(self, data: Message) -> list[Message]:
        """A message from the server -> what is to be sent in answer."""
        assert self.talk
        answers = self.talk.receive(data)
        self._look(self.talk)
        return answers

    def outgoing(self) -> list[Message]:
        """What is to be sent next, half a second of audio at most; nothing for now."""
        talk = self.talk
        if talk is None or talk.state != "open":
            return []
        if self._cursor < self._kept.end:
            pcm = self._next(min(talk.room, PIECE)) if talk.room else None
            return talk.audio(pcm) if pcm is not None else []
        return talk.finish() if self.is_finished else []

    def closed(self) -> None:
        """The server has closed the connection as it should."""
        if self.talk and self.talk.closed():
            self._look(self.talk)

    def lost(self) -> None:
        """The connection is gone."""
        talk, self.talk = self.talk, None
        if self._shed > self._settled:
            self._story.gap(self._settled, self._shed, BACKLOG)
        if talk and talk.broken is not None:
            self._failed(talk, talk.broken)
        self._cursor = self._kept.start
        if self.is_finished and self._kept.start == self._kept.end:
            self._end()

    def give_up(self, reason: str) -> None:
        """There will be no other connection: what is not final has no text, for that reason."""
        self.lost()
        while block := self._kept.after(self._kept.start, self._most):
            self._story.gap(block.start, block.end, reason)
            self._kept.forget(block.end)
        self._end()

    # Inside

    def _next(self, max_samples: int) -> Pcm16 | None:
        """The next audio to be sent. Silence stands for what is missing, as much as is needed."""
        block = self._kept.after(self._cursor, max_samples)
        at = block.start if block else self._kept.end
        if at > self._cursor:
            length = self._clock.skip(self._cursor, at, FILL)
            self._cursor = at
            if length:
                return np.zeros(length, np.int16)
        if block is None:
            return None
        self._cursor = block.end
        self._clock.send(block.start, len(block.pcm))
        return block.pcm

    def _look(self, talk: Conversation) -> None:
        """Take in what the server has told."""
        if talk.broken is not None:
            return  # what it tells now is not all that was said
        for turn in talk.take():
            self._tell(turn)
        taken = self._clock.start(talk.taken)
        if talk.turns:
            begun = self._clock.start(talk.turns[0].start)
            self._settle(begun - LEAD)
            self._story.pass_gaps(min(taken, begun))
            self._expect(talk)
            self._clock.forget(talk.turns[0].start)
        else:
            quiet = max(talk.taken - LATE, 0)
            self._settle(self._clock.start(quiet))
            self._story.pass_gaps(taken)
            self._clock.forget(quiet)
        if talk.state == "over":
            self._end()

    def _tell(self, turn: ServerTurn) -> None:
        start, end = self._stretch(turn)
        transcript = text(turn.final, "transcript") if turn.final else ""
        if turn.final and transcript.strip():
            self._story.language = language(turn.final) or self._story.language
            self._story.turn(start, end, words_of(transcript, spoken(turn.final), self._place))
        elif turn.failure is not None:
            self._story.nothing(start, end, turn.failure)
        elif turn.is_speech:
            self._story.nothing(start, end, NO_TEXT)
        self._settle(end)

    def _expect(self, talk: Conversation) -> None:
        tail = ""
        for turn in talk.turns:
            tail += seam(tail, turn.shown) + turn.shown
        processed_until = max(turn.processed or turn.stop or talk.taken for turn in talk.turns)
        start = self._clock.start(talk.turns[0].start)
        self._story.expect(start, self._clock.end(processed_until), tail)

    def _failed(self, talk: Conversation, reason: str) -> None:
        """The server has met a fault: again and again at the same place, that is left out."""
        where, times = self._tries
        self._tries = (self.progress, times + 1 if where == self.progress else 1)
        if self._tries[1] < TRIES:
            return
        if talk.turns and talk.turns[0].failure is not None:
            start, end = self._stretch(talk.turns[0])
        elif self._story.has_text:  # it is somewhere in what was sent
            start, end = self._settled, self._cursor
        else:
            self.hopeless = reason
            return
        self._story.nothing(start, end, reason)
        self._settle(end)

    def _stretch(self, turn: ServerTurn) -> tuple[int, int]:
        start = self._clock.start(turn.start)
        return start, max(self._clock.end(turn.stop or turn.start), start)

    def _place(self, start: int, end: int) -> tuple[int, int]:
        """A word on the wire -> its media time."""
        begins = self._clock.start(start)
        return begins, max(self._clock.end(end), begins)

    def _settle(self, to: int) -> None:
        self._settled = max(self._settled, to)
        self._kept.forget(self._settled)

    def _end(self) -> None:
        self._story.end(self._kept.end)
        self._kept.forget(self._kept.end)
        self.is_done = True
