"""Options, as frozen dataclasses that are checked once. Fields are flags, their texts the help."""

from dataclasses import dataclass
from typing import Literal

from livecap.errors import ConfigError

Task = Literal["transcribe", "translate"]
LongForm = Literal["parallel", "sequential"]
Precision = Literal["auto", "fp32", "bf16", "int8", "int4"]

LADDER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # openai-whisper's temperatures, tried in turn


def _check(ok: bool, option: str, value: object, remedy: str) -> None:
    if not ok:
        raise ConfigError(f"{option} can't be {value}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class VadConfig:
    """Voice activity detection."""

    vad_threshold: float = 0.5
    """Probability from which a moment counts as speech; lower it for faint voices."""
    vad_min_speech: int = 100
    """Milliseconds: what is shorter is no speech."""
    vad_min_silence: int = 300
    """Milliseconds: a shorter pause belongs to the speech around it."""
    vad_pad: int = 300
    """Milliseconds kept before speech."""
    vad_tail: int = 300
    """Milliseconds kept after speech."""

    def __post_init__(self) -> None:
        threshold = self.vad_threshold
        _check(0 < threshold < 1, "--vad-threshold", threshold, "Use a number between 0 and 1.")
        for name, value in (
            ("--vad-min-speech", self.vad_min_speech),
            ("--vad-min-silence", self.vad_min_silence),
            ("--vad-pad", self.vad_pad),
            ("--vad-tail", self.vad_tail),
        ):
            _check(0 <= value <= 10_000, name, value, "Use 0 to 10000 milliseconds.")


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """How text is made of speech."""

    language: str | None = None
    """Short: -l. Code or English name; without it, or with auto, it is detected."""
    temperature: float | None = None
    """Of the sampling; without it 0, and rising where Whisper's text is not believable."""
    words: bool = False
    """Give every word its time, in json, jsonl and (inside the cues) vtt."""
    task: Task = "transcribe"
    """translate: write English whatever is spoken."""
    prompt: str = ""
    """Text that the recording seems to go on from; sets names, spelling and style. Where it is too
    long, its end counts."""
    hotwords: str = ""
    """Names and terms to expect, with commas between. Where they are too many, the first count; a
    long prompt leaves them half of the room."""
    long_form: LongForm = "parallel"
    """parallel: stretches of speech apart, many at once. sequential: each window goes on from the
    text before it, as openai-whisper does."""
    no_timestamps: bool = False
    """Don't let the model mark the times of its sentences: for fine-tuned ones that can't."""

    def __post_init__(self) -> None:
        if self.temperature is not None:
            _check(0 <= self.temperature <= 2, "--temperature", self.temperature, "Use 0 to 2.")

    @property
    def timestamps(self) -> bool:
        """Whether the model marks the times of its sentences."""
        return not self.no_timestamps

    @property
    def temperatures(self) -> tuple[float, ...]:
        """Those to try in turn."""
        return LADDER if self.temperature is None else (self.temperature,)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Where and how a model runs."""

    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Precision = "auto"
    """auto: bf16 where the processor is fast at it, and int8 for large decoder weights. int4:
    Qwen3-ASR's decode steps in 4 bits, its prompts in int8: least exact."""
    threads: int = 0
    """Of the CPU; 0: one a core."""
    batch_size: int = 0
    """Stretches of speech decoded at once; 0: as many as memory and speed suggest."""
    max_segment: int = 0
    """Seconds: the longest stretch of speech that the model hears at once; 0: what suits it."""
    attention_window: int = 0
    """Seconds of audio that see each other in Qwen3-ASR's encoder: 2, 4 or 8; 0: as trained."""

    def __post_init__(self) -> None:
        _check(0 <= self.threads <= 1024, "--threads", self.threads, "Use 1 to 1024.")
        _check(0 <= self.batch_size <= 256, "--batch-size", self.batch_size, "Use 1 to 256.")
        seconds = self.max_segment
        window = self.attention_window
        _check(window in (0, 2, 4, 8), "--attention-window", window, "Use 2, 4 or 8.")
        _check(seconds == 0 or 2 <= seconds <= 1200, "--max-segment", seconds, "Use 2 to 1200.")

    def refuse_window(self, name: str) -> None:
        """For a model whose encoder has no windows to choose. Raises ConfigError if one is."""
        window, remedy = self.attention_window, f"{name} has no such windows; leave it out."
        _check(not window, "--attention-window", window, remedy)

    def refuse_int4(self, name: str) -> None:
        """For a model whose decode steps gain nothing by it. Raises ConfigError if it is asked."""
        remedy = f"{name} gains nothing by it; use int8."
        _check(self.precision != "int4", "--precision", "int4", remedy)

    def segment(self, best: int, longest: int, name: str) -> int:
        """Seconds that suit a model, and the most it can hear at once -> seconds to give it.

        Raises ConfigError for more than it can hear.
        """
        _check(
            self.max_segment <= longest,
            "--max-segment",
            self.max_segment,
            f"{name} hears {longest} seconds at once, at most.",
        )
        return self.max_segment or best


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """When the words of live speech are said for good."""

    policy: str = "auto"
    """append-only, rollback, local-agreement or align-att; auto: what suits the model."""
    update: float = 0.0
    """Seconds of new speech from which it is heard again; 0: what suits the model."""
    pause: int = 0
    """Milliseconds of silence after which all that was heard is said for good; 0: what suits the
    model."""
    carry: int = 0
    """Words of the text so far that the model goes on from when it begins a new stretch."""

    def __post_init__(self) -> None:
        update, pause, carry = self.update, self.pause, self.carry
        _check(update == 0 or 0.2 <= update <= 30, "--update", update, "Use 0.2 to 30 seconds.")
        _check(pause == 0 or 300 <= pause <= 10_000, "--pause", pause, "Use 300 to 10000.")
        _check(0 <= carry <= 100, "--carry", carry, "Use 0 to 100 words.")


@dataclass(frozen=True, slots=True)
class OutputConfig:
    """What is written, and where."""

    format: str = ""
    """Short: -f. txt, srt, vtt, json, jsonl or tsv, or several with commas between. Without it:
    what --output ends in, else srt, and txt on standard output."""
    output: str | None = None
    """Short: -o. A folder, a file, a name such as 'out/{stem}.{lang}.{ext}', or - for standard
    output. Without it: beside the input."""
    overwrite: bool = False
    """Caption again what has been captioned; otherwise complete outputs are left as they are."""
    json_lines: bool = False
    """Every event as a line of JSON on standard output, instead of files."""
    quiet: bool = False
    """Short: -q. Only errors on standard error."""
    preset: str = "netflix"
    """Caption style: netflix, bbc, dcmp or live608."""
    max_line_width: int | None = None
    """Columns of a caption line, instead of the style's."""
    max_lines: int | None = None
    """Lines of a caption, instead of the style's."""

    @property
    def names(self) -> tuple[str, ...]:
        """The formats asked for, each once."""
        return tuple(dict.fromkeys(name.strip() for name in self.format.split(",")))
