"""A recording through one live stream, at once: its events, and the hypotheses on the way."""

from collections.abc import Callable

from livecap.config import DecodeConfig
from livecap.events import RATE, Caption, Event
from livecap.models.load import Loaded
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.speech_buffer import Pcm
from livecap.online.stream import OnlineStream
from livecap.runtime.batcher import Batcher
from livecap.runtime.source import MultichannelSource
from livecap.vad.silero import load as load_silero

Change = Callable[[DecodeJob], DecodeJob]


def play(
    loaded: Loaded,
    pcm: Pcm,
    config: StreamConfig,
    change: Change = lambda job: job,
    decode: DecodeConfig | None = None,
) -> tuple[list[Event], list[Hypothesis]]:
    """A recording through one live stream -> its events, and the hypotheses on the way."""
    stream = OnlineStream(config)
    source = MultichannelSource([stream], load_silero())
    batcher: Batcher[int] = Batcher(loaded.model, decode or DecodeConfig(), max_jobs=1)
    events: list[Event] = []
    found: list[Hypothesis] = []

    def decode_all() -> None:
        while given := source.poll():
            batcher.submit(0, change(given[1]))
            while not (done := batcher.step()):
                pass
            found.append(done[0][1])
            events.extend(source.accept(0, found[-1]))
            for state in stream.freed():
                batcher.free(state)
        events.extend(source.events())

    for at in range(0, len(pcm), RATE // 2):
        source.push(at, pcm[None, at : at + RATE // 2])
        decode_all()
    source.finish()
    decode_all()
    for state in stream.freed():
        batcher.free(state)
    pages = loaded.model.decoder.pages
    assert pages.available == pages.count, "pages leaked"
    return [*events, *source.close()], found


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Caption))
