"""Files that a model on this machine captions."""

from collections.abc import Callable, Iterator

from livecap.audio import AudioReader
from livecap.audio.prefetch import Pump
from livecap.commands.arguments import model_of
from livecap.commands.file import FileRun
from livecap.commands.file_batch import BatchConfig
from livecap.config import VadConfig
from livecap.errors import ConfigError, OutputError
from livecap.models.prompting import fitted


def load_files(
    config: BatchConfig,
    open_outputs: Callable[[str], None],
    say: Callable[[str], None],
    *,
    times: bool,
) -> FileRun:
    """A `batch.Start` whose model is loaded."""
    from livecap.checkpoints import resolve
    from livecap.models.load import load_model
    from livecap.vad.silero import load

    model = model_of(config.model)
    checkpoint = resolve(model, pull=config.pull)
    if model == "auto":
        say(f"model: {checkpoint.name}{_better(checkpoint.name)}")
    loaded = load_model(checkpoint, config.run)
    decode = fitted(loaded.model, config.decode, say, live=False)
    untimed = loaded.model.untimed(config.decode.language) if times else None
    if untimed:
        raise ConfigError(f"{checkpoint.name} alone can't time words", remedy=untimed)

    def opened(path: str) -> Pump:
        """An input, then its outputs: neither a bad file nor a bad folder costs decoding."""
        pump = Pump(path, config.read)
        try:
            open_outputs(path)
        except OutputError:
            pump.close()
            raise
        for note in _inside(pump.reader, chosen=config.read.track is not None):
            say(f"{path}: {note}")
        return pump

    return FileRun(
        loaded,
        load() if config.vad else None,
        decode=decode,
        vad=config.vad or VadConfig(),
        open_source=opened,
    )


def _inside(reader: AudioReader, *, chosen: bool) -> Iterator[str]:
    """What else a container has that could be meant, for the user."""
    rest = [track.describe() for track in reader.tracks if track.number != reader.track]
    if rest and not chosen:
        yield (
            f"audio track {reader.track} is captioned, not {'; '.join(rest)}; "
            "--track takes another one"
        )
    if reader.subtitles:
        codes = ", ".join(reader.subtitles)
        yield f"it has subtitles of its own inside ({codes}); captions are made all the same"


def _better(name: str) -> str:
    if name.endswith("tiny.en"):
        return ", English only and small; `livecap pull large-v3-turbo` fetches a better one"
    return ""
