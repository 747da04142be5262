"""Whatever bytes come from elsewhere: they are read, or refused by name, and nothing else happens.

Here each target gets the same few hundred inputs every time. LIVECAP_FUZZ=100000 tries as many, and
others each time: python -m pytest tests/test_fuzz.py.
"""

import asyncio
import json
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from starlette.datastructures import Headers
from starlette.types import Message
from test_realtime_fuzz import EVENTS, JSON
from tiny_models import save_ctranslate2, tiny_whisper
from uploads import BOUNDARY, form_of

from livecap.api.errors import ApiError
from livecap.api.realtime.errors import Refusal
from livecap.api.realtime.wire import decoded
from livecap.api.transcriptions import UploadLimits
from livecap.api.transcriptions.upload import ClientGone, RequestBody, receiving
from livecap.api.webrtc.candidates import is_reachable
from livecap.api.webrtc.offers import BadOffer, usable
from livecap.api.webrtc.whip import Fragment
from livecap.checkpoints.ctranslate2 import read_container, read_specification
from livecap.checkpoints.lazy_tensors import Lazy, header_names, stored_in
from livecap.errors import ModelError

LONG = os.environ.get("LIVECAP_FUZZ", "")
FUZZ = settings(
    max_examples=int(LONG or 150),
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

Cut = tuple[int, int, bytes]
CUTS = st.lists(
    st.tuples(
        st.integers(0, 1 << 16),
        st.integers(0, 64),
        st.binary(max_size=40) | st.sampled_from([b"\xff" * 8, bytes(8), b"\r\n", b"--", b"\0"]),
    ),
    min_size=1,
    max_size=5,
)


def altered(data: bytes, cuts: Sequence[Cut]) -> bytes:
    """Some places replaced."""
    for at, length, put in cuts:
        place = at % (len(data) + 1)
        data = data[:place] + put + data[place + length :]
    return data


# The decoder of realtime messages


@FUZZ
@given(
    st.text()
    | (JSON | EVENTS).map(json.dumps)
    | st.tuples(EVENTS.map(lambda event: json.dumps(event).encode()), CUTS).map(
        lambda both: altered(*both).decode("utf-8", "surrogateescape")
    )
)
def test_messages(text: str) -> None:
    for said in (text, text + " " * (256 << 10)):
        with suppress(Refusal):
            decoded(said).check()


# The reader of forms


@FUZZ
@given(
    st.binary(max_size=300)
    | CUTS.map(lambda cuts: altered(form_of(b"x" * 500, fields={"model": "m", "a[b]": "c"}), cuts)),
    st.lists(st.integers(1, 400), min_size=1, max_size=6),
    st.sampled_from([BOUNDARY.decode(), "", "-", "x" * 80, '"', "é"]),
)
def test_forms(content: bytes, sizes: list[int], boundary: str) -> None:
    """However they are cut into pieces."""
    pieces, at = list[bytes](), 0
    while at < len(content):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(content[at : at + size])
        at += size

    async def receive() -> Message:
        if not pieces:
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def read() -> None:
        headers = Headers({"content-type": f"multipart/form-data; boundary={boundary}"})
        async with receiving(headers, RequestBody(receive, UploadLimits(upload=1 << 20))) as upload:
            upload.check()
            upload.take().close()

    with suppress(ApiError, ClientGone):
        asyncio.run(read())


# The readers of weights


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A CTranslate2 file."""
    folder = tmp_path_factory.mktemp("model")
    save_ctranslate2(tiny_whisper(layers=(1, 1), width=8, heads=1), folder, kind="int8")
    return (folder / "model.bin").read_bytes()


@FUZZ
@given(raw=st.binary(max_size=200), cuts=CUTS)
def test_ctranslate2(
    model: bytes, tmp_path_factory: pytest.TempPathFactory, raw: bytes, cuts: list[Cut]
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.bin"
    near = [(at % 400, length, put) for at, length, put in cuts]  # where its header is
    for made in (raw, altered(model, cuts), altered(model, near)):
        file.write_bytes(made)
        with suppress(ModelError):
            read_specification(file)
            container = read_container(file)
            for name in container.variables:
                container.raw(name)


WEIGHTS = save({"a": torch.zeros(3, 4), "b": torch.zeros(2, dtype=torch.float16)})


@FUZZ
@given(st.binary(max_size=200) | CUTS | JSON)
def test_safetensors(tmp_path_factory: pytest.TempPathFactory, data: object) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    if isinstance(data, bytes):
        made = data
    elif isinstance(data, list) and data and isinstance(data[0], tuple):
        made = altered(WEIGHTS, data)
    else:
        header = json.dumps(data).encode("utf-8", "surrogatepass")
        made = struct.pack("<Q", len(header)) + header + bytes(64)
    file.write_bytes(made)
    header_names(file)
    with suppress(ModelError):
        tensors = Lazy(stored_in(file))
        for name in tensors:
            assert tensors[name].numel() >= 0


# The path of offers and candidates


OFFER = (Path(__file__).parent / "fixtures/offer.sdp").read_text("utf-8")
LINES = st.sampled_from(
    ["a=candidate:1 1 udp 1 10.0.0.1 9 typ host", "a=mid:", "m=audio 9 x 111", "a=rtpmap:x", "a="]
)


@FUZZ
@given(
    st.text(max_size=200)
    | CUTS.map(lambda cuts: altered(OFFER.encode(), cuts).decode("utf-8", "replace"))
    | st.lists(LINES | st.sampled_from(OFFER.splitlines()), max_size=60).map("\r\n".join),
    st.booleans(),
)
def test_offers(text: str, is_local: bool) -> None:
    for is_ingest in (False, True):
        with suppress(BadOffer):
            usable(text, is_ingest=is_ingest, is_local=is_local)
    with suppress(ApiError):
        for value in Fragment.read(text).candidates:
            is_reachable(value, is_local=is_local)


@FUZZ
@given(
    st.lists(
        st.sampled_from(
            [
                "1",
                "udp",
                "UDP",
                "typ",
                "host",
                "10.0.0.1",
                "::1",
                "fe80::1%e",
                "65536",
                "９",
                "x" * 99,
            ]
        )
        | st.text(max_size=12),
        max_size=12,
    ).map(" ".join)
)
def test_candidates(value: str) -> None:
    assert is_reachable(value, is_local=True) or not is_reachable(value, is_local=False)
