"""Who is let in while the machine can bear it: live sessions by what they take, files by number.

A refusal comes at once, so that those who were let in keep their latency.
"""

from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from livecap.api.errors import ApiError, busy
from livecap.api.sessions.drain import Drain

LATER = 5  # seconds after which one who was refused may ask again
UNMEASURED = 8  # sessions of a model that is still to be loaded, until it tells how many it bears


class ServiceCapacity(Protocol):
    """What is asked of a `runtime.service.Service`."""

    @property
    def max_streams(self) -> int:
        """Live streams that it could keep up with if it had the machine to itself."""


class Ticket:
    """A place that was given. It is given back once, however often that is asked for."""

    def __init__(self, give_back: Callable[["Ticket"], None], model: str = "") -> None:
        self.model = model  # of a live session; it is set anew when the session changes it
        self._give_back: Callable[[Ticket], None] | None = give_back

    def release(self) -> None:
        """Somebody else may have the place."""
        give_back, self._give_back = self._give_back, None
        if give_back:
            give_back(self)

    def __enter__(self) -> "Ticket":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Admission:
    """Counts who is in. To be used from the event loop alone."""

    def __init__(
        self,
        drain: Drain,
        *,
        sessions: int,
        uploads: int,
        room: Callable[[str], ServiceCapacity | None],
    ) -> None:
        """`sessions`: at most; 0: what the machine bears. `room`: a model's name -> its service, if
        it is loaded.
        """
        self._drain = drain
        self._most_sessions = sessions
        self._most_uploads = uploads
        self._room = room
        self._sessions: set[Ticket] = set()
        self._uploads: set[Ticket] = set()

    @property
    def sessions(self) -> int:
        """Live sessions that are in."""
        return len(self._sessions)

    @property
    def uploads(self) -> int:
        """Files that are in."""
        return len(self._uploads)

    def session(self, model: str) -> Ticket | ApiError:
        """A place for a live session of a model, or the refusal (429, 503: close 1013)."""
        if self._drain.is_stopping:
            return stopping()
        limit = self._most_sessions
        if len(self._sessions) >= limit if limit else not self._has_room_for_one(model):
            return busy(LATER)
        ticket = Ticket(self._sessions.discard, model)
        self._sessions.add(ticket)
        return ticket

    def upload(self) -> Ticket | ApiError:
        """A place for a file, or the refusal (429, 503)."""
        if self._drain.is_stopping:
            return stopping()
        if len(self._uploads) >= self._most_uploads:
            return busy(LATER)
        ticket = Ticket(self._uploads.discard)
        self._uploads.add(ticket)
        return ticket

    def _has_room_for_one(self, model: str) -> bool:
        """Whether all sessions and one more have the time they need.

        Those who have not spoken yet count, too: they may begin at any moment, and together.
        """
        models = [ticket.model for ticket in self._sessions]
        taken = sum(self._share(one) * count for one, count in Counter(models).items())
        # 1e-9: eight eighths may come to a little more than one
        return not models or taken + self._share(model) <= 1 + 1e-9

    def _share(self, model: str) -> float:
        """Of the machine, that a session of a model needs."""
        room = self._room(model)
        return 1 / (room.max_streams if room is not None else UNMEASURED)


def stopping() -> ApiError:
    """503: the server is about to end; another one, or the next, can be asked."""
    return ApiError(
        503,
        "The server is being stopped. Please try again later.",
        type="server_error",
        code="server_stopping",
        headers={"Retry-After": str(LATER)},
    )
