"""Lines -> the caption URL of a Zoom meeting.

Source: Zoom's help, "Closed captioning with REST API" (115002212983): plain text in UTF-8, `seq`
one more for each post and the same for one that is sent again, `lang`; all errors are worth another
try, after a time that chance has a part in, and a caption that is 5 s old is not.
"""

from typing import ClassVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

from livecap.output.lines import one_line
from livecap.output.push import http
from livecap.output.push.addresses import shown_address
from livecap.output.push.caption_line import Pause, Said, Undelivered
from livecap.output.push.sequence import PostSequence

# Zoom wants a country, too: the one with most speakers, where it has no say in the text.
COUNTRIES = {
    "ar": "SA",
    "cs": "CZ",
    "da": "DK",
    "el": "GR",
    "en": "US",
    "et": "EE",
    "fa": "IR",
    "he": "IL",
    "hi": "IN",
    "ja": "JP",
    "ko": "KR",
    "ms": "MY",
    "pt": "BR",
    "sl": "SI",
    "sv": "SE",
    "ta": "IN",
    "te": "IN",
    "uk": "UA",
    "vi": "VN",
    "zh": "CN",
}  # for the others, the country's code is the language's
HINTS = {
    400: "has the meeting begun?",
    403: "is --zoom the address that the meeting shows now?",
    405: "is --zoom the address that the meeting shows now?",
}


class Zoom:
    """One meeting's URL."""

    kind: ClassVar[str] = "zoom"
    worth: ClassVar[float] = 5.0
    quiet: ClassVar[float | None] = None

    def __init__(self, url: str) -> None:
        self._url = url
        self._sequence: PostSequence | None = None
        self.name = f"Zoom ({shown_address(url)})"

    def send(self, line: Said, pause: Pause) -> None:
        """One POST. Raises Undelivered."""
        if self._sequence is None:
            self._sequence = PostSequence(self._last())
        url = self._sequence.url(self._url, **self._language(line))
        text = one_line(line.caption.text).strip() + "\n"
        kind = {"Content-Type": "text/plain; charset=utf-8"}
        answer = http.exchange(url, text.encode("utf-8", "replace"), kind)
        if not answer.is_good:
            hint = HINTS.get(answer.status)
            message = f"it answered {answer.status}"
            raise Undelivered(f"{message}; {hint}" if hint else message, after=answer.after)
        self._sequence.taken()

    def rest(self) -> None:
        """Silence is not told."""

    def close(self) -> None:
        """Nothing is held open."""

    def _last(self) -> int:
        """The number that the meeting has taken last, from us before a restart, or others."""
        parts = urlsplit(self._url)
        asked = urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/seq"))
        answer = http.exchange(asked, None, {})
        if answer.is_passing:
            raise Undelivered(f"it answered {answer.status}", after=answer.after)
        message = answer.body.strip()
        return int(message) if answer.is_good and message.isdigit() and len(message) < 18 else 0

    def _language(self, line: Said) -> dict[str, str]:
        """What is spoken, unless the URL says so."""
        code = line.caption.language
        if code is None or "lang" in parse_qs(urlsplit(self._url).query):
            return {}
        return {"lang": f"{code}-{COUNTRIES.get(code, code.upper())}"}
