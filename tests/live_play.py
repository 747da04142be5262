"""A recording through one live stream, at once: what is said, and the hypotheses on the way."""

from collections.abc import Callable
from dataclasses import replace

from livecap.config import DecodeConfig
from livecap.events import RATE, Caption, Event
from livecap.live import Live
from livecap.live_config import LiveConfig
from livecap.models.load import Loaded
from livecap.models.protocol import Pcm
from livecap.recognizer import Recognizer
from livecap.stream import SourceStream
from livecap.vad import load as load_silero
from livecap.work import Hypothesis, Work

Change = Callable[[Work], Work]


def play(
    loaded: Loaded,
    pcm: Pcm,
    config: LiveConfig,
    change: Change = lambda work: work,
    decode: DecodeConfig | None = None,
) -> tuple[list[Event], list[Hypothesis]]:
    """A recording through one live stream -> its events, and the hypotheses on the way."""
    live = Live(config)
    stream = SourceStream([live], load_silero())
    recognizer: Recognizer[int] = Recognizer(loaded.model, decode or DecodeConfig(), most=1)
    events: list[Event] = []
    found: list[Hypothesis] = []

    def work_off() -> None:
        while given := stream.work():
            recognizer.submit(0, change(given[1]))
            while not (done := recognizer.step()):
                pass
            found.append(replace(done[0][1], work=given[1]))
            events.extend(stream.accept(0, found[-1]))
            for kept in live.released():
                recognizer.forget(kept)
        events.extend(stream.events())

    for at in range(0, len(pcm), RATE // 2):
        stream.feed(at, pcm[None, at : at + RATE // 2])
        work_off()
    stream.close()
    work_off()
    for kept in live.released():
        recognizer.forget(kept)
    pages = loaded.model.decoder.pages
    assert pages.available == pages.count, "pages leaked"
    return [*events, *stream.finish()], found


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Caption))
