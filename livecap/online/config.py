"""How one stream is segmented, updated and committed."""

from dataclasses import dataclass, field

from livecap.config import VadConfig
from livecap.events import RATE
from livecap.online.policy import CommitPolicy


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Live captions: when the open segment is decoded, and when its words are committed.

    Lengths are in samples of speech.
    """

    policy: CommitPolicy
    interval: int = 2 * RATE  # new speech from which an update is due
    first_update: int = 0  # samples more before the first one
    pause_update: int = 0  # new speech from which an update is due where speech stops; 0: none is
    endpoint_silence: int = RATE * 6 // 10  # after it, what was decoded is flushed
    min_sentence: int = 12 * RATE  # from here on such a pause after a sentence ends the segment
    context_words: int = 0  # of the text so far, which the next segment is conditioned on
    catch_up: bool = True  # leave out updates whose audio has been overtaken
    turns: bool = False  # report when someone begins and ends to speak; needs voice activity


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A live stream, or with `updates` None a file: each segment is decoded once."""

    vad: VadConfig | None = field(default_factory=VadConfig)  # None: everything counts as speech
    max_segment: int = 28 * RATE  # samples that are decoded at once
    max_silence: int = 30 * RATE  # samples: a longer silence ends a segment
    language: str | None = None  # ISO 639-1; None: detected
    speaker: str | None = None  # label for all events of this stream
    sequential: bool = False  # files: each window is conditioned on the text of the one before
    updates: UpdateConfig | None = None
