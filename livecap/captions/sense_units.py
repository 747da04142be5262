"""Which words belong together: where a line or a cue may break without hurting the sense."""

from types import MappingProxyType

from livecap.text import sentences

CLAUSE_ENDS = frozenset(",;:–—，、；：،؛")
HERALDS = "\"'“‘„«([¿¡"  # may stand before a word


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Short lists on purpose: the commonest function words of a language make nearly all the breaks
# that hurt. A word here stays with the word after it.
ARTICLES = MappingProxyType(
    {
        "en": _words("a an the this that these those my your his her its our their"),
        "de": _words("der die das den dem des ein eine einen einem einer mein sein ihr"),
        "fr": _words("le la les un une des du ce cet cette ces mon ma mes son sa ses"),
        "es": _words("el la los las un una unos unas este esta mi mis su sus tu tus"),
        "it": _words("il lo la i gli le un uno una questo questa mio mia suo sua"),
        "pt": _words("o a os as um uma uns umas este esta meu minha seu sua"),
    }
)
# Conjunctions and prepositions: a break before one is good, a break after one is bad.
LINKS = MappingProxyType(
    {
        "en": _words(
            "and or but nor so because although though while when where if unless until whether "
            "since once that which who than as of in on at to for from with by about into over "
            "after before under between through without"
        ),
        "de": _words(
            "und oder aber denn weil dass ob wenn als wie in an auf mit von zu bei nach aus "
            "für über unter vor durch ohne"
        ),
        "fr": _words(
            "et ou mais donc car que qui quand si comme de à dans sur avec pour par sans chez "
            "entre vers"
        ),
        "es": _words(
            "y o pero porque que quien cuando si como de a en con por para sin sobre entre"
        ),
        "it": _words("e o ma perché che chi quando se come di a da in con su per tra fra"),
        "pt": _words("e ou mas porque que quem quando se como de em com por para sem sobre entre"),
    }
)
# Of the links, those that begin a clause: the best places of all for a break.
CONJUNCTIONS = MappingProxyType(
    {
        "en": _words(
            "and or but nor because although though while when where if unless until whether who "
            "which than since once"
        ),
        "de": _words("und oder aber denn weil dass ob wenn als wie"),
        "fr": _words("et ou mais donc car que qui quand si comme"),
        "es": _words("y o pero porque que quien cuando si como"),
        "it": _words("e o ma perché che chi quando se come"),
        "pt": _words("e ou mas porque que quem quando se como"),
    }
)
# Links that belong to the word after them as often as they begin anything ("so much", "as well").
WITH_NEXT = MappingProxyType({"en": _words("so as")})
TITLES = _words("mr. mrs. ms. dr. prof. st. vs. hr. fr. sr. sra. mme. m.")
NOUNS_CAPITALISED = frozenset({"de"})  # two capitals in a row are no name there


def ends_sentence(text: str) -> bool:
    """Whether a sentence ends with this word."""
    return sentences.ends_sentence(text) and text.casefold() not in TITLES


def ends_clause(text: str) -> bool:
    """Whether a clause, but no sentence, ends with this word."""
    return text.rstrip(sentences.CLOSING_MARKS)[-1:] in CLAUSE_ENDS


def binds(text: str, language: str) -> bool:
    """Whether the word wants the next one on its line: articles, prepositions, titles."""
    word = text.lstrip(HERALDS).casefold()
    return word in TITLES or word in ARTICLES.get(language, ()) or word in LINKS.get(language, ())


def leads(text: str, language: str) -> bool:
    """Whether a break before the word reads well: conjunctions and prepositions."""
    word = text.casefold()
    return word in LINKS.get(language, ()) and word not in WITH_NEXT.get(language, ())


def begins_clause(text: str, language: str) -> bool:
    """Whether a clause is likely to begin with the word."""
    return text.casefold() in CONJUNCTIONS.get(language, ())


def named(text: str, language: str) -> bool:
    """Whether the word looks like a part of a name."""
    return language not in NOUNS_CAPITALISED and len(text) > 1 and text[0].isupper()
