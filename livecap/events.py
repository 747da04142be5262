"""All that leaves the core. Times are integer samples at 16 kHz on the media's own timeline."""

from dataclasses import dataclass

RATE = 16_000  # samples per second of all audio inside livecap


@dataclass(frozen=True, slots=True)
class Word:
    """One word as written, with the white space that stands before it.

    The texts of a caption's words, joined, are the caption's text, byte for byte. Times come from
    alignment or are None: they are never invented.
    """

    text: str
    start: int | None = None  # samples
    end: int | None = None  # samples
    probability: float | None = None  # mean over the word's tokens


@dataclass(frozen=True, slots=True)
class Scores:
    """How the decoder judged its own text (the fields of OpenAI's verbose_json segments)."""

    tokens: tuple[int, ...]
    temperature: float
    average_logprob: float
    compression_ratio: float
    no_speech_probability: float


@dataclass(frozen=True, slots=True)
class Caption:
    """Newly committed words of a segment, and the tail that may still change."""

    segment: int  # number of the decoder context that heard it; several captions may share it
    start: int  # samples: where the audio of these words begins
    processed_until: int  # samples: up to where the audio has been heard
    words: tuple[Word, ...]
    tail: str = ""  # replaces the last tail of this stream whole
    final: bool = True  # no more words will come for this stretch
    language: str | None = None  # ISO 639-1 code
    speaker: str | None = None  # label of the channel, when channels are captioned apart
    scores: Scores | None = None

    @property
    def text(self) -> str:
        """The committed words as written, with the first one's leading space."""
        return "".join(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Silence:
    """A stretch that no model heard, since voice activity detection found no speech in it."""

    start: int  # samples
    end: int  # samples
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch for which the source gave no audio, or audio that could not be decoded."""

    start: int  # samples
    end: int  # samples
    reason: str


@dataclass(frozen=True, slots=True)
class Unrecognised:
    """Voiced audio for which there is no text, and why. Nothing is dropped in silence."""

    start: int  # samples
    end: int  # samples
    reason: str  # "no speech", "repetition", ...
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Language:
    """The language that was detected, before the captions in it."""

    code: str  # ISO 639-1
    probability: float


@dataclass(frozen=True, slots=True)
class PaceChange:
    """The machine has fallen behind live speech, and updates get rarer; or it has caught up."""

    start: int  # samples: how far the stream had come
    lag: int  # samples of it that were not heard yet
    behind: bool

    @property
    def end(self) -> int:
        """It is a moment."""
        return self.start


@dataclass(frozen=True, slots=True)
class VoiceActivity:
    """Someone begins to speak, or has been quiet for as long as the stream's pause.

    Told at once, before the captions of what is said; only by streams that tell turns.
    """

    start: int  # samples: where speech begins, padding included; or up to where it is quiet
    begins: bool

    @property
    def end(self) -> int:
        """It is a moment."""
        return self.start


@dataclass(frozen=True, slots=True)
class Settled:
    """All that was said up to here has been captioned for good. Follows those captions.

    Only streams that tell turns say so.
    """

    start: int  # samples
    paused: bool  # False: in mid-speech, where a segment had got as long as it may

    @property
    def end(self) -> int:
        """It is a moment."""
        return self.start


@dataclass(frozen=True, slots=True)
class Stalled:
    """So much speech has made no text that its decoding is started anew.

    The audio is decoded again from where the text ended, so captions of it may follow.
    """

    start: int  # samples: from here on there is no new word
    end: int  # samples: how far it had been decoded
    voiced: int  # samples of speech between
    speaker: str | None = None


Event = (
    Caption
    | Silence
    | Gap
    | Unrecognised
    | Language
    | PaceChange
    | VoiceActivity
    | Settled
    | Stalled
)
