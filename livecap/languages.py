"""The languages of Whisper: codes, English names, and other ways to write them."""

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

ALIASES = {
    # names
    "burmese": "my", "castilian": "es", "farsi": "fa", "filipino": "tl", "flemish": "nl",
    "greek, modern": "el", "haitian": "ht", "letzeburgesch": "lb", "mandarin": "zh",
    "moldavian": "ro", "moldovan": "ro", "norwegian bokmål": "no", "norwegian nynorsk": "nn",
    "panjabi": "pa", "pushto": "ps", "sinhalese": "si", "valencian": "ca",
    # codes that were replaced, or that Whisper writes otherwise
    "cmn": "zh", "fil": "tl", "in": "id", "iw": "he", "ji": "yi", "jv": "jw", "mo": "ro",
    "nb": "no", "zh-yue": "yue",
}  # fmt: skip


def language_code(text: str) -> str:
    """A language as a user writes it -> the code that Whisper has for it.

    Takes codes ('en', 'iw'), names ('English'), and tags with a region or script ('en-US',
    'zh_Hant_TW'), in any case. Raises ConfigError that lists the choices.
    """
    wanted = text.strip().lower().replace("_", "-")
    names = {name.lower(): code for code, name in NAMES.items()} | ALIASES
    for candidate in (wanted, "-".join(wanted.split("-")[:2]), wanted.split("-")[0]):
        if candidate in NAMES:
            return candidate
        if candidate in names:
            return names[candidate]
    choices = ", ".join(f"{code} ({name})" for code, name in NAMES.items())
    raise ConfigError(
        f"--language: {text!r} is no language that is known here", remedy=f"Have: {choices}."
    )
