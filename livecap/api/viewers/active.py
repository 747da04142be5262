"""Which of several sessions' captions go where there is room for one."""

from collections.abc import Callable

from livecap.api.viewers.channel import Broadcast, ChannelLine
from livecap.events import Caption
from livecap.output.push.caption_line import Said
from livecap.output.push.receivers import Receivers, spoken_at


class Stage:
    """Shown every line that readers are told; `now`: Unix seconds.

    It belongs to the session that began last, of those that have said something and go on: whoever
    connects anew takes it over from the connection that is not noticed to be dead.
    """

    def __init__(self, to: Receivers, now: Callable[[], float]) -> None:
        self._to = to
        self._now = now
        self._holder: Broadcast | None = None

    def __call__(self, broadcast: Broadcast, line: ChannelLine) -> None:
        """Passes it on, if it is text."""
        if not isinstance(line.event, Caption):
            return
        holder = self._holder
        if holder is None or holder.ended is not None or holder.begun <= broadcast.begun:
            self._holder = holder = broadcast
        at = spoken_at(line.event, self._now())
        caption_line = Said(broadcast.id, line.number, line.event, at)
        self._to.put(caption_line, on_stage=holder is broadcast)
