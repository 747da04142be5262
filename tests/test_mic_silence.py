"""Live captions invent nothing: a minute of what is no speech, then one word. Without a clock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from command import plain
from live_models import changed
from media import Signal, said_by_espeak
from noises import RATE, at_level, fan, hum, music, shaped, song
from oddities import between, fox, quiet, speech, word

from livecap.checkpoints import resolve
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.events import Caption, Event
from livecap.models.load import Loaded, load_model
from livecap.models.streams import live_config
from livecap.runtime.service import Service
from livecap.vad import silero as vad

MINUTE = 60.0  # seconds
EARLY = 0.4  # seconds by which a caption may begin before its word: what is kept before speech
PROMPTS = MappingProxyType({"": "", "prompt": "Thank you. So, Anna and Ben, as I said to you:"})
SOUNDS: MappingProxyType[str, Callable[[], Signal]] = MappingProxyType(
    {
        "zeros": lambda: quiet(MINUTE),
        "white noise -60": cache(lambda: at_level(shaped(MINUTE, seed=1), -60)),
        "fan -40": cache(lambda: at_level(fan(MINUTE, 2) + 0.5 * hum(MINUTE), -40)),
    }
)
MUSIC: MappingProxyType[str, Callable[[float], Signal]] = MappingProxyType(
    {
        "song": cache(lambda seconds: at_level(song(seconds), -20)),
        "chords": cache(lambda seconds: at_level(music(seconds), -20)),
    }
)
UNGATED = 10.0  # seconds of music that the model is made to hear
MOST_WORDS = 30  # a minute, of music that the model has to hear; 1 has been seen in a minute


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return load_model(resolve("tiny.en"), ModelConfig())


silero = cache(vad.load)


@contextmanager
def service(loaded: Loaded, prompt: str, gate: vad.Silero | None) -> Iterator[Service]:
    found = Service(loaded, gate, DecodeConfig(prompt=prompt))
    try:
        yield found
    finally:
        found.close()


def live(
    loaded: Loaded,
    pcm: Signal,
    prompt: str = "",
    *,
    gated: bool = True,
    piece: int = 0,
    catch_up: bool = False,
) -> list[Caption]:
    """What is said for good of the audio, every update being heard as on a fast machine unless it
    may `catch_up`. It comes in pieces of so many milliseconds; 0: at once.
    """
    step = piece * RATE // 1000 or len(pcm)
    options = live_config(
        loaded.model, LiveOptions(), vad=VadConfig() if gated else None, language=None
    )
    events: list[Event] = []
    with service(loaded, prompt, silero() if gated else None) as engine:
        stream = engine.open(changed(options, catch_up=catch_up))
        for start in range(0, len(pcm), step):
            stream.push(start, pcm[None, start : start + step])
        stream.finish()
        while not stream.is_done:
            events += stream.poll()
            stream.wait(1.0)
    return [event for event in events if isinstance(event, Caption) and event.words]


def text(captions: list[Caption]) -> str:
    return plain("".join(caption.text for caption in captions))


@pytest.fixture(scope="module")
def alone(loaded: Loaded) -> set[str]:
    """What the model makes of the word alone, with the prompt and without."""
    return {text(live(loaded, between(1, word(), 1), PROMPTS[prompt])) for prompt in PROMPTS}


def test_the_word_alone(alone: set[str]) -> None:
    assert alone == {"country"}


@pytest.mark.parametrize(
    ("sound", "prompt", "behind"),
    [
        ("zeros", "", "silence"),
        ("zeros", "prompt", "silence"),
        ("white noise -60", "", "silence"),
        ("white noise -60", "prompt", "silence"),
        ("white noise -60", "", "the same"),
        ("white noise -60", "prompt", "the same"),
        ("fan -40", "", "silence"),
        ("fan -40", "prompt", "silence"),
        ("fan -40", "", "the same"),
        ("fan -40", "prompt", "the same"),
    ],
)
def test_a_minute_of_nothing_and_one_word(
    sound: str, prompt: str, behind: str, loaded: Loaded, alone: set[str]
) -> None:
    """The word is said over silence, or over the sound that goes on."""
    before, last = SOUNDS[sound](), between(0, word(), 1)
    if behind == "the same":
        last = last + before[: len(last)]
    said = live(loaded, np.concatenate([before, last]), PROMPTS[prompt])
    assert text(said) in alone
    assert all(caption.start >= (MINUTE - EARLY) * RATE for caption in said)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("sound", MUSIC)
def test_what_is_made_of_music(sound: str, prompt: str, loaded: Loaded) -> None:
    said = text(live(loaded, MUSIC[sound](MINUTE), PROMPTS[prompt]))
    print(f"{sound}, prompt {bool(prompt)}: {len(said.split())} words a minute: {said!r}")
    assert len(said.split()) <= 1  # none has been seen


def test_what_is_made_of_music_that_has_to_be_heard(loaded: Loaded) -> None:
    """As where voice activity detection takes singing for speech."""
    said = text(live(loaded, MUSIC["song"](UNGATED), gated=False))
    rate = len(said.split()) * MINUTE / UNGATED
    print(f"song without vad: {rate:.0f} words a minute: {said!r}")
    assert rate <= MOST_WORDS


@pytest.mark.parametrize("sound", MUSIC)
def test_music_and_one_word(sound: str, loaded: Loaded, alone: set[str]) -> None:
    """Only the word, though voice activity detection has had its ear on the music."""
    said = text(live(loaded, np.concatenate([MUSIC[sound](MINUTE), between(1, word(), 1)])))
    assert said in alone


def test_music_and_a_sentence(loaded: Loaded) -> None:
    said = text(live(loaded, np.concatenate([MUSIC["song"](MINUTE), between(1, fox(), 1)])))
    assert said == "the quick brown fox jumps over the lazy dog"


@pytest.mark.parametrize(
    ("prompt", "make", "wanted"),
    [
        ("", lambda: speech()[: 3 * RATE], "and so my fellow americans"),
        ("prompt", lambda: speech()[: 3 * RATE], "and so my fellow americans"),
        ("", lambda: fox()[RATE // 5 :], "quick brown fox jumps over the lazy dog"),
    ],
    ids=["speech", "speech, with a prompt", "a cut-off sentence"],
)
def test_nothing_is_said_twice(
    prompt: str,
    make: Callable[[], Signal],
    wanted: str,
    loaded: Loaded,
) -> None:
    """One stretch of speech between silences."""
    assert text(live(loaded, between(1, make(), 1), PROMPTS[prompt])) == wanted


PIECES = (20, 333, 60_000)  # milliseconds


@pytest.mark.parametrize("piece", PIECES)
def test_a_talk_that_is_given_twice_is_said_twice(piece: int, loaded: Loaded) -> None:
    """However fast it comes, none of it is said more often."""
    pcm = np.concatenate([speech(), speech()])
    words = text(live(loaded, pcm, piece=piece, catch_up=True)).split()
    assert 42 <= len(words) <= 45  # of 44
    assert words.count("country") == 4


TALK = (
    "The morning train leaves the harbour at seven and carries letters to the islands. "
    "Most of the people on board know each other well. "
    "They talk about the weather, and the price of fish."
)
JOINED = 3  # times that it is said, without a pause


def test_a_joined_talk_is_said_as_often_as_it_is_given(loaded: Loaded, tmp_path: Path) -> None:
    """A talk that is joined to itself, in any pieces, with updates left out or not."""
    pcm = np.tile(said_by_espeak(TALK, tmp_path), JOINED)
    every = [text(live(loaded, pcm, piece=piece)) for piece in PIECES]
    hasty = [text(live(loaded, pcm, piece=piece, catch_up=True)) for piece in PIECES]
    assert len(set(every)) == 1
    count = JOINED * len(TALK.split())
    for said in (every[0], *hasty):
        assert abs(len(said.split()) - count) <= JOINED  # "onboard" is one word
        for phrase in ("morning train", "to the islands", "each other", "the weather"):
            assert said.count(phrase) == JOINED


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("piece", PIECES)
def test_a_word_of_the_prompt_is_said_once(
    piece: int, behind: int, loaded: Loaded, tmp_path: Path
) -> None:
    """A minute of nothing, then the word, and the audio's end there or a second later."""
    last = between(0, said_by_espeak("window", tmp_path), behind)
    pcm = np.concatenate([quiet(MINUTE), last])
    said = live(loaded, pcm, "Window, mirror and door.", piece=piece)
    assert text(said) == "window"
