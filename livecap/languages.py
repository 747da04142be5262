"""The languages of Whisper: codes, English names, and other ways to write them."""

import difflib
import heapq
from collections.abc import Mapping

from livecap.errors import ConfigError

# In the order of Whisper's language tokens; Cantonese came last, with large-v3.
# Source: OpenAI's whisper/tokenizer.py.
NAMES = {
    "en": "English", "zh": "Chinese", "de": "German", "es": "Spanish", "ru": "Russian",
    "ko": "Korean", "fr": "French", "ja": "Japanese", "pt": "Portuguese", "tr": "Turkish",
    "pl": "Polish", "ca": "Catalan", "nl": "Dutch", "ar": "Arabic", "sv": "Swedish",
    "it": "Italian", "id": "Indonesian", "hi": "Hindi", "fi": "Finnish", "vi": "Vietnamese",
    "he": "Hebrew", "uk": "Ukrainian", "el": "Greek", "ms": "Malay", "cs": "Czech",
    "ro": "Romanian", "da": "Danish", "hu": "Hungarian", "ta": "Tamil", "no": "Norwegian",
    "th": "Thai", "ur": "Urdu", "hr": "Croatian", "bg": "Bulgarian", "lt": "Lithuanian",
    "la": "Latin", "mi": "Maori", "ml": "Malayalam", "cy": "Welsh", "sk": "Slovak",
    "te": "Telugu", "fa": "Persian", "lv": "Latvian", "bn": "Bengali", "sr": "Serbian",
    "az": "Azerbaijani", "sl": "Slovenian", "kn": "Kannada", "et": "Estonian",
    "mk": "Macedonian", "br": "Breton", "eu": "Basque", "is": "Icelandic", "hy": "Armenian",
    "ne": "Nepali", "mn": "Mongolian", "bs": "Bosnian", "kk": "Kazakh", "sq": "Albanian",
    "sw": "Swahili", "gl": "Galician", "mr": "Marathi", "pa": "Punjabi", "si": "Sinhala",
    "km": "Khmer", "sn": "Shona", "yo": "Yoruba", "so": "Somali", "af": "Afrikaans",
    "oc": "Occitan", "ka": "Georgian", "be": "Belarusian", "tg": "Tajik", "sd": "Sindhi",
    "gu": "Gujarati", "am": "Amharic", "yi": "Yiddish", "lo": "Lao", "uz": "Uzbek",
    "fo": "Faroese", "ht": "Haitian Creole", "ps": "Pashto", "tk": "Turkmen", "nn": "Nynorsk",
    "mt": "Maltese", "sa": "Sanskrit", "lb": "Luxembourgish", "my": "Myanmar", "bo": "Tibetan",
    "tl": "Tagalog", "mg": "Malagasy", "as": "Assamese", "tt": "Tatar", "haw": "Hawaiian",
    "ln": "Lingala", "ha": "Hausa", "ba": "Bashkir", "jw": "Javanese", "su": "Sundanese",
    "yue": "Cantonese",
}  # fmt: skip

# ISO 639-2 and 639-3, in the order of NAMES; where there are two, the one made from the English
# name is among the aliases.
LONG_CODES = (
    "eng zho deu spa rus kor fra jpn por tur pol cat nld ara swe ita ind hin fin vie heb ukr "
    "ell msa ces ron dan hun tam nor tha urd hrv bul lit lat mri mal cym slk tel fas lav ben "
    "srp aze slv kan est mkd bre eus isl hye nep mon bos kaz sqi swa glg mar pan sin khm sna "
    "yor som afr oci kat bel tgk snd guj amh yid lao uzb fao hat pus tuk nno mlt san ltz mya "
    "bod tgl mlg asm tat haw lin hau bak jav sun yue"
)
LIKELIEST = 3  # languages that are named where one is not known

ALIASES = {
    # names
    "burmese": "my", "castilian": "es", "farsi": "fa", "filipino": "tl", "flemish": "nl",
    "greek, modern": "el", "haitian": "ht", "letzeburgesch": "lb", "mandarin": "zh",
    "moldavian": "ro", "moldovan": "ro", "norwegian bokmål": "no", "norwegian nynorsk": "nn",
    "panjabi": "pa", "pushto": "ps", "sinhalese": "si", "valencian": "ca",
    # codes that were replaced, or that Whisper writes otherwise
    "cmn": "zh", "fil": "tl", "in": "id", "iw": "he", "ji": "yi", "jv": "jw", "mo": "ro",
    "nb": "no", "nob": "no", "zh-yue": "yue",
    # ISO 639-2 codes that are made from English names
    "alb": "sq", "arm": "hy", "baq": "eu", "bur": "my", "chi": "zh", "cze": "cs", "dut": "nl",
    "fre": "fr", "geo": "ka", "ger": "de", "gre": "el", "ice": "is", "mac": "mk", "mao": "mi",
    "may": "ms", "per": "fa", "rum": "ro", "slo": "sk", "tib": "bo", "wel": "cy",
}  # fmt: skip


def language_code(text: str) -> str:
    """A language as a user writes it -> the code that Whisper has for it.

    Takes codes ('en', 'eng', 'iw'), names ('English'), and tags with a region or script ('en-US',
    'zh_Hant_TW'), in any case. Raises ConfigError that names the likeliest ones.
    """
    wanted = text.strip().lower().replace("_", "-")
    names = {name.lower(): code for code, name in NAMES.items()} | ALIASES
    names |= dict(zip(LONG_CODES.split(), NAMES, strict=True))
    for candidate in (wanted, "-".join(wanted.split("-")[:2]), wanted.split("-")[0]):
        if candidate in NAMES:
            return candidate
        if candidate in names:
            return names[candidate]
    codes = heapq.nlargest(LIKELIEST, NAMES, key=lambda code: _likeness(wanted, code, names))
    choices = " or ".join(f"{code} ({NAMES[code]})" for code in codes)
    raise ConfigError(
        f"--language: {text!r} is no language that is known here", remedy=f"Perhaps {choices}."
    )


def _likeness(wanted: str, code: str, names: Mapping[str, str]) -> float:
    """How much a language's names and codes, or their beginnings, are like what was written."""
    known = [code, *(name for name, its in names.items() if its == code)]
    known += [name[: len(wanted) + 1] for name in known]
    return max(difflib.SequenceMatcher(None, wanted, name).ratio() for name in known)
