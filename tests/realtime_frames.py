"""Server frames of the realtime protocol against OpenAI's own types, and its order rules."""

import json
from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from typing import Any, get_args

from openai.types.realtime import (
    RealtimeServerEvent,
    RealtimeTranscriptionSessionCreateRequest,
    RealtimeTranscriptionSessionCreateResponse,
)
from pydantic import BaseModel

Frame = dict[str, Any]

TRANSCRIPTION = "conversation.item.input_audio_transcription"
RATES = (8_000, 16_000, 24_000, 48_000)  # ours; OpenAI's types know 24 kHz alone
PARTIAL: dict[str, type] = {
    "item_id": str,
    "text": str,
    "stable_chars": int,
    "audio_ms": int,
    "seq": int,
}
STALLED: dict[str, type] = {"audio_start_ms": int, "audio_end_ms": int, "voiced_ms": int}
OURS = {"livecap.transcription.partial": PARTIAL, "livecap.transcription.stalled": STALLED}


def check(frame: Frame) -> None:
    """A frame of the GA dialect: strictly as OpenAI's types have it. We may add fields."""
    assert json.loads(json.dumps(frame, allow_nan=False)) == frame
    assert frame["event_id"].startswith("event_")
    assert len(frame["event_id"]) >= len("event_") + 21
    kind = frame["type"]
    if kind in OURS:
        for name, wanted in OURS[kind].items():
            assert type(frame[name]) is wanted, name
        return
    assert kind in _models(), f"OpenAI has no event {kind}"
    frame = _without_ours(frame)
    found = _models()[kind].model_validate(frame, strict=True)
    if kind.startswith("session."):
        assert type(found.session) is RealtimeTranscriptionSessionCreateRequest  # type: ignore[attr-defined]  # these two have one
        RealtimeTranscriptionSessionCreateResponse.model_validate(frame["session"], strict=True)


@cache
def _models() -> dict[str, type[BaseModel]]:
    union = get_args(RealtimeServerEvent)[0]
    return {get_args(one.model_fields["type"].annotation)[0]: one for one in get_args(union)}


def _without_ours(frame: Frame) -> Frame:
    """Values that are extensions of ours, replaced by OpenAI's."""
    frame = deepcopy(frame)
    if frame["type"].startswith("session."):
        session = frame["session"]
        form = session["audio"]["input"]["format"]
        if form["type"] == "audio/pcm":
            assert form["rate"] in RATES
            form["rate"] = 24_000
        if session["include"] is not None:
            session["include"] = [one for one in session["include"] if "livecap." not in one]
    return frame


def check_order(frames: Iterable[Frame], *, finished: bool) -> None:
    """GA frames of one connection, in order. `finished`: nothing is awaited any more."""
    seen: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    committed: list[str] = []
    ended: list[str] = []
    ids: set[str] = set()
    for frame in frames:
        assert frame["event_id"] not in ids
        ids.add(frame["event_id"])
        kind = frame["type"].rsplit(".", 1)[-1]
        item = frame.get("item_id") or frame.get("item", {}).get("id")
        if item is None or kind in ("retrieved", "deleted", "partial"):
            continue
        steps = seen.setdefault(item, [])
        _check_step(steps, kind)
        steps.append(kind)
        if kind == "committed":
            assert frame["previous_item_id"] == (committed[-1] if committed else None)
            committed.append(item)
        if kind in ("added", "done"):
            before = committed[committed.index(item) - 1] if committed.index(item) else None
            assert frame["previous_item_id"] == before
            assert frame["item"]["content"][0]["transcript"] is None
        if kind == "delta":
            texts[item] = texts.get(item, "") + frame["delta"]
            assert frame["delta"]
        if kind in ("completed", "failed"):
            ended.append(item)
        if kind == "completed":
            assert frame["transcript"] == texts.get(item, "")
            assert frame["transcript"] == frame["transcript"].lstrip()
    assert ended == committed[: len(ended)], "finals are in the order of the commits"
    if finished:
        assert ended == committed


def _check_step(before: list[str], kind: str) -> None:
    last = [step for step in before if step != "delta"][-1:]
    if kind == "delta":
        assert "completed" not in before
        assert "failed" not in before
    elif kind == "speech_started":
        assert not before
    elif kind == "speech_stopped":
        assert last == ["speech_started"]
    elif kind == "committed":
        assert last in ([], ["speech_started"], ["speech_stopped"])
    elif kind == "added":
        assert before[-1] == "committed"
    elif kind == "done":
        assert before[-1] == "added"
    else:
        assert kind in ("completed", "failed")
        assert last == ["done"]
