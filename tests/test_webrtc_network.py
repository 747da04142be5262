"""Speech over a bad network: real packets and the embedded model; what is lost is the same always.

What is promised: the timeline keeps its length and its order, what was lost is silence where it was
lost, no delay stays, and the words that come have their times within 0.2 s.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pytest
from command import JFK, jfk, plain
from numpy.typing import NDArray
from rtc_clients import FRAME, RATE, Caller, Json, calling, http
from rtc_network import Fate, Network, Recorded, between, every, shaken, stalled, unharmed
from server_clients import run
from server_fixture import MANY, Running, embedded, serving

from livecap.api.webrtc import reorder

OFF = 0.2  # seconds by which a word's time may be off
QUIET = 3 * RATE  # samples after the speech
SECOND = 50  # packets
HELD = (
    reorder.MOST + 2
)  # packets that the order and the decoder may hold back, whatever came before
MOST = 4  # packets that one comes late, at most

Samples = NDArray[np.int16]
Words = list[tuple[str, float, float]]  # with the seconds at which each begins and ends


@dataclass(frozen=True)
class Heard:
    """What became of a call."""

    turns: list[Words]
    network: Network
    timeline: Recorded

    @property
    def words(self) -> Words:
        """All of them."""
        return [word for turn in self.turns for word in turn]

    @property
    def came(self) -> list[int]:
        """Numbers of the packets whose frames came, as they came."""
        return [number for number in self.timeline.numbers if number < PACKETS]


def speech() -> Samples:
    """The recording at 48 kHz, and silence after it."""
    pcm = np.rint(jfk() * 32767).astype(np.int16)
    return np.concatenate([np.repeat(pcm, 3), np.zeros(QUIET, np.int16)])


SPEECH = speech()
PACKETS = (len(SPEECH) - RATE) // FRAME  # that are looked at: what is sent last may be cut off


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One for all."""
    with serving(embedded, MANY, names=("tiny.en",)) as running:
        yield running


@pytest.fixture(scope="module")
def known(server: Running) -> Words:
    """The words of the recording as an upload of it has them."""
    found: Words = []

    async def work() -> None:
        async with http(server) as web:
            fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
            answer = await web.post(
                "/v1/audio/transcriptions", data=fields, files={"file": JFK.read_bytes()}
            )
            found.extend(
                (plain(one["word"]), one["start"], one["end"]) for one in answer.json()["words"]
            )

    run(work)
    assert len(found) == 22
    return found


def timed(words: Sequence[Json]) -> Words:
    """As both ways of asking tell them."""
    return [(plain(one["word"]), one["start"], one["end"]) for one in words]


def heard(
    server: Running, fate: Fate, monkeypatch: pytest.MonkeyPatch, *, pace: float = 4
) -> Heard:
    """The recording through that network."""
    timelines: list[Recorded] = []
    networks: list[Network] = []
    turns: list[Words] = []

    def recorded() -> Recorded:
        timelines.append(Recorded(networks[-1]))
        return timelines[-1]

    monkeypatch.setattr("livecap.api.webrtc.call.RtpTimeline", recorded)

    async def work() -> None:
        def worsen(caller: Caller) -> None:
            networks.append(between(caller, fate))

        async with calling(server, SPEECH, pace=pace, prepare=worsen) as caller:
            await caller.until("session.created")
            session = {"type": "transcription", "include": ["livecap.words"]}
            caller.send("session.update", session=session)
            await caller.has_spoken()
            caller.send("session.close")
            await caller.closed.wait()
            for frame in caller.frames:
                assert frame["type"] != "error", frame
                if frame["type"].endswith(".completed"):
                    turns.append(
                        [(plain(one["word"]), one["start"], one["end"]) for one in frame["words"]]
                    )

    run(work)
    server.settle()
    return Heard(turns, networks[0], timelines[0])


def off(words: Words, known: Words) -> list[float]:
    """Seconds by which each word that was to come is off: its beginning, or its end if that is
    nearer. Beside a pause, alignment gives a word more or less of it, and more so live.
    """
    texts = [[text for text, *_ in some] for some in (known, words)]
    matcher = SequenceMatcher(None, texts[0], texts[1], autojunk=False)
    pairs = [
        (known[a + i], words[b + i])
        for a, b, count in matcher.get_matching_blocks()
        for i in range(count)
    ]
    return [min(abs(one[1] - two[1]), abs(one[2] - two[2])) for one, two in pairs]


def test_an_encoder_is_captioned(server: Running, known: Words) -> None:
    """By WHIP: no channel tells it, so a reader is asked, who is told until its end."""

    async def work() -> list[Json]:
        async with (
            calling(server, SPEECH, path="/v1/whip", channel=False) as encoder,
            http(server) as web,
        ):
            await encoder.has_spoken()
            await web.delete(encoder.location)
            events = encoder.headers.get_list("link")[-1].partition(">")[0].lstrip("<")
            async with web.stream("GET", events) as answer:
                lines = [line async for line in answer.aiter_lines()]
        told = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        return [one for one in told if one["type"] == "final"]

    words = [word for one in asyncio.run(work()) for word in timed(one["words"])]
    assert [text for text, *_ in words] == [text for text, *_ in known]
    assert max(off(words, known)) <= OFF
    server.settle()


def frames(samples: Samples) -> NDArray[Any]:
    """By the numbers of their packets: [packet, sample]."""
    found: NDArray[Any] = samples[: PACKETS * FRAME].reshape(PACKETS, FRAME)
    return found


@pytest.mark.parametrize(
    ("fate", "share"),
    [
        (every(10, first=5), 0.7),  # one in ten
        (every(100, lost=5, first=50), 0.7),  # bursts of 0.1 s
        (shaken(3, MOST), 1.0),
        (shaken(4, MOST, lost=0.05), 0.7),
    ],
    ids=["tenth", "bursts", "jitter", "jitter and loss"],
)
def test_a_bad_network_moves_no_word(
    server: Running,
    known: Words,
    monkeypatch: pytest.MonkeyPatch,
    fate: Fate,
    share: float,
) -> None:
    """`share`: of the words, that is understood all the same."""
    clean = heard(server, unharmed, monkeypatch)
    one = heard(server, fate, monkeypatch)
    lost = {number for number in one.network.lost if number < PACKETS}
    assert one.came == sorted(set(one.came)), "out of order"
    assert set(one.came) | lost == set(range(PACKETS)), "more is missing than was lost"
    placed, whole = frames(one.timeline.samples), frames(clean.timeline.samples)
    assert not placed[sorted(lost)].any(), "what was lost is not silence"
    if not lost:
        assert np.array_equal(placed, whole)
    for at in range(0, 11 * SECOND, SECOND):
        parts = placed[at : at + SECOND].ravel(), whole[at : at + SECOND].ravel()
        assert shift(*parts) == 0
    times = off(one.words, known)
    assert len(times) >= share * len(known)
    if lost:  # a word beside a hole may be given some of it
        times.remove(max(times))
    assert max(times) <= OFF


def shift(one: Samples, other: Samples) -> int:
    """Samples by which one comes later than the other, by where they are most alike."""
    spectra = [np.fft.rfft(part.astype(float), 2 * len(part)) for part in (one, other)]
    alike = np.fft.irfft(spectra[0] * np.conj(spectra[1]))
    best = int(alike.argmax())
    return best if best < len(one) else best - 2 * len(one)


def test_the_same_pattern_gives_the_same_samples(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoder and decoder know no chance: whatever the pace, all samples are equal to the bit."""
    fate = shaken(5, MOST, lost=0.1)
    first, second = (heard(server, fate, monkeypatch, pace=pace) for pace in (4, 6))
    assert len(first.network.lost) > PACKETS // 20
    assert first.came == second.came
    assert np.array_equal(frames(first.timeline.samples), frames(second.timeline.samples))


def test_no_delay_stays_after_a_stall(
    server: Running, known: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes for 3 s, in the middle of a word, and then all of it at once. The turn is ended
    meanwhile, no time is made up for it, and what is said later is heard as soon as ever.
    """
    first, count, pace = 195, 3 * SECOND, 4.0
    monkeypatch.setattr("livecap.api.webrtc.call.QUIET", 1.0 / pace)
    one = heard(server, stalled(first, count), monkeypatch, pace=pace)
    whole = heard(server, unharmed, monkeypatch, pace=pace)
    assert one.came == list(range(PACKETS))
    assert np.array_equal(frames(one.timeline.samples), frames(whole.timeline.samples))
    delays = dict(zip(one.timeline.numbers, one.timeline.delays, strict=True))
    assert delays[first + 1] >= count - HELD, "there was no stall"
    assert min(delays[n] for n in range(first + count + SECOND, PACKETS)) <= HELD
    assert len(one.turns) > len(whole.turns), "the turn that was under way went on"
    times = off(one.words, known)
    assert len(times) >= 0.8 * len(known)
    assert max(times) <= OFF
