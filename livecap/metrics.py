"""What the server measures: every Prometheus name in one place. Seconds, and no labels per session.

Source: Prometheus' rules for names, and those of its text format.
"""

from collections.abc import Callable
from types import TracebackType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

LATENCY = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 30.0)
LIVED = (0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0)
REQUEST = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0)
FACTOR = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0)


class Metrics:
    """The server's metrics, in a registry that is given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)  # memory, files and processor time of this process

        self.sessions_active = Gauge(
            "livecap_sessions_active",
            "Live sessions that are open.",
            ["transport"],
            registry=registry,
        )
        self.sessions = Counter(
            "livecap_sessions_total",
            "Live sessions, counted as they end: only then is their dialect certain.",
            ["transport", "dialect"],
            registry=registry,
        )
        self.session_duration = Histogram(
            "livecap_session_duration_seconds",
            "How long live sessions were open.",
            buckets=LIVED,
            registry=registry,
        )
        self.audio = Counter(
            "livecap_audio_seconds_total",
            "Audio that was taken in.",
            ["endpoint", "model"],
            registry=registry,
        )
        self.items = Counter(
            "livecap_items_total",
            "Turns and files that were captioned, or were not.",
            ["result"],
            registry=registry,
        )
        self.first_text = Histogram(
            "livecap_first_text_seconds",
            "From where speech starts to the first text of it.",
            buckets=LATENCY,
            registry=registry,
        )
        self.final_latency = Histogram(
            "livecap_final_latency_seconds",
            "From the commit of a turn to its whole text.",
            buckets=LATENCY,
            registry=registry,
        )
        self.partial_lag = Histogram(
            "livecap_partial_lag_seconds",
            "How far text that may still change lies behind the audio received.",
            buckets=LATENCY,
            registry=registry,
        )
        self.stalls = Counter(
            "livecap_stalls_total",
            "How often live speech made no text for so long that its decoding was started anew.",
            ["model"],
            registry=registry,
        )
        self.rtf = Histogram(
            "livecap_rtf",
            "Real-time factor of files: seconds until the text was there per second of audio.",
            buckets=FACTOR,
            registry=registry,
        )
        self.queue_depth = Gauge(
            "livecap_queue_depth",
            "Files that are under way: being received, waiting for the model, or at work.",
            registry=registry,
        )
        self.errors = Counter(
            "livecap_errors_total",
            "Errors that clients were told.",
            ["code"],
            registry=registry,
        )
        self.push = Counter(
            "livecap_push_lines_total",
            "Final captions for webhooks, OBS, YouTube and Zoom, and what became of them.",
            ["receiver", "result"],
            registry=registry,
        )
        self.history_waiting = Gauge(
            "livecap_history_waiting",
            "Writes that are not in the history yet; many only while its file can't be written.",
            registry=registry,
        )
        self.history_failures = Counter(
            "livecap_history_failures_total",
            "How often the history's file could not be written.",
            registry=registry,
        )
        self.history_lost = Counter(
            "livecap_history_lost_total",
            "Lines of captions that will not be in the history.",
            registry=registry,
        )
        self.requests = Counter(
            "livecap_http_requests_total",
            "HTTP requests that were answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.request_duration = Histogram(
            "livecap_http_request_duration_seconds",
            "From a request's first byte to the answer's last.",
            ["method", "route"],
            buckets=REQUEST,
            registry=registry,
        )

    def pushed(self, receiver: str, result: str) -> None:
        """Count a caption that was sent on, or could not be."""
        self.push.labels(receiver, result).inc()

    def session(self, transport: str, clock: Callable[[], float]) -> "OpenSession":
        """For the time that a live session is open: `with metrics.session(...) as told:`."""
        return OpenSession(self, transport, clock)


class OpenSession:
    """Counts one live session as long as it is entered."""

    def __init__(self, metrics: Metrics, transport: str, clock: Callable[[], float]) -> None:
        self.dialect = "openai"  # as far as it is known
        self._metrics = metrics
        self._transport = transport
        self._clock = clock
        self._begun = 0.0

    def __enter__(self) -> "OpenSession":
        self._begun = self._clock()
        self._metrics.sessions_active.labels(self._transport).inc()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._metrics.sessions.labels(self._transport, self.dialect).inc()
        self._metrics.sessions_active.labels(self._transport).dec()
        self._metrics.session_duration.observe(self._clock() - self._begun)
