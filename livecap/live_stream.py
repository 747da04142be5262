"""One live stream of a service."""

from collections.abc import Callable
from threading import Condition

from livecap.config import DecodeConfig
from livecap.events import RATE, Event, Pace
from livecap.handle import AT_ONCE, Handle, Rows, joined
from livecap.live import Live
from livecap.live_config import LiveConfig
from livecap.stream import SourceStream
from livecap.vad import Silero

ALONG = AT_ONCE // 2  # samples that are judged with those of other streams
BEHIND = 3  # updates that are overdue when a stream counts as being behind


class LiveStream(Handle):
    """Audio that is captioned as it comes."""

    def __init__(
        self,
        config: LiveConfig,
        decode: DecodeConfig,
        silero: Silero | None,
        notify: Callable[[], None],
        *,
        wake: Condition,
        news: Condition,
    ) -> None:
        """`wake` and `news` are the service's, with one lock: to do, and done."""
        self.live = Live(config)
        source = SourceStream([self.live], silero if config.vad else None, renews=True)
        super().__init__(source, decode, notify, wake=wake, news=news)
        self.unheard = 0  # samples that had come and not been heard, when that was last looked at
        self.is_behind = False  # too many of them: updates get rarer
        self.busy = 0.0  # seconds of waiting for hypotheses

    def take_out(self) -> list[tuple[int, Rows, str]]:
        """What came, if it is worth looking at; after the last of it, the source is closed."""
        with self._wake:
            inbox = self.inbox
            if not inbox.is_due and inbox.samples < ALONG:
                return []
            blocks = [*inbox.blocks]
            self.unheard += inbox.samples
            inbox.blocks.clear()
            inbox.samples, inbox.since, inbox.is_urgent = 0, None, False
        return joined(blocks)

    def end(self) -> None:
        """It is done, or dropped."""
        super().end()
        self.unheard = 0

    def pace(self) -> list[Event]:
        """Whether the stream has fallen behind or caught up since the last call."""
        lag, interval = self.live.unheard, self.live.config.interval
        before = self.is_behind
        self.is_behind = lag > (interval if before else BEHIND * interval)
        told = Pace(self.live.reached, lag, self.is_behind)
        return [told] if self.is_behind != before else []

    @property
    def lag(self) -> float:
        """Seconds of audio that have come and are not heard yet."""
        with self._wake:
            return (self.unheard + self.inbox.samples) / RATE
