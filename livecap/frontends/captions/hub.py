"""All broadcasts of a server: those under way, and those that ended not long ago."""

import hmac
import secrets
from collections.abc import Callable
from typing import Protocol

from livecap.events import Caption, Gap
from livecap.frontends.captions.broadcast import Broadcast

LINGER = 600.0  # seconds that a broadcast can still be read after its end, if it isn't kept
TOKEN = "vk_"  # what readers' tokens begin with
MOST = 2_000  # broadcasts in memory


class Keeper(Protocol):
    """Where captions outlive the process. All of it returns at once."""

    def begin(self, broadcast: Broadcast) -> None: ...
    def keep(self, id: str, number: int, line: Caption | Gap) -> None: ...
    def end(self, broadcast: Broadcast) -> None: ...
    def share(self, id: str, token: str | None) -> None: ...
    def find(self, id: str) -> Broadcast | None: ...
    def forget(self, id: str) -> None: ...


class Hub:
    """For the event loop alone. `now`: Unix seconds."""

    def __init__(self, now: Callable[[], float], keeper: Keeper | None = None) -> None:
        self._now = now
        self.keeper = keeper
        self._broadcasts: dict[str, Broadcast] = {}

    def open(self, id: str, *, model: str) -> Broadcast:
        """A session has begun."""
        self._tidy()

        def keep(number: int, line: Caption | Gap) -> None:
            if self.keeper:
                self.keeper.keep(id, number, line)

        broadcast = Broadcast(id, model=model, begun=self._now(), keep=keep)
        self._broadcasts[id] = broadcast
        if self.keeper:
            self.keeper.begin(broadcast)
        return broadcast

    def close(self, broadcast: Broadcast) -> None:
        """A session is over, and all that it said has been taken."""
        broadcast.end(self._now())
        if self.keeper:
            self.keeper.end(broadcast)
        elif not broadcast.lines:
            self._broadcasts.pop(broadcast.id, None)  # there is nothing to read

    def find(self, id: str) -> Broadcast | None:
        """That of a session, under way or over."""
        self._tidy()
        found = self._broadcasts.get(id)
        return found if found or self.keeper is None else self.keeper.find(id)

    def all(self) -> list[Broadcast]:
        """Those in memory, the newest first."""
        self._tidy()
        return sorted(self._broadcasts.values(), key=lambda one: -one.begun)

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
        """Delete it, wherever it is kept; whether there was one. One under way goes on unkept."""
        found = self.find(id)
        if found is None:
            return False
        found.token = None
        found.lines.clear()
        found.dismiss()
        if found.ended is not None:
            self._broadcasts.pop(id, None)
        if self.keeper:
            self.keeper.forget(id)
        return True

    def _tidy(self) -> None:
        late = self._now() - LINGER
        over = [one for one in self._broadcasts.values() if one.ended is not None]
        for one in over:
            if one.ended is not None and (one.ended < late or len(self._broadcasts) > MOST):
                del self._broadcasts[one.id]


def may_read(broadcast: Broadcast, token: str | None) -> bool:
    """Whether a token opens it. Takes as long whether it does or not."""
    known = broadcast.token or ""
    return hmac.compare_digest(known.encode(), (token or "").encode()) and bool(known)
