"""Calls as OpenAI's clients make them, over real sockets: aiortc on both sides."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence

import pytest
import realtime_frames
import tones
from aiortc import VideoStreamTrack
from av import VideoFrame
from rtc_clients import RATE, Caller, calling, http
from server_clients import client, run
from server_fixture import Running, serving

from livecap.api.options import ServeConfig

CALLS = "/v1/realtime/calls"
WORDS = (0, 1, 2)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One for all that need nothing of their own."""
    with serving() as running:
        yield running


def said(words: Sequence[int] = WORDS, *, after: int = 1500) -> tones.Samples:
    """Words as a microphone has them."""
    return tones.say(words, after=after, rate=RATE)


def sideband(server: Running, caller: Caller) -> str:
    """The path of a socket that takes part in a call."""
    return f"/v1/realtime?call_id={caller.location.rpartition('/')[2]}"


def test_a_call_is_told_what_is_said(server: Running) -> None:
    async def work() -> None:
        async with calling(server, said()) as caller:
            created = await caller.until("session.created")
            assert created["session"]["type"] == "transcription"
            assert caller.location.startswith(f"{CALLS}/rtc_")
            assert await caller.transcripts(1) == [tones.text(WORDS)]
            for frame in caller.frames:
                realtime_frames.check(frame)
            realtime_frames.check_order(caller.frames, finished=True)

    run(work)
    server.settle()


def test_a_form_carries_the_configuration(server: Running) -> None:
    async def work() -> None:
        caller = Caller(None)
        caller.peer.addTransceiver("audio", "sendonly")
        caller.open_channel()
        session = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}
        async with http(server) as web:
            files = {
                "sdp": (None, await caller.offer(), "application/sdp"),
                "session": (None, json.dumps(session), "application/json"),
            }
            await caller.accept(await web.post(CALLS, files=files))
            told = (await caller.until("session.created"))["session"]
            assert told["audio"]["input"]["turn_detection"] is None
            assert told["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": RATE}
            await web.post(f"{caller.location}/hangup")
            await caller.closed.wait()
        await caller.peer.close()

    run(work)
    server.settle()


def without_addresses(offer: str) -> str:
    """As it is when it is sent before any address is known."""
    lines = offer.splitlines()
    return "\r\n".join([*(line for line in lines if "candidate" not in line), ""])


def hidden(offer: str) -> str:
    """As browsers send it that tell no page an address."""
    lines = []
    for line in offer.splitlines():
        bits = line.split(" ")
        if line.startswith("a=candidate:"):
            bits[4] = "7d9c0f9e-6a75-4b6c-8a54-0b1b3d6a9c11.local"
        lines.append(" ".join(bits))
    return "\r\n".join([*lines, ""])


@pytest.mark.parametrize("change", [without_addresses, hidden])
@pytest.mark.parametrize("path", [CALLS, "/v1/realtime?model=gpt-4o-transcribe"])
def test_no_address_of_the_client_is_needed(
    server: Running, change: Callable[[str], str], path: str
) -> None:
    async def work() -> None:
        async with calling(server, said(), change=change, path=path) as caller:
            assert await caller.transcripts(1) == [tones.text(WORDS)]

    run(work)
    server.settle()


class Picture(VideoStreamTrack):
    """Something to look at."""

    async def recv(self) -> VideoFrame:
        """The next picture."""
        timestamp, base = await self.next_timestamp()
        frame = VideoFrame(width=160, height=120)
        frame.pts, frame.time_base = timestamp, base
        return frame


def test_video_is_accepted_and_not_looked_at(server: Running) -> None:
    async def work() -> None:
        def film(caller: Caller) -> None:
            caller.peer.addTrack(Picture())

        async with calling(server, said(), prepare=film) as caller:
            assert await caller.transcripts(1) == [tones.text(WORDS)]
            directions = [one.currentDirection for one in caller.peer.getTransceivers()]
            assert directions == ["sendonly", "sendonly"]

    run(work)
    server.settle()


def test_a_turn_that_is_under_way_is_told_after_the_hang_up(server: Running) -> None:
    async def work() -> None:
        async with calling(server, said((3, 4), after=0)) as caller, http(server) as web:
            await caller.until("speech_started")
            await caller.has_spoken()
            answer = await web.post(f"{caller.location}/hangup")
            assert answer.status_code == 200
            assert await caller.transcripts(1) == [tones.text((3, 4))]
            await caller.closed.wait()

    run(work)
    server.settle()


def test_who_listens_to_a_call_sees_and_says_the_same(server: Running) -> None:
    async def work() -> None:
        async with calling(server, said()) as caller:
            await caller.until("session.created")
            async with client(server, sideband(server, caller)) as socket:
                await socket.send(
                    "session.update", session={"type": "transcription", "include": None}
                )
                told = await caller.until("session.updated")
                seen = await socket.until("session.updated")
                assert seen == told
                await caller.until(".completed")
                done = await socket.until(".completed")
                assert done == caller.frames[-1]
                await socket.send("session.close")
                assert await socket.code() == 1000
            await caller.closed.wait()

    run(work)
    server.settle()


def test_there_is_no_listening_to_a_call_that_is_not(server: Running) -> None:
    async def work() -> None:
        async with client(server, "/v1/realtime?call_id=rtc_0", created=False) as socket:
            error = (await socket.receive())["error"]
            assert error["code"] == "call_not_found"
            assert await socket.code() == 4000
        async with http(server) as web:
            answer = await web.post(f"{CALLS}/rtc_0/hangup")
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "call_not_found")

    run(work)
    server.settle()


def test_audio_comes_by_the_track_alone(server: Running) -> None:
    async def work() -> None:
        async with calling(server, said()) as caller:
            await caller.until("session.created")
            caller.send("input_audio_buffer.append", audio="AAAA")
            assert caller.channel
            caller.channel.send(b"\0\0")
            codes = [(await caller.until("error"))["error"]["code"] for _ in range(2)]
            assert codes == ["not_supported", "invalid_event"]

    run(work)
    server.settle()


def test_commits_act_on_the_track(server: Running) -> None:
    async def work() -> None:
        async with calling(server, said((5, 6), after=100)) as caller:
            session = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}
            await caller.until("session.created")
            caller.send("session.update", session=session)
            await caller.until("session.updated")
            await caller.has_spoken()
            caller.send("input_audio_buffer.commit")
            assert tones.text((5, 6)) in await caller.transcripts(1)

    run(work)
    server.settle()


@pytest.mark.parametrize("way", ["channel", "connection"])
def test_an_end_without_a_word_loses_nothing(server: Running, way: str) -> None:
    """Who listens along is still told the last turn, which was not over."""

    async def work() -> None:
        async with calling(server, said((7, 8), after=0)) as caller:
            await caller.until("session.created")
            async with client(server, sideband(server, caller)) as socket:
                await socket.until("speech_started")
                await caller.has_spoken()
                if way == "channel":
                    assert caller.channel
                    caller.channel.close()
                else:
                    await caller.peer.close()
                assert (await socket.until(".completed"))["transcript"] == tones.text((7, 8))
                assert await socket.code() == 1000

    run(work)
    server.settle()


def test_a_connection_that_is_cut_is_noticed(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No packet comes any more, as if a cable had been pulled: the turn ends, then the call."""
    monkeypatch.setattr("aioice.ice.CONSENT_INTERVAL", 0.5)
    monkeypatch.setattr("aioice.ice.CONSENT_FAILURES", 2)
    monkeypatch.setattr("livecap.api.webrtc.call.QUIET", 0.3)

    async def work() -> None:
        async with calling(server, said((7, 8), after=0)) as caller:
            await caller.until("session.created")
            async with client(server, sideband(server, caller)) as socket:
                await socket.until("speech_started")
                await caller.has_spoken()
                assert caller.peer.sctp
                await caller.peer.sctp.transport.transport._connection.close()
                assert (await socket.until(".completed"))["transcript"] == tones.text((7, 8))
                assert await socket.code() == 1000

    run(work)
    server.settle()


def test_two_at_once_hear_their_own_words(server: Running) -> None:
    async def work() -> None:
        async def one(words: Sequence[int]) -> None:
            async with calling(server, said(words)) as caller:
                assert await caller.transcripts(1) == [tones.text(words)]

        await asyncio.gather(one((0, 3, 6)), one((1, 4, 7)))

    run(work)
    server.settle()


def test_a_client_secret_opens_a_call(server: Running) -> None:
    with serving(keys=("k",)) as locked:

        async def work() -> None:
            async with http(locked) as web:
                assert (await web.post(CALLS, content="v=0")).status_code == 401
                session = {"type": "transcription", "include": ["livecap.words"]}
                answer = await web.post(
                    "/v1/realtime/client_secrets",
                    json={"session": session},
                    headers={"Authorization": "Bearer k"},
                )
            head = {"Authorization": f"Bearer {answer.json()['value']}"}
            async with calling(locked, said(), headers=head) as caller:
                created = await caller.until("session.created")
                assert created["session"]["include"] == ["livecap.words"]
                assert await caller.transcripts(1) == [tones.text(WORDS)]

        run(work)
        locked.settle()


def test_there_is_no_room_for_more() -> None:
    with serving(config=ServeConfig(max_sessions=1)) as small:

        async def work() -> None:
            async with calling(small, said()) as caller:
                await caller.until("session.created")
                async with http(small) as web:
                    head = {"Content-Type": "application/sdp"}
                    offer = caller.peer.localDescription.sdp
                    answer = await web.post(CALLS, content=offer, headers=head)
                    assert answer.status_code == 429
                    assert answer.headers["retry-after"]

        run(work)
        small.settle()
        text = small.parts.metrics.sessions.collect()
        counted = [one.labels for metric in text for one in metric.samples]
        assert {"transport": "webrtc", "dialect": "openai"} in counted


def test_a_call_in_which_nothing_happens_is_ended() -> None:
    with serving(config=ServeConfig(max_sessions=5, idle_timeout=1)) as short:

        async def work() -> None:
            silent = Caller(None)
            silent.peer.addTransceiver("audio", "sendonly")
            silent.open_channel()
            async with http(short) as web:
                head = {"Content-Type": "application/sdp"}
                await silent.accept(
                    await web.post(CALLS, content=await silent.offer(), headers=head)
                )
            await silent.closed.wait()
            assert silent.frames[-1]["error"]["code"] == "session_idle_timeout"
            await silent.peer.close()

        run(work)
        short.settle()


def test_a_stop_tells_what_was_said() -> None:
    async def work(stopped: Running) -> Caller:
        async with calling(stopped, said((2, 3), after=0)) as caller:
            await caller.until("speech_started")
            await caller.has_spoken()
            stopped.server.should_exit = True
            assert await caller.transcripts(1) == [tones.text((2, 3))]
            await caller.closed.wait()
        return caller

    with serving() as stopped:
        run(lambda: work(stopped))


def test_calls_that_never_connect_are_given_up(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livecap.api.webrtc.peer.CONNECT", 0.2)

    async def work() -> None:
        caller = Caller(None)
        caller.peer.addTransceiver("audio", "sendonly")
        caller.open_channel()
        async with http(server) as web:
            head = {"Content-Type": "application/sdp"}
            answer = await web.post(CALLS, content=await caller.offer(), headers=head)
            assert answer.status_code == 201
            while (await web.post(f"{answer.headers['location']}/hangup")).status_code != 404:
                await asyncio.sleep(0.05)
        await caller.peer.close()

    run(work)
    server.settle()
