"""The frames of one realtime session -> the server's metrics."""

import logging
from collections.abc import Callable

from livecap.api.realtime import Frame
from livecap.events import RATE, Stalled
from livecap.metrics import Metrics

ITEM = "conversation.item.input_audio_transcription"
LOG = logging.getLogger("livecap.server")
MOST = 500  # items whose moments are kept: a client that commits and commits is not waited for


class Observer:
    """Shown every frame in order. `clock`: seconds."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._started: dict[str, float] = {}  # items without text yet -> when speech was told
        self._committed: dict[str, float] = {}  # items without an end -> when they were committed

    def __call__(self, frame: Frame) -> None:
        """Count it."""
        event = frame.event
        item = event.get("item_id")
        if event["type"] == "error":
            error = event["error"]
            code = error.get("code") if isinstance(error, dict) else event.get("code")
            self._metrics.errors.labels(str(code)).inc()
        elif isinstance(item, str):
            self._item(str(event["type"]), item)

    def _item(self, kind: str, item: str) -> None:
        now = self._clock()
        if kind == "input_audio_buffer.speech_started":
            _keep(self._started, item, now)
        elif kind == "input_audio_buffer.committed":
            _keep(self._committed, item, now)
        elif kind == f"{ITEM}.delta":
            started = self._started.pop(item, None)
            if started is not None:
                self._metrics.first_text.observe(now - started)
        elif kind in (f"{ITEM}.completed", f"{ITEM}.failed"):
            self._started.pop(item, None)
            committed = self._committed.pop(item, None)
            if committed is not None and kind == f"{ITEM}.completed":
                self._metrics.final_latency.observe(now - committed)
            self._metrics.items.labels(kind.rpartition(".")[2]).inc()

    def stalled(self, event: Stalled, model: str) -> None:
        """So much speech made no text that its decoding was started anew."""
        self._metrics.stalls.labels(model).inc()
        fields = {"model": model, "at": event.start / RATE, "voiced": event.voiced / RATE}
        LOG.warning("speech makes no text; decoding starts anew", extra={"fields": fields})

    def count_audio(self, samples: int, model: str) -> None:
        """So much audio was taken in."""
        self._metrics.audio.labels("realtime", model).inc(samples / RATE)


def _keep(moments: dict[str, float], item: str, now: float) -> None:
    if len(moments) >= MOST:
        moments.pop(next(iter(moments)))
    moments[item] = now
