"""The models that have short names: one line a model, best first ('auto' takes the first here)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """A published model, or one that comes with livecap."""

    name: str
    # hub ids: the one to pull, then conversions that serve as well; () for what livecap brings
    repositories: tuple[str, ...]
    parameters: int  # millions
    download: int  # MB, about
    languages: str = "99 languages"
    family: str = "whisper"
    companion: str = ""  # the short name of a model that has to be there as well


def _whisper(
    name: str, parameters: int, download: int, languages: str = "99 languages", *, fast: str = ""
) -> Known:
    """A model of OpenAI's; `fast` is the conversion that faster-whisper fetches."""
    converted = fast or f"Systran/faster-whisper-{name}"
    repositories = (f"openai/whisper-{name}", converted)
    return Known(name, repositories, parameters, download, languages)


def _distilled(size: str, parameters: int, download: int) -> Known:
    """A distilled model; all of them know English alone."""
    repositories = (f"distil-whisper/distil-{size}", f"Systran/faster-distil-whisper-{size}")
    return Known(f"distil-{size}", repositories, parameters, download, "English")


def _qwen(
    name: str, repository: str, parameters: int, download: int, languages: str = "30 languages"
) -> Known:
    return Known(name, (repository,), parameters, download, languages, "qwen3-asr")


TURBO = "mobiuslabsgmbh/faster-whisper-large-v3-turbo"
DECODER = "qwen3-asr-0.6b"  # whose decoder the causal tower was trained with

KNOWN = (
    _whisper("large-v3-turbo", 809, 1620, "100 languages", fast=TURBO),
    _whisper("large-v3", 1550, 3090, "100 languages"),
    _distilled("large-v3", 756, 1510),
    _whisper("large-v2", 1550, 6170),
    _whisper("large-v1", 1550, 6170),
    _distilled("large-v2", 756, 1510),
    _whisper("medium", 769, 3060),
    _whisper("medium.en", 769, 3060, "English"),
    _distilled("medium.en", 394, 790),
    _whisper("small", 244, 970),
    _whisper("small.en", 244, 970, "English"),
    _distilled("small.en", 166, 330),
    _whisper("base", 74, 290),
    _whisper("base.en", 74, 290, "English"),
    _whisper("tiny", 39, 150),
    _whisper("tiny.en", 39, 150, "English"),
    # never chosen by 'auto'
    _qwen("qwen3-asr-1.7b", "Qwen/Qwen3-ASR-1.7B", 1700, 4700),
    _qwen("qwen3-asr-0.6b", "Qwen/Qwen3-ASR-0.6B", 600, 1880),
    Known(  # a tower alone
        "qwen3-asr-0.6b-causal",
        ("qfuxa/qwen3-asr-0.6b-streaming",),
        600,
        746,
        "English",
        "qwen3-asr",
        companion=DECODER,
    ),
    # times the words of a known text
    _qwen("qwen3-forced-aligner-0.6b", "Qwen/Qwen3-ForcedAligner-0.6B", 600, 1840, "11 languages"),
    # demonstrations: 46 words, as espeak-ng says them
    Known("qwen3-asr-sprout", (), 2, 4, "English", "qwen3-asr"),
    Known("qwen3-asr-sprout-causal", (), 2, 7, "English", "qwen3-asr"),
)

ALIASES = {"turbo": "large-v3-turbo", "large": "large-v3", "distil-large": "distil-large-v3"}


def find_known(name: str) -> Known | None:
    """A short name, an alias of one or a hub id, in any case -> the model, if it is listed."""
    wanted = name.lower()
    wanted = ALIASES.get(wanted, wanted)
    for known in KNOWN:
        if wanted == known.name or wanted in (one.lower() for one in known.repositories):
            return known
    return None
