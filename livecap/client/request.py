"""Options of `livecap file` -> the form that a server is sent, and what it may leave out."""

from dataclasses import dataclass, field
from typing import Literal

from livecap.audio.prefetch import ReadConfig
from livecap.client.options import refuse_local
from livecap.client.upload import Reply
from livecap.client.wire import split_hotwords, text
from livecap.config import DecodeConfig, ModelConfig, VadConfig
from livecap.errors import ConfigError

Detail = Literal["words", "segments", "text"]
LESS: dict[Detail, Detail] = {"words": "segments", "segments": "text"}


@dataclass(frozen=True, slots=True)
class Asked:
    """How files are to be captioned. Raises ConfigError for what a server can't be told."""

    model: str = "auto"  # as it was typed
    pull: bool = False
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    vad: VadConfig | None = field(default_factory=VadConfig)
    run: ModelConfig = field(default_factory=ModelConfig)
    read: ReadConfig = field(default_factory=ReadConfig)
    needs_words: bool = False  # --words was given: nothing less will do

    def __post_init__(self) -> None:
        usual, vad = VadConfig(), self.vad or VadConfig()
        run, plain = self.run, ModelConfig()
        refuse_local(
            {
                "--pull": self.pull,
                "--no-vad": self.vad is None,
                "--vad-min-speech": vad.vad_min_speech != usual.vad_min_speech,
                "--vad-tail": vad.vad_tail != usual.vad_tail,
                "--no-timestamps": self.decode.no_timestamps,
                "--track": self.read.track is not None,
                "--channels split": self.read.split,
                "--raw": self.read.raw is not None,
                "--device": run.device != plain.device,
                "--precision": run.precision != plain.precision,
                "--threads": run.threads != plain.threads,
                "--batch-size": run.batch_size != plain.batch_size,
                "--max-segment": run.max_segment != plain.max_segment,
                "--attention-window": run.attention_window != plain.attention_window,
            }
        )
        temperature = self.decode.temperature
        if temperature is not None and temperature > 1:
            raise ConfigError(
                f"--temperature can't be {temperature:g} on a server", remedy="Use 0 to 1."
            )

    @property
    def route(self) -> str:
        """Where it is sent."""
        translates = self.decode.task == "translate"
        return "audio/translations" if translates else "audio/transcriptions"

    def fields(self, detail: Detail) -> list[tuple[str, str]]:
        """The fields of the form, the file not among them (OpenAI's API)."""
        decode = self.decode
        found = [("response_format", "json" if detail == "text" else "verbose_json")]
        if detail == "words":
            found += [("timestamp_granularities[]", one) for one in ("word", "segment")]
        if self.model != "auto":
            found.append(("model", self.model))
        if decode.language:
            found.append(("language", decode.language))
        if decode.prompt:
            found.append(("prompt", decode.prompt))
        found += [("keywords[]", word) for word in split_hotwords(decode.hotwords)]
        if decode.temperature is not None:
            found.append(("temperature", f"{decode.temperature:g}"))
        if decode.long_form != "parallel":
            found.append(("long_form", decode.long_form))
        return [*found, *self._chunking()]

    def less(self, detail: Detail, reply: Reply) -> Detail | None:
        """What to ask for instead of what was refused; None if that was not about the form."""
        if reply.status not in (400, 422) or detail not in LESS or self.needs_words:
            return None
        message = text(reply.error, "param") + " " + text(reply.error, "message")
        if detail == "words" and "timestamp_granularities" in message:
            return "segments"
        return "text" if "response_format" in message else None

    def _chunking(self) -> list[tuple[str, str]]:
        """How pauses are found, if that is not left to the server."""
        vad, usual = self.vad, VadConfig()
        if vad is None or vad == usual:
            return []
        payload = {
            "type": "server_vad",
            "threshold": f"{vad.vad_threshold:g}",
            "prefix_padding_ms": str(vad.vad_pad),
            "silence_duration_ms": str(vad.vad_min_silence),
        }
        return [(f"chunking_strategy[{name}]", value) for name, value in payload.items()]
