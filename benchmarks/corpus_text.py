"""What the corpus' voices read: Debian's fortunes, of which plain English is kept, and own texts.

References are exact only where a text is read in one way: so no digits, no abbreviations, no words
that hardly anybody uses, and of names only those of the own texts. A passage belongs to one part.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from corpus_voices import Part

OWN = Path(__file__).parent / "corpus_texts"
FORTUNES = Path("/usr/share/games/fortunes")  # of Debian's packages fortunes and fortunes-min
FILES = (
    "art", "computers", "cookie", "definitions", "education", "food", "fortunes", "humorists",
    "kids", "law", "literature", "love", "medicine", "miscellaneous", "news", "people", "pets",
    "platitudes", "politics", "riddles", "science", "sports", "startrek", "wisdom", "work",
)  # fmt: skip
USUAL = 4  # times that a word is in all of them, at least
LENGTHS = range(6, 27)  # words of a sentence
SHORT = range(3, 10)  # and of a turn in a dialogue
TUNED = 3  # one passage of so many belongs to the part to tune on
ENDS = re.compile(r"(?<=[.?!])\s+")
SOURCE = re.compile(r"\n\s*--|\n\t\t")  # who said it, after a cookie
PLAIN = re.compile(r"[A-Z][a-z]*(?:'[a-z]+)?(?:,? (?:I|I'[a-z]+|[a-z]+(?:'[a-z]+)?))+[.?!]")
DOUBLED = re.compile(r"\b([a-z]+),? \1\b")  # "that that is is": nobody can hear it
LOWER = re.compile(r"(?<![\w'])[a-z]+(?:'[a-z]+)?(?![\w'])")
DASHES = re.compile(r"\s*(?:--|;|:)\s")
FIRST = {"i", "i'm", "i'll", "i've", "i'd"}  # usual, though never in lower case
RUDE = re.compile(r"\b(?:fuck|shit|bitch|whore|nigger|rape|tits|cunt)", re.IGNORECASE)


class MissingTexts(RuntimeError):
    """The fortunes aren't installed; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A part's passages: sentences that belong together."""

    prose: tuple[tuple[str, ...], ...]  # fortunes, and news
    talk: tuple[tuple[str, ...], ...]
    film: tuple[tuple[str, ...], ...]  # a sentence is a turn
    turns: tuple[str, ...]  # short sentences, as turns once there are no more films
    babble: tuple[str, ...]  # what people in the background say


def texts(part: Part) -> Texts:
    """All that may be read in a part; MissingTexts without the fortunes."""
    prose = [*_own(part, "news"), *_fortunes(part, LENGTHS)]
    babble, prose = prose[-40:], prose[:-40]
    taken = {sentence for passage in (*prose, *babble) for sentence in passage}
    return Texts(
        tuple(prose),
        tuple(_own(part, "talk")),
        tuple(_own(part, "film")),
        tuple(
            sentence
            for passage in _fortunes(part, SHORT)
            for sentence in passage
            if sentence not in taken
        ),
        tuple(" ".join(passage) for passage in babble),
    )


def _own(part: Part, name: str) -> list[tuple[str, ...]]:
    """A file of own texts: passages between empty lines; a line of a film is a turn."""
    passages = (OWN / f"{name}.txt").read_text("utf-8").strip().split("\n\n")
    own = [one for number, one in enumerate(passages) if _belongs(part, number)]
    if name == "film":
        return [tuple(passage.splitlines()) for passage in own]
    return [tuple(ENDS.split(" ".join(passage.split()))) for passage in own]


def _belongs(part: Part, number: int) -> bool:
    return (number % TUNED == 0) == (part == "tune")


def _fortunes(part: Part, lengths: range) -> list[tuple[str, ...]]:
    """Cookies' plain sentences of such lengths; what several cookies say is the first one's."""
    try:
        pages = [(FORTUNES / name).read_text("utf-8", errors="replace") for name in FILES]
    except FileNotFoundError as error:
        raise MissingTexts(
            f"the corpus needs {error.filename}: apt install fortunes fortunes-min"
        ) from error
    usual = Counter(word for page in pages for word in LOWER.findall(page))
    seen = set[str]()
    found = []
    for cookie in (cookie for page in pages for cookie in page.split("\n%\n")):
        fresh = [
            sentence
            for sentence in _sentences(cookie)
            if len(sentence.split()) in lengths and _is_plain(sentence, usual)
            if sentence.casefold() not in seen
        ]
        seen |= {sentence.casefold() for sentence in fresh}
        if fresh and _belongs(part, crc32(cookie.encode())):
            found.append(tuple(dict.fromkeys(fresh)))
    return found


def _sentences(cookie: str) -> Iterator[str]:
    text = " ".join(SOURCE.split(cookie)[0].split()).replace('"', "")
    for sentence in ENDS.split(text):
        yield DASHES.sub(", ", sentence)


def _is_plain(sentence: str, usual: Counter[str]) -> bool:
    words = re.findall(r"[a-z']+", sentence.casefold())
    return bool(
        PLAIN.fullmatch(sentence)
        and not RUDE.search(sentence)
        and not DOUBLED.search(sentence)
        and all(usual[word] >= USUAL or word in FIRST for word in words)
    )
