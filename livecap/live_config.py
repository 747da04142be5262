"""How a live stream is cut up, and when its words are said."""

from dataclasses import dataclass, field

from livecap.commit import CommitPolicy
from livecap.config import VadConfig
from livecap.events import RATE

SEARCH = 3 * RATE  # samples before a hard limit in which the quietest moment is looked for


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """How a live stream is cut up and updated. Lengths are in samples of speech."""

    policy: CommitPolicy
    vad: VadConfig | None = field(default_factory=VadConfig)  # None: everything counts as speech
    interval: int = 2 * RATE  # new speech from which an update is due
    lead: int = 0  # samples more before the first one
    pause: int = RATE * 6 // 10  # silence after which all that was heard is said for good
    sentence: int = 12 * RATE  # from here on such a pause after a sentence ends the segment
    bridge: int = 3 * RATE  # silence that ends a segment of any length
    most: int = 16 * RATE  # no segment gets longer
    carry: int = 0  # words of text that the next segment goes on from
    catch_up: bool = True  # leave out updates whose audio has been overtaken
    language: str | None = None
    speaker: str | None = None  # label for all events of this stream
    turns: bool = False  # tell when someone begins and ends to speak; needs `vad`

    @property
    def search(self) -> int:
        """Samples before a hard limit that are left for a cut where words have no times."""
        return min(SEARCH, self.most // 4)
