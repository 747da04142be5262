"""Events -> OpenAI's verbose_json, with what livecap knows besides under the key `livecap`."""

from collections.abc import Collection, Sequence

from livecap.captions import Unmet
from livecap.events import RATE, Caption, Event, Gap, Language, Unrecognised, Word
from livecap.output.document import DiskDocument, Document, DocumentField
from livecap.output.files import OutputFile, OutputStream
from livecap.output.lines import scores_record, seam, strict_json, word_record
from livecap.output.times import seconds, span

END = b"}}\n"


class VerboseJson:
    """One segment a caption; the object is whole after every event.

    Scores that a decoder did not give are 0, as OpenAI's client requires numbers there. `words`
    is there only if asked for and if words had times.
    """

    def __init__(self, document: Document, *, words: bool, language: str | None) -> None:
        self._document = document
        self._words = words
        self._language = language
        self._counts = {"segments": 0, "words": 0, "gaps": 0, "unrecognised": 0}
        self._last = ""  # the text's last character
        self._segment = -1  # of the last caption with words
        self._duration = 0  # samples

    @property
    def unmet(self) -> Unmet:
        """It has no subtitles."""
        return Unmet()

    def write(self, event: Event) -> None:
        """Takes an event in. Raises OutputError if it can't be kept anywhere."""
        if isinstance(event, Language):
            self._speak(event.code)
            return
        end = event.processed_until if isinstance(event, Caption) else event.end
        if end > self._duration:
            self._duration = end
            self._document.replace("duration", _encode(seconds(end)))
        if isinstance(event, Caption):
            self._caption(event)
        elif isinstance(event, Gap | Unrecognised):
            stretch = {"start": seconds(event.start), "end": seconds(event.end)}
            name = "gaps" if isinstance(event, Gap) else "unrecognised"
            self._add(name, {**stretch, "reason": event.reason})

    def close(self, *, complete: bool = True) -> None:
        """Finishes the object. Raises OutputError if it is not where it was wanted."""
        self._document.replace("complete", b"true" if complete else b"false")
        omit = {"words"} if not self._counts["words"] else set()
        self._document.finish(omit=omit, complete=complete)

    def _caption(self, caption: Caption) -> None:
        text = caption.text
        if not text.strip():
            return
        if self._language is None and caption.language:
            self._speak(caption.language)
        added = seam(self._last, text) if caption.segment != self._segment else ""
        added += text if self._last else text.lstrip()
        self._last, self._segment = added[-1], caption.segment
        self._document.append("text", _encode(added)[1:-1])
        self._add("segments", segment(caption, self._counts["segments"]))
        for word in caption.words if self._words else ():
            if timed(word):
                self._add("words", word_record(word))

    def _speak(self, code: str) -> None:
        if self._language is None:
            self._language = code
            self._document.replace("language", _code(code))

    def _add(self, name: str, data: object) -> None:
        comma = b"," if self._counts[name] else b""
        self._counts[name] += 1
        self._document.append(name, comma + _encode(data))


class StreamDocument:
    """A document for what can't be written by position: goes out whole, at the end."""

    def __init__(self, stream: OutputStream, fields: Sequence[DocumentField]) -> None:
        self._stream = stream
        self._places = fields
        self._content = {field.name: bytearray(field.content) for field in fields}

    def append(self, name: str, data: bytes) -> None:
        """More content at the end of a place."""
        self._content[name] += data

    def replace(self, name: str, data: bytes) -> None:
        """Other content for a place."""
        self._content[name] = bytearray(data)

    def finish(self, *, omit: Collection[str], complete: bool) -> None:
        """Hands everything over. Raises OutputError if the stream doesn't take it."""
        for field in self._places:
            if field.name not in omit:
                self._stream.write(field.before + self._content[field.name] + field.after)
        self._stream.write(END)
        self._stream.close()


def on_disk(file: OutputFile, *, task: str, language: str | None, words: bool) -> VerboseJson:
    """A writer whose file is a whole object at every moment."""
    document = DiskDocument(file, _places(task, language), END)
    return VerboseJson(document, words=words, language=language)


def on_stream(stream: OutputStream, *, task: str, language: str | None, words: bool) -> VerboseJson:
    """A writer that hands over one object when it is closed."""
    document = StreamDocument(stream, _places(task, language))
    return VerboseJson(document, words=words, language=language)


def segment(caption: Caption, index: int) -> dict[str, object]:
    """A caption as one of OpenAI's segments, all ten keys there; `speaker` only if known."""
    start, end = span(caption)
    scores = caption.scores
    judged = {} if scores is None else scores_record(scores)
    names = ("temperature", "avg_logprob", "compression_ratio", "no_speech_prob")
    return {
        "id": index,
        "seek": max(0, caption.start) * 100 // RATE,  # frames of 10 ms, as openai-whisper counts
        "start": seconds(start),
        "end": seconds(end),
        "text": caption.text,
        "tokens": [] if scores is None else list(scores.tokens),
        **{name: judged.get(name) or 0.0 for name in names},
        **({} if caption.speaker is None else {"speaker": caption.speaker}),
    }


def timed(word: Word) -> bool:
    """Whether alignment gave the word both of its times."""
    return word.start is not None and word.end is not None


def _places(task: str, language: str | None) -> list[DocumentField]:
    known = b"null" if language is None else _code(language)
    opened = b'{"task":' + _encode(task) + b',"language":'
    return [
        DocumentField("language", opened, known, grows=False),
        DocumentField("duration", b',"duration":', b"0.0", grows=False),
        DocumentField("text", b',"text":"', b"", b'"'),
        DocumentField("segments", b',"segments":[', b"", b"]"),
        DocumentField("words", b',"words":[', b"", b"]"),
        DocumentField("complete", b',"livecap":{"complete":', b"false", grows=False),
        DocumentField("gaps", b',"gaps":[', b"", b"]"),
        DocumentField("unrecognised", b',"unrecognised":[', b"", b"]"),
    ]


def _code(language: str) -> bytes:
    return _encode("".join(c for c in language if c.isascii() and c.isprintable())[:12])


def _encode(data: object) -> bytes:
    return strict_json(data).encode("utf-8", "replace")
