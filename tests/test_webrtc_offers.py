"""Offers that can't be answered, and servers that can't answer any."""

import random
import sys
from collections.abc import Iterator

import pytest
from rtc_clients import SDP, Caller, http
from server_clients import run
from server_fixture import Running, serving

from livecap.api.ice_servers import ice_server
from livecap.api.webrtc.candidates import CANDIDATES, is_reachable
from livecap.api.webrtc.offers import BadOffer, usable
from livecap.errors import ConfigError

CALLS, WHIP = "/v1/realtime/calls", "/v1/whip"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One for all."""
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def offer() -> str:
    """One that can be answered, with audio and a data channel."""

    async def work() -> str:
        caller = Caller(None)
        caller.peer.addTransceiver("audio", "sendonly")
        caller.open_channel()
        text = await caller.offer()
        await caller.peer.close()
        return text

    return run(work)


def without(offer: str, start: str) -> str:
    """No line that begins so."""
    return "\r\n".join([*(line for line in offer.splitlines() if not line.startswith(start)), ""])


BROKEN = ("a=ice-ufrag", "a=ice-pwd", "a=fingerprint", "a=setup", "a=group", "m=audio", "m=")


@pytest.mark.parametrize("line", [*BROKEN, "a=rtcp-mux", "a=rtpmap"])
@pytest.mark.parametrize("path", [CALLS, WHIP])
def test_what_lacks_something_is_refused(server: Running, offer: str, line: str, path: str) -> None:
    async def work() -> None:
        async with http(server) as web:
            answer = await web.post(path, content=without(offer, line), headers=SDP)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_sdp")

    run(work)
    server.settle()


@pytest.mark.parametrize(
    ("content", "head", "status", "code"),
    [
        (b"", SDP, 400, "invalid_sdp"),
        (b"hello", SDP, 400, "invalid_sdp"),
        (b"\xff\xfe", SDP, 400, "invalid_sdp"),
        (b"v=0\r\n", {"Content-Type": "application/json"}, 415, "unsupported_content_type"),
        (b"v=0\r\n", {}, 415, "unsupported_content_type"),
        (b"a" * 300_000, SDP, 413, "body_too_large"),
    ],
)
@pytest.mark.parametrize("path", [CALLS, WHIP, "/v1/realtime"])
def test_what_is_no_offer_is_refused(
    server: Running, content: bytes, head: dict[str, str], status: int, code: str, path: str
) -> None:
    async def work() -> None:
        async with http(server) as web:
            answer = await web.post(path, content=content, headers=head)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)

    run(work)
    server.settle()


@pytest.mark.parametrize(
    ("parts", "status", "code"),
    [
        ({"session": (None, "{}")}, 400, "missing_required_parameter"),
        ({"sdp": (None, "v=0"), "session": (None, "[]")}, 400, "invalid_json"),
        ({"sdp": (None, "v=0"), "session": (None, "{")}, 400, "invalid_json"),
        ({"sdp": (None, "v=0"), "session": (None, '{"type": 1}')}, 400, "invalid_value"),
        ({"sdp": (None, "v=0"), "session": (None, "{}")}, 400, "invalid_sdp"),
    ],
)
def test_forms_that_can_not_be_followed_are_refused(
    server: Running, parts: dict[str, tuple[None, str]], status: int, code: str
) -> None:
    async def work() -> None:
        async with http(server) as web:
            answer = await web.post(CALLS, files=parts)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
            head = {"Content-Type": "multipart/form-data"}
            answer = await web.post(CALLS, content=b"x", headers=head)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_form")

    run(work)
    server.settle()


def test_a_model_that_is_not_served_is_refused(server: Running, offer: str) -> None:
    async def work() -> None:
        async with http(server) as web:
            answer = await web.post(f"{CALLS}?model=none", content=offer, headers=SDP)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")

    run(work)
    server.settle()


def test_encoders_send_one_track_of_a_kind(offer: str) -> None:
    audio = offer[offer.index("m=audio") : offer.index("m=application")]
    second = audio.replace("a=mid:0", "a=mid:9")
    twice = offer.replace("m=application", second + "m=application")
    twice = twice.replace("a=group:BUNDLE 0", "a=group:BUNDLE 0 9")
    usable(twice, is_ingest=False, is_local=True)
    with pytest.raises(BadOffer, match="one audio"):
        usable(twice, is_ingest=True, is_local=True)


def test_without_the_packages_there_is_a_way_to_them(
    server: Running, offer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "livecap.api.webrtc.peer", raising=False)
    monkeypatch.setitem(sys.modules, "aiortc", None)

    async def work() -> None:
        async with http(server) as web:
            for path in (CALLS, WHIP, "/v1/realtime"):
                answer = await web.post(path, content=offer, headers=SDP)
                assert (answer.status_code, answer.json()["error"]["code"]) == (
                    501,
                    "webrtc_not_installed",
                )
                assert "livecap[webrtc]" in answer.json()["error"]["message"]
            assert (await web.get("/v1/realtime/ice")).status_code == 501
            assert (await web.options(WHIP)).status_code == 200

    run(work)
    server.settle()


def test_no_offer_is_a_fault(offer: str) -> None:
    """Lines lost, doubled, cut and mixed up: it is read, or it is refused."""
    chance = random.Random(5)
    refused = 0
    for _ in range(1000):
        lines = offer.splitlines()
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(lines))
            line = lines[at]
            cut = chance.randrange(len(line) + 1)
            lines[at : at + 1] = chance.choice(
                [[], [line, line], [line[:cut]], [line[cut:]], [line[:cut] + "9 x" + line[cut:]]]
            )
        try:
            is_ingest = bool(chance.getrandbits(1))
            usable("\r\n".join(lines), is_ingest=is_ingest, is_local=True)
        except BadOffer:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("value", "can_be"),
    [
        ("1 1 UDP 2130706431 10.0.0.1 9 typ host", True),
        ("1 1 udp 2130706431 fd00::1 9 typ srflx raddr 1.2.3.4 rport 5", True),
        ("1 1 udp 2130706431 abc.local 9 typ host", False),
        ("1 1 udp 2130706431 example.org 9 typ host", False),
        ("1 1 tcp 2130706431 10.0.0.1 9 typ host tcptype active", False),
        ("1 2 udp 2130706431 10.0.0.1 9 typ host", False),
        ("1 1 udp 2130706431 10.0.0.1 0 typ host", False),
        ("1 1 udp x 10.0.0.1 9 typ host", False),
        ("1 1 udp", False),
    ],
)
def test_addresses_that_are_tried(value: str, can_be: bool) -> None:
    assert is_reachable(value, is_local=True) is can_be
    assert is_reachable(value, is_local=False) is can_be


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "169.254.169.254",
        "169.254.1.1",
        "100.100.100.200",
        "168.63.129.16",
        "224.0.0.251",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "ff02::fb",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "2002:7f00:1::1",
        "64:ff9b::a9fe:a9fe",
    ],
)
def test_addresses_that_only_this_machine_may_name(address: str) -> None:
    value = f"1 1 udp 2130706431 {address} 9 typ host"
    assert is_reachable(value, is_local=True)
    assert not is_reachable(value, is_local=False)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.9", "100.64.0.1", "fd00::1", "1.1.1.1"])
def test_addresses_of_networks_are_tried(address: str) -> None:
    assert is_reachable(f"1 1 udp 2130706431 {address} 9 typ host", is_local=False)


def test_an_offer_names_few_addresses(offer: str) -> None:
    """Counted over all of its sections."""

    def named(count: int) -> str:
        lines = [f"a=candidate:1 1 udp 1 10.0.0.{n} {n + 1} typ host" for n in range(count // 2)]
        extra = "\r\n".join(["", *lines, ""])
        bare = without(offer, "a=candidate").rstrip("\r\n")
        return bare.replace("\r\nm=application", f"{extra}m=application") + extra

    usable(named(CANDIDATES), is_ingest=False, is_local=False)
    with pytest.raises(BadOffer, match="64 candidates"):
        usable(named(CANDIDATES + 2), is_ingest=False, is_local=False)


@pytest.mark.parametrize(
    "text",
    [
        "stun.example.org",
        "http://example.org",
        "stun:me:secret@example.org",
        "stun:example.org?transport=udp",
        "turn:example.org",
        'turn:me:"secret"@example.org',
        "turn:me:secret@example.org?transport=sctp",
        "",
    ],
)
def test_servers_that_can_not_be(text: str) -> None:
    with pytest.raises(ConfigError) as told:
        ice_server(text)
    assert "secret" not in str(told.value)
    assert "secret" not in repr(ice_server("turn:me:secret@example.org:3478?transport=tcp"))
