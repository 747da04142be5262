"""WHIP (RFC 9725), as encoders speak it."""

import asyncio
import re
from collections.abc import Iterator

import pytest
import tones
from rtc_clients import RATE, SDP, Caller, Voice, calling, http
from server_clients import client, run
from server_fixture import Running, serving

from livecap.api.options import ServeConfig
from livecap.api.webrtc.whip import CAPTIONS

WHIP = "/v1/whip"
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}
SERVERS = ("stun:127.0.0.1:9", "turn:me:secret@127.0.0.1:9?transport=udp")
WORDS = (4, 5, 6)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One for all."""
    with serving() as running:
        yield running


def said(*, after: int = 1500) -> tones.Samples:
    """As an encoder has it."""
    return tones.say(WORDS, after=after, rate=RATE)


def ufrag(caller: Caller) -> str:
    """The client's."""
    found = re.search("a=ice-ufrag:(.*)", caller.peer.localDescription.sdp)
    assert found
    return found[1].strip()


def test_what_an_encoder_sends_is_read_elsewhere(server: Running) -> None:
    async def work() -> None:
        async with (
            calling(server, said(after=0), path=f"{WHIP}?language=en", channel=False) as encoder,
            http(server) as web,
        ):
            assert encoder.location.startswith(f"{WHIP}/rtc_")
            links = encoder.headers.get_list("link")
            captions = re.fullmatch(
                rf'<(/v1/captions/sess_\w+)/events>; rel="{CAPTIONS}"', links[-1]
            )
            assert captions
            await encoder.has_spoken()
            assert (await web.delete(encoder.location)).status_code == 200
            while encoder.peer.connectionState == "connected":  # nothing tells but the connection
                await encoder.changed.wait()
                encoder.changed.clear()
            async with web.stream("GET", f"{captions[1]}/events") as answer:
                text = "".join([line async for line in answer.aiter_lines()])  # until its end
            assert all(word in text for word in tones.text(WORDS).split())
            gone = await web.delete(encoder.location)
            assert gone.status_code in (200, 404)

    run(work)
    server.settle()


def test_what_can_be_done_is_told(server: Running) -> None:
    async def work() -> None:
        async with http(server) as web:
            answer = await web.options(WHIP)
            assert answer.status_code == 200
            assert answer.headers["accept-post"] == "application/sdp"
            head = {
                "Origin": "http://localhost:9",
                "Access-Control-Request-Method": "PATCH",
                "Access-Control-Request-Headers": "If-Match, Authorization",
            }
            answer = await web.options(f"{WHIP}/x", headers=head)
            assert answer.status_code == 200
            assert "PATCH" in answer.headers["access-control-allow-methods"]
            assert "DELETE" in answer.headers["access-control-allow-methods"]

    run(work)


def test_addresses_may_follow(server: Running) -> None:
    """All of them come after the offer; and each rule for tags."""

    async def work() -> None:
        async with http(server) as web:
            encoder = Caller(Voice(said()))
            offer = await encoder.offer()
            lines = offer.splitlines()
            candidates = [line for line in lines if line.startswith("a=candidate")]
            bare = "\r\n".join([*(line for line in lines if "candidate" not in line), ""])
            answer = await web.post(WHIP, content=bare, headers=SDP)
            at, tag = answer.headers["location"], answer.headers["etag"]
            user = ufrag(encoder)
            fragment = "\r\n".join(
                [f"a=ice-ufrag:{user}", "m=audio 9 RTP/AVP 0", "a=mid:0", *candidates, ""]
            )

            async def patch(text: str, status: int, **head: str) -> None:
                named = {name.replace("_", "-"): value for name, value in head.items()}
                told = await web.patch(at, content=text, headers={**FRAGMENT, **named})
                assert told.status_code == status, told.text

            await patch(fragment, 204, If_Match=tag)
            await patch(fragment, 204)
            await patch(fragment, 412, If_Match='"other"')
            restart = fragment.replace(user, "other")
            await patch(restart, 428)
            await patch(restart, 422, If_Match="*")
            await patch("nothing", 400, If_Match=tag)
            await patch("a=candidate:1 1 udp 1 10.0.0.300 9 typ host", 204, If_Match=tag)
            told = await web.patch(at, content=fragment, headers=SDP)
            assert (told.status_code, told.headers["accept-patch"]) == (
                415,
                "application/trickle-ice-sdpfrag",
            )
            await encoder.accept(answer)
            assert encoder.voice
            await encoder.voice.said.wait()
            await encoder.peer.close()

    run(work)
    server.settle()


def test_addresses_are_few(server: Running) -> None:
    """Thousands of them would hold up everybody."""

    async def work() -> None:
        async with http(server) as web:
            encoder = Caller(Voice(said()))
            offer = await encoder.offer()
            bare = "\r\n".join([*(one for one in offer.splitlines() if "candidate" not in one), ""])
            answer = await web.post(WHIP, content=bare, headers=SDP)
            at = answer.headers["location"]

            async def patch(first: int, count: int) -> int:
                lines = [
                    f"a=candidate:1 1 udp 1 10.{n >> 8}.{n & 255}.1 9 typ host"
                    for n in range(first, first + count)
                ]
                told = await web.patch(at, content="\r\n".join(lines), headers=FRAGMENT)
                if told.status_code == 400:
                    assert told.json()["error"]["code"] == "too_many_candidates"
                return told.status_code

            assert [await patch(0, 40), await patch(40, 24), await patch(64, 1)] == [204, 204, 400]
            sending = asyncio.create_task(patch(100, 4000))
            longest, loop = 0.0, asyncio.get_running_loop()
            while not sending.done():
                begun = loop.time()
                assert (await web.get(f"http://{server.host}/health")).status_code == 200
                longest = max(longest, loop.time() - begun)
            assert (await sending, longest < 2.0) == (400, True)
            await web.delete(at)
            await encoder.peer.close()

    run(work)
    server.settle()


def test_servers_to_go_through_are_told() -> None:
    with serving(config=ServeConfig(max_sessions=5, ice_server=SERVERS)) as helped:

        async def work() -> None:
            async with http(helped) as web:
                told = (await web.get("/v1/realtime/ice")).json()
                assert told == {
                    "iceServers": [
                        {"urls": ["stun:127.0.0.1:9"]},
                        {
                            "urls": ["turn:127.0.0.1:9?transport=udp"],
                            "username": "me",
                            "credential": "secret",
                        },
                    ]
                }
            async with calling(helped, said(), path=WHIP, channel=False) as encoder:
                links = encoder.headers.get_list("link")
                assert links[:2] == [
                    '<stun:127.0.0.1:9>; rel="ice-server"',
                    '<turn:127.0.0.1:9?transport=udp>; rel="ice-server"; username="me"; '
                    'credential="secret"; credential-type="password"',
                ]

        run(work)
        helped.settle()


def test_a_call_of_another_kind_is_none_of_its(server: Running) -> None:
    async def work() -> None:
        async with calling(server, said()) as caller, http(server) as web:
            at = f"{WHIP}/{caller.location.rpartition('/')[2]}"
            assert (await web.delete(at)).status_code == 404

    run(work)
    server.settle()


def test_an_encoder_is_heard_by_who_knows_its_call(server: Running) -> None:
    async def work() -> None:
        async with calling(server, said(), path=WHIP, channel=False) as encoder:
            id = encoder.location.rpartition("/")[2]
            async with client(server, f"/v1/realtime?call_id={id}") as socket:
                done = await socket.until(".completed")
                assert done["transcript"] == tones.text(WORDS)

    run(work)
    server.settle()
