"""Answers in every format, as the unmodified OpenAI client reads them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI
from openai.types.audio import (
    Transcription,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
    Translation,
    TranslationVerbose,
)
from uploads import AUDIO, EVENTS, FIRST, SECOND, TEXT, Model, Served, Server, word

from livecap.api.transcriptions import UploadLimits
from livecap.api.transcriptions.form import TranscriptionRequest
from livecap.api.transcriptions.render import Prose, UploadResult, prose, render, usage
from livecap.errors import EngineFault
from livecap.events import RATE, Caption, Event, Gap, Language, Unrecognised

FILE = ("talk.wav", AUDIO, "audio/wav")
SEGMENT_KEYS = {
    "id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob",
    "compression_ratio", "no_speech_prob",
}  # fmt: skip


def transcribed(server: Server, **asked: Any) -> Any:
    async def ask(client: AsyncOpenAI) -> Any:
        return await client.audio.transcriptions.create(file=FILE, model="whisper-1", **asked)

    return server.openai(ask)


def strictly(model: type[Any], found: Any) -> Any:
    """A model's object, whose fields all have the types that it declares."""
    assert type(found) is model
    return model.model_validate(found.to_dict(), strict=True)


def test_json() -> None:
    found = strictly(Transcription, transcribed(Server()))
    assert found.text == TEXT
    assert found.usage.to_dict() == {"type": "duration", "seconds": 3}
    assert [language.code for language in found.languages] == ["en"]


def test_verbose_json() -> None:
    served = Served()
    asked = {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"]}
    found = strictly(TranscriptionVerbose, transcribed(Server(served), **asked))
    assert (found.text, found.language, found.duration) == (TEXT, "english", 3.0)
    assert [(one.id, one.start, one.end) for one in found.segments] == [
        (0, 0.5, 1.0),
        (1, 1.5, 2.0),
    ]
    assert set(found.segments[0].to_dict()) == SEGMENT_KEYS
    assert set(found.segments[1].to_dict()) == SEGMENT_KEYS  # although it has no scores
    assert [one.to_dict() for one in found.words] == [
        {"word": "Hello", "start": 0.5, "end": 0.75},
        {"word": "<you> -->", "start": 0.75, "end": 1.0},
        {"word": "again.", "start": 1.5, "end": 2.0},
    ]
    assert found.usage.seconds == 3
    assert "livecap" not in found.to_dict()
    assert served.stream.decode.words


def test_verbose_json_by_default_has_segments_alone() -> None:
    answer = Server().post(response_format="verbose_json").json()
    assert "words" not in answer
    assert len(answer["segments"]) == 2
    assert answer["task"] == "transcribe"
    answer = (
        Server()
        .post(form={"response_format": "verbose_json", "timestamp_granularities[]": "word"})
        .json()
    )
    assert "segments" not in answer
    assert len(answer["words"]) == 3


def test_text() -> None:
    assert transcribed(Server(), response_format="text") == TEXT + "\n"
    answer = Server().post(response_format="text")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_srt() -> None:
    found = transcribed(Server(), response_format="srt")
    assert found == (
        "1\n00:00:00,500 --> 00:00:01,417\nHello <you> ->\n\n"
        "2\n00:00:01,500 --> 00:00:02,333\nagain.\n\n"
    )
    answer = Server().post(response_format="srt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_vtt() -> None:
    found = transcribed(Server(), response_format="vtt")
    assert found.startswith("WEBVTT\n\n00:00:00.500 --> ")
    assert "Hello &lt;you&gt; --&gt;\n" in found
    answer = Server().post(response_format="vtt")
    assert answer.headers["content-type"] == "text/vtt; charset=utf-8"


@pytest.mark.parametrize(("form", "expected"), [("text", ""), ("srt", ""), ("vtt", "WEBVTT\n\n")])
def test_no_speech_is_an_empty_success(form: str, expected: str) -> None:
    answer = Server(Served(events=())).post(response_format=form)
    assert (answer.status_code, answer.text) == (200, expected)


def test_no_speech_in_json() -> None:
    server = Server(Served(events=()))
    assert strictly(Transcription, transcribed(server)).text == ""
    asked = {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"]}
    found = strictly(TranscriptionVerbose, transcribed(Server(Served(events=())), **asked))
    assert (found.text, found.segments, found.words) == ("", [], [])
    assert found.language == "und"
    asked["language"] = "German"
    found = transcribed(Server(Served(events=())), **asked)
    assert found.language == "german"


def test_what_has_no_text_is_told() -> None:
    events = (*EVENTS, Gap(2 * RATE, 3 * RATE, "damaged"), Unrecognised(0, RATE, "repetition"))
    told = {
        "gaps": [{"start": 2.0, "end": 3.0, "reason": "damaged"}],
        "unrecognised": [{"start": 0.0, "end": 1.0, "reason": "repetition"}],
    }
    server = Server(Served(events=events))
    for form in ("json", "verbose_json"):
        assert server.post(response_format=form).json()["livecap"] == told
    done = server.post(stream="true").text.split("\n\n")[-3]
    assert json.loads(done[6:])["livecap"] == told
    assert "livecap" not in Server().post().json()


@pytest.mark.parametrize("form", ["json", "text", "srt", "vtt", "verbose_json"])
def test_speech_without_text_is_never_silently_empty(form: str) -> None:
    lost = (Unrecognised(RATE, 3 * RATE, "repetition"), Unrecognised(4 * RATE, 77_000, "no speech"))
    answer = Server(Served(events=lost)).post(response_format=form)
    assert answer.headers["x-livecap-unrecognised"] == "2.813"
    assert answer.status_code == 200
    assert "x-livecap-unrecognised" not in Server().post(response_format=form).headers


# Translations


def test_translations() -> None:
    served = Served()
    server = Server(served)

    async def ask(client: AsyncOpenAI) -> Any:
        with pytest.warns(DeprecationWarning, match="deprecated"):
            making = client.audio.translations.create(file=FILE, model="whisper-1")
        return await making

    found = server.openai(ask)
    assert strictly(Translation, found).to_dict() == {"text": TEXT}
    assert served.stream.decode.task == "translate"
    server.post(path="translations", language="de")
    assert served.opened[-1].decode.language == "de"


def test_translations_in_other_formats() -> None:
    answer = Server().post(path="translations", response_format="verbose_json").json()
    found = TranslationVerbose.model_validate(answer, strict=True)
    assert (found.language, found.text, found.duration) == ("english", TEXT, 3.0)
    assert (answer["task"], len(answer["segments"])) == ("translate", 2)
    for form in ("text", "srt", "vtt"):
        transcribed_so = Server().post(response_format=form).text
        assert Server().post(path="translations", response_format=form).text == transcribed_so


def test_a_model_that_cannot_translate() -> None:
    answer = Server(Served(Model(translates=False))).post(path="translations")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "model"


# Streams


def streamed(server: Server, **asked: Any) -> list[Any]:
    async def ask(client: AsyncOpenAI) -> list[Any]:
        stream = await client.audio.transcriptions.create(
            file=FILE, model="whisper-1", stream=True, **asked
        )
        return [event async for event in stream]

    return server.openai(ask)


def test_a_stream_has_deltas_and_one_end() -> None:
    *deltas, done = streamed(Server())
    assert all(type(delta) is TranscriptionTextDeltaEvent for delta in deltas)
    assert [delta.delta for delta in deltas] == ["Hello <you> -->", " again."]
    assert type(done) is TranscriptionTextDoneEvent
    assert done.text == TEXT == "".join(delta.delta for delta in deltas)
    assert done.to_dict()["usage"] == {"type": "duration", "seconds": 3}
    assert done.to_dict()["languages"] == [{"code": "en"}]


def test_a_stream_on_the_wire() -> None:
    answer = Server().post(stream="true", response_format="text")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    *frames, rest = answer.text.split("\n\n")
    assert rest == ""
    assert frames[-1] == "data: [DONE]"
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    kinds = [json.loads(frame[6:])["type"] for frame in frames[:-1]]
    assert kinds == ["transcript.text.delta"] * 2 + ["transcript.text.done"]


def test_a_stream_without_speech_and_without_usage() -> None:
    answer = Server(Served(events=())).post(stream="true", stream_include_usage="false")
    first, last, _ = answer.text.split("\n\n")
    assert json.loads(first[6:]) == {
        "type": "transcript.text.done", "text": "", "languages": [],
    }  # fmt: skip
    assert last == "data: [DONE]"


def test_a_stream_that_breaks_says_so() -> None:
    from openai import APIError

    broken = Served(error=EngineFault("it broke in /secret", remedy="Start it again"))
    server = Server(broken)
    with pytest.raises(APIError) as caught:
        streamed(server)
    assert (caught.value.code, caught.value.type) == ("server_error", "server_error")
    text = Server(broken).post(stream="true").text
    *_, error, done, _ = text.split("\n\n")
    assert json.loads(error[6:])["type"] == "error"
    assert done == "data: [DONE]"
    assert "secret" not in text
    assert server.told[0].problem is not None


def test_a_quiet_stream_shows_that_it_goes_on() -> None:
    pinged = asyncio.Event()
    served = Served(hangs=True)
    server = Server(served, limits=UploadLimits(ping=0.0))

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message.get("body", b"").startswith(b": ping"):
                served.stream.hangs = False
                served.stream.ready += served.stream.events
                pinged.set()
            await send(message)

        await app(scope, receive, sending)

    app, server.app = server.app, watched  # type: ignore[assignment] # any application will do
    text = server.post(stream="true").text
    assert pinged.is_set()
    assert text.index(": ping") < text.index("transcript.text.delta")
    assert text.endswith("data: [DONE]\n\n")


# The text


def caption(segment: int, *texts: str) -> Caption:
    words = tuple(word(text, 0.0, 1.0) for text in texts)
    return Caption(segment, 0, RATE, words, language="en")


TEXTS = st.text(alphabet=" ab.\n\u3042\u2028", max_size=4)
CAPTIONS = st.lists(
    st.builds(lambda n, texts: caption(n, *texts), st.integers(0, 3), st.lists(TEXTS, max_size=3))
)


@given(CAPTIONS)
def test_joined_deltas_are_the_text(captions: Sequence[Event]) -> None:
    joined = Prose()
    deltas = [joined.add(event) for event in captions]
    assert "".join(deltas) == joined.text == prose(captions)
    assert joined.text == joined.text.strip()
    letters = "".join(event.text for event in captions if isinstance(event, Caption))
    assert "".join(joined.text.split()) == "".join(letters.split())


@settings(deadline=None)  # whole requests, on a machine that may be busy
@given(CAPTIONS, st.booleans())
def test_every_delta_is_one_line(captions: list[Event], stops: bool) -> None:
    answer = Server(Served(events=captions)).post(stream="true").text
    frames = [frame for frame in answer.split("\n\n") if frame]
    assert all(len(frame.splitlines()) == 1 for frame in frames)
    deltas = [json.loads(frame[6:]) for frame in frames[:-2]]
    done = json.loads(frames[-2][6:])
    assert done["text"] == "".join(delta["delta"] for delta in deltas)


def test_stretches_are_joined_as_they_are_written() -> None:
    assert prose([caption(0, "one"), caption(1, "two")]) == "one two"
    assert prose([caption(0, "o"), caption(0, "ne")]) == "one"
    assert prose([caption(0, "\u3042"), caption(1, "\u3044")]) == "\u3042\u3044"


def test_seconds_are_rounded_up() -> None:
    assert [usage(samples)["seconds"] for samples in (0, 1, RATE, 847 * RATE // 100)] == [
        0,
        1,
        1,
        9,
    ]


def test_the_language_that_was_kept() -> None:
    asked = TranscriptionRequest("transcribe", response_format="verbose_json")
    silent = render(asked, UploadResult([Language("de", 0.9)], RATE))
    assert json.loads(silent.content)["language"] == "german"
    spoken = render(asked, UploadResult([FIRST, SECOND], 2 * RATE))
    assert json.loads(spoken.content)["language"] == "english"
