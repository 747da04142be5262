"""What Qwen3-ASR writes -> its language, and its text without loops.

Source: the processor of Qwen3-ASR in transformers, and the package qwen-asr.
"""

import re
from dataclasses import dataclass

# Code -> the name that the model writes and was trained to be told.
LANGUAGES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "fa": "Persian", "fi": "Finnish", "fil": "Filipino",
    "fr": "French", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "mk": "Macedonian", "ms": "Malay", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish",
    "th": "Thai", "tr": "Turkish", "vi": "Vietnamese", "yue": "Cantonese", "zh": "Chinese",
}  # fmt: skip
CODES = {name.lower(): code for code, name in LANGUAGES.items()}

PREFIX = "language "  # what a header's line begins with
SILENT = "none"  # the language of a clip that nobody speaks in

# Repetitions that are no speech: one character over 20 times; then, where 40 characters are left,
# up to 20 characters 20 times and more, the shortest such block first.
CHARACTERS = re.compile(r"(.)\1{20,}", re.DOTALL)
BLOCKS = re.compile(r"(?=.{40})(.{1,20}?)\1{19,}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Header:
    """What the model says about a clip before its text."""

    language: str | None  # a code of LANGUAGES, None if there is none or it is unknown
    silent: bool  # the model heard no speech


def parse(meta: str) -> Header:
    """The text before the `<asr_text>` token -> what it says.

    It is "language English", or "language None" for a clip without speech. The first line that
    begins like that counts, in any case, for now and then others stand around it.
    """
    lines = (line.strip() for line in meta.splitlines())
    named = (line[len(PREFIX) :] for line in lines if line.lower().startswith(PREFIX))
    name = next(named, "").strip()
    return Header(language_named(name), silent=name.lower() == SILENT)


def language_named(name: str) -> str | None:
    """A language's English name as the model writes it, in any case -> its code."""
    return CODES.get(name.strip().lower())


def code_for(code: str) -> str | None:
    """A code as `livecap.languages.language_code` gives it -> that of LANGUAGES, None if none.

    Whisper's Tagalog (tl) is this model's Filipino (fil).
    """
    own = "fil" if code == "tl" else code
    return own if own in LANGUAGES else None


def collapse_repetitions(text: str) -> str:
    """Text that the model may have got stuck in -> the same with one copy of what repeats.

    Equal to what transformers and qwen-asr make of it, in a time that grows as the text does.
    """
    return BLOCKS.sub(r"\1", CHARACTERS.sub(r"\1", text))
