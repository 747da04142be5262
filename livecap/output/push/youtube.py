"""Lines -> the caption URL of a YouTube live stream.

Source: YouTube's help, "Live caption vendor info" (answer 6077032): times in UTC without a zone,
text below each, `seq` one more for each post and the same for one that is sent again. The stream
has to be 30 or 60 s late, as chosen in YouTube's studio, for captions to be there in time.
"""

from datetime import UTC, datetime
from typing import ClassVar

from livecap.captions import PRESETS
from livecap.events import RATE
from livecap.output.lines import one_line
from livecap.output.push import http
from livecap.output.push.addresses import shown_address
from livecap.output.push.caption_line import LineRefused, Pause, Said, Undelivered, cues_of
from livecap.output.push.sequence import PostSequence


class YouTube:
    """One stream's URL."""

    kind: ClassVar[str] = "youtube"
    worth: ClassVar[float] = 5.0
    quiet: ClassVar[float | None] = None

    def __init__(self, url: str) -> None:
        self._url = url
        self._sequence = PostSequence()
        self.name = f"YouTube ({shown_address(url)})"

    def send(self, line: Said, pause: Pause) -> None:
        """One POST with all of the line. Raises Undelivered or Refused."""
        url = self._sequence.url(self._url)
        answer = http.exchange(url, body(line).encode(), {"Content-Type": "text/plain"})
        if answer.is_good:
            self._sequence.taken()
        elif answer.is_passing:
            raise Undelivered(f"it answered {answer.status}", after=answer.after)
        else:
            raise LineRefused(
                f"it does not take captions ({answer.status}); is the stream set to take them by "
                "HTTP POST, and --youtube its caption URL?"
            )

    def rest(self) -> None:
        """Silence is not told."""

    def close(self) -> None:
        """Nothing is held open."""


def body(caption_line: Said) -> str:
    """A line as YouTube reads it: when each part was said, and the part."""
    found = ""
    for cue in cues_of(caption_line.caption, PRESETS["netflix"]):
        at = caption_line.spoken + (cue.start - caption_line.caption.start) / RATE
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        text = "<br>".join(one_line(line).replace("<", "‹") for line in cue.lines)
        found += f"{stamp}\n{text}\n"
    return found.encode("utf-8", "replace").decode()
