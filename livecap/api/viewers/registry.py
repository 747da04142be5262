"""All broadcasts of a server: those under way, those that ended not long ago, and those kept."""

import asyncio
import hmac
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from livecap.api.viewers.channel import Broadcast, ChannelLine
from livecap.api.viewers.publisher import Part, Speaker
from livecap.api.viewers.search import has_all, words_of
from livecap.events import RATE

AWAY = 120.0  # seconds that readers wait for a speaker whose connection has broken
AHEAD = 600 * RATE  # samples by which a talk's clock may be ahead of the one on the wall
AGAIN = 300 * RATE  # samples that are heard again, at most, when a talk goes on
LINGER = 600.0  # seconds that a broadcast can still be read after its end, if it isn't kept
TOKEN = "vk_"  # what readers' tokens begin with
MOST = 2_000  # broadcasts in memory
MATCHES = 3  # lines that are shown of each session that is found
PREVIEW = 80  # characters that are shown of the first line

Heard = Callable[[Broadcast, ChannelLine], None]  # shown every line that readers are told


@dataclass(frozen=True, slots=True)
class Summary:
    """A session in a list."""

    id: str
    model: str
    begun: float  # Unix seconds
    ended: float | None  # Unix seconds
    lines: int
    shared: bool
    preview: str
    readers: int = 0
    matches: tuple[dict[str, Any], ...] = ()  # lines with what was looked for, as readers see them


class Keeper(Protocol):
    """Where captions outlive the process. All that isn't awaited returns at once, and what is
    written is written in that order. What is awaited raises HistoryError.
    """

    @property
    def stays(self) -> float:
        """Seconds for which they are kept after a talk's end; 0: for ever."""

    def begin(self, broadcast: Broadcast) -> None: ...
    def keep(self, id: str, line: ChannelLine, then: Callable[[], None]) -> None: ...
    def end(self, broadcast: Broadcast) -> None: ...
    def share(self, id: str, token: str | None) -> None: ...
    def forget(self, id: str) -> None: ...
    async def settled(self) -> None: ...
    async def find(self, id: str) -> Broadcast | None: ...
    async def sessions(self, query: str, after: str, limit: int) -> list[Summary]: ...


class HistoryError(Exception):
    """The history can't be read or written now."""


class Hub:
    """For the event loop alone. `now`: Unix seconds."""

    def __init__(
        self,
        now: Callable[[], float],
        keeper: Keeper | None = None,
        observe: Heard | None = None,
        proof: Callable[[str], str] | None = None,
    ) -> None:
        """`proof`: what those know of a talk's id who may go on with it; None: anybody may."""
        self._now = now
        self._heard = observe
        self._proof = proof
        self.keeper = keeper
        self._broadcasts: dict[str, Broadcast] = {}
        self._speakers: dict[str, Speaker] = {}  # the newest of each

    def open(self, id: str, *, model: str, part: Part | None = None) -> Speaker:
        """A session has begun: a talk of its own, or part of one; see `revive`."""
        self._tidy()
        known = self._broadcasts.get(part.of) if part and self._may_go_on(part) else None
        if part is None or known is None:
            speaker = Speaker(self._new(id, model, self._now()))
            if self.keeper:
                self.keeper.begin(speaker.broadcast)
        else:
            self._speakers[known.id].is_current = False
            if known.ended is not None and self.keeper:
                self.keeper.begin(known)
            known.go_on()
            passed = max(int((self._now() - known.begun) * RATE), known.line_count)
            shift = passed if part.at is None or part.at > passed + AHEAD else part.at
            is_again = known.line_count - shift <= AGAIN  # else the clocks are others
            speaker = Speaker(known, shift=shift, told=known.line_count if is_again else 0)
        speaker.may_return = part is not None
        self._speakers[speaker.broadcast.id] = speaker
        return speaker

    async def revive(self, part: Part | None) -> None:
        """Have a talk in memory that was kept, if another connection goes on with it."""
        if part is None or not part.of or self.keeper is None or self.find(part.of):
            return
        if not self._may_go_on(part):
            return
        with suppress(HistoryError):  # then it is a new one
            stored = await self.keeper.find(part.of)
            if stored and part.of not in self._broadcasts:
                again = self._new(stored.id, stored.model, stored.begun)
                again.restore(stored.lines, stored.count)
                again.token, again.ended = stored.token, stored.ended or self._now()
                self._speakers[stored.id] = Speaker(again)

    @property
    def stays(self) -> float:
        """Seconds for which a talk can be read after its end; 0: for ever."""
        return self.keeper.stays if self.keeper else LINGER

    def proof_of(self, id: str) -> str | None:
        """What is to be known to go on with a talk; None: nothing."""
        return self._proof(id) if self._proof else None

    def _may_go_on(self, part: Part) -> bool:
        wanted = self.proof_of(part.of)
        return wanted is None or hmac.compare_digest(wanted.encode(), part.key.encode())

    def stop(self) -> None:
        """Nobody will speak any more: readers are let go."""
        for speaker in list(self._speakers.values()):
            self.close(speaker)

    def _new(self, id: str, model: str, begun: float) -> Broadcast:
        def keep(line: ChannelLine, release: Callable[[], None]) -> None:
            def then() -> None:
                release()
                if self._heard:
                    self._heard(broadcast, line)

            if self.keeper:
                self.keeper.keep(id, line, then)
            else:
                then()

        broadcast = Broadcast(id, model=model, begun=begun, keep=keep)
        self._broadcasts[id] = broadcast
        return broadcast

    def close(self, speaker: Speaker, *, is_lost: bool = False) -> None:
        """A session is over, and all that it said has been taken. `is_lost`: its connection broke;
        if another is to come, it is waited for.
        """
        if not speaker.is_current:
            return
        if is_lost and speaker.may_return:
            speaker.is_away = True
            asyncio.get_running_loop().call_later(AWAY, self.close, speaker)
            return
        speaker.is_current = False
        broadcast = self._broadcasts.get(speaker.broadcast.id)
        if broadcast is None or self._speakers[broadcast.id] is not speaker:
            return
        broadcast.end(self._now())
        if self.keeper:
            self.keeper.end(broadcast)
        if broadcast.is_empty:
            self._drop(broadcast.id)  # there is nothing to read

    def find(self, id: str) -> Broadcast | None:
        """That of a session that is in memory."""
        self._tidy()
        return self._broadcasts.get(id)

    async def recall(self, id: str) -> Broadcast | None:
        """That of any session. Raises HistoryError."""
        found = self.find(id)
        return found if found or self.keeper is None else await self.keeper.find(id)

    async def sessions(self, query: str, after: str, limit: int) -> list[Summary]:
        """Sessions in which all words of a query are said in one line, the newest first; at most
        `limit`, and only those before the one with the id `after`. Raises HistoryError.
        """
        self._tidy()
        words = words_of(query)
        ordered = sorted(self._broadcasts.values(), key=lambda one: (-one.begun, one.id))
        if words:  # all that was said is looked at
            found = await asyncio.to_thread(lambda: [summary(one, words) for one in ordered])
        else:
            found = [summary(one, words) for one in ordered]
        if self.keeper:
            stored = await self.keeper.sessions(query, after, limit)
            known = {one.id for one in stored}
            # Those under way that are not kept any more, since somebody has deleted them.
            alone = [one for one in found if one.id not in known and one.ended is None]
            ours = [one for one in alone if not after and (one.matches or not words)]
            return [*ours, *(self._newest(one) for one in stored)][:limit]
        ids = [one.id for one in found]
        found = found[ids.index(after) + 1 :] if after in ids else found
        return [one for one in found if one.matches or not words][:limit]

    def _newest(self, stored: Summary) -> Summary:
        live = self._broadcasts.get(stored.id)
        if live is None:
            return stored
        fresh = summary(live, [])
        fields = (fresh.begun, fresh.ended, fresh.lines, fresh.shared, fresh.preview, fresh.readers)
        return Summary(stored.id, stored.model, *fields, stored.matches)

    def share(self, broadcast: Broadcast) -> str:
        """A token with which anybody may read it; the same one if there is one."""
        if broadcast.token is None:
            broadcast.token = TOKEN + secrets.token_urlsafe(24)
            if self.keeper:
                self.keeper.share(broadcast.id, broadcast.token)
        return broadcast.token

    def unshare(self, broadcast: Broadcast) -> None:
        """The link ends, and those who read along are let go."""
        broadcast.token = None
        if self.keeper:
            self.keeper.share(broadcast.id, None)
        broadcast.dismiss()

    def forget(self, id: str) -> bool:
        """Delete it, wherever it is; whether it was in memory. One under way goes on unkept."""
        found = self.find(id)
        if found is not None:
            found.clear()
            if self._speakers[id].is_away:
                found.end(self._now())
            if found.ended is not None:
                self._drop(id)
        if self.keeper:
            self.keeper.forget(id)
        return found is not None

    async def settled(self) -> None:
        """What was shared, ended and forgotten so far is so after a restart, too.

        Raises HistoryError if it isn't.
        """
        if self.keeper:
            await self.keeper.settled()

    def _tidy(self) -> None:
        late = self._now() - LINGER
        over = [one for one in self._broadcasts.values() if one.ended is not None]
        for one in over:
            if one.ended is not None and (one.ended < late or len(self._broadcasts) > MOST):
                self._drop(one.id)

    def _drop(self, id: str) -> None:
        del self._broadcasts[id], self._speakers[id]


def summary(broadcast: Broadcast, words: list[str]) -> Summary:
    """One in memory, with its lines in which all words are."""
    found = broadcast.matching(lambda text: has_all(text, words), MATCHES) if words else ()
    return Summary(
        broadcast.id,
        broadcast.model,
        broadcast.begun,
        broadcast.ended,
        len(broadcast.lines),
        broadcast.token is not None,
        broadcast.first[:PREVIEW],
        broadcast.readers,
        tuple(found),
    )


def may_read(broadcast: Broadcast, token: str | None) -> bool:
    """Whether a token opens it. Takes as long whether it does or not."""
    known = broadcast.token or ""
    return hmac.compare_digest(known.encode(), (token or "").encode()) and bool(known)
