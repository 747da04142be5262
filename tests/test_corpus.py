"""benchmarks/corpus.py: what is read, by whom, and how it's mixed; nothing is synthesised here."""

from itertools import chain
from math import log10

import corpus_sound as sound
import numpy as np
import pytest
from corpus_plan import FILLERS, KINDS, plans
from corpus_text import FORTUNES, PLAIN, Texts, texts
from corpus_voices import VOICES, Part, trimmed

from livecap.events import RATE

PROSE = tuple((f"Number {n} is a sentence, with the words of a sentence.",) for n in range(4000))
TALK = (("One of the talk has eight words here.",),)
TEXTS = Texts(PROSE, TALK, (("Who is it?", "It is me."),), ("So am I.",), ())
PARTS: tuple[Part, Part] = ("tune", "report")


def tone(seconds: float) -> sound.Pcm:
    return np.sin(np.arange(round(seconds * RATE)) / 10).astype(np.float32)


# Plans


def test_no_speaker_is_in_both_parts() -> None:
    tuned, reported = ({v.speaker for v in VOICES if v.part == part} for part in PARTS)
    assert not tuned & reported


@pytest.mark.parametrize("part", PARTS)
def test_a_parts_voices_share_it(part: Part) -> None:
    assert sum(voice.share for voice in VOICES if voice.part == part) == pytest.approx(1.0)
    found = plans(part, TEXTS, 2.0)
    voices = {piece.voice for plan in found for piece in plan.pieces}
    assert voices == {voice for voice in VOICES if voice.part == part}


def test_a_plan_is_the_same_each_time() -> None:
    assert plans("tune", TEXTS, 0.3) == plans("tune", TEXTS, 0.3)


def test_every_kind_is_there_and_no_sentence_twice() -> None:
    found = plans("report", TEXTS, 1.0)
    assert {plan.kind for plan in found} == set(KINDS)
    numbers = [word for plan in found for word in plan.reference.split() if word.isdigit()]
    assert len(numbers) == len(set(numbers))


def test_the_reference_is_what_the_pieces_say() -> None:
    for plan in plans("report", TEXTS, 0.5):
        spoken = " ".join(piece.text for piece in plan.pieces).replace(",", "")
        assert plan.reference.replace(",", "") == spoken


def test_pauses_and_fillers_stand_inside_sentences_of_the_hesitant() -> None:
    found = [plan for plan in plans("report", TEXTS, 2.0) if plan.kind == "hesitant"]
    inside = [p.after for plan in found for p in plan.pieces if p.text.endswith(",")]
    assert len(inside) == sum(plan.hesitations for plan in found)
    assert min(inside) >= 0.2
    assert max(inside) <= 3.0
    assert set(FILLERS) <= {word.strip(",") for plan in found for word in plan.reference.split()}


def test_speakers_of_a_dialogue_take_turns() -> None:
    (one, *_) = [plan for plan in plans("report", TEXTS, 0.5) if plan.kind == "dialogue"]
    assert len({piece.voice.speaker for piece in one.pieces}) == 2
    assert one.pieces[0].voice != one.pieces[1].voice


def test_not_enough_texts() -> None:
    few = Texts(PROSE[:10], TALK, (), (), ())
    with pytest.raises(ValueError, match="not enough texts"):
        plans("tune", few, 2.0)


# Texts


@pytest.mark.skipif(not FORTUNES.exists(), reason="Debian's fortunes aren't installed")
def test_no_text_is_in_both_parts() -> None:
    tuned, reported = (
        {
            sentence.casefold()
            for passage in chain(some.prose, some.talk, some.film, [some.turns, some.babble])
            for sentence in passage
        }
        for some in map(texts, PARTS)
    )
    assert tuned
    assert reported
    assert not tuned & reported


def test_only_plain_sentences_are_kept() -> None:
    assert PLAIN.fullmatch("So it is, and I'm glad that it's over!")
    for odd in ("It costs 5 dollars.", "Ask Mr. Smith.", "so it is.", "It is (not) so.", "Yes"):
        assert not PLAIN.fullmatch(odd)


# Sound


@pytest.mark.parametrize("level", [-23.0, -38.0])
def test_a_level_is_that_of_what_is_audible(level: float) -> None:
    pcm = np.concatenate([tone(2.0), np.zeros(3 * RATE, np.float32)])
    found = sound.levelled(pcm, level)
    assert 10 * log10(np.square(found[: 2 * RATE]).mean()) == pytest.approx(level, abs=0.1)


def test_silence_has_no_level() -> None:
    assert not sound.levelled(np.zeros(RATE, np.float32), -23.0).any()


@pytest.mark.parametrize("make", [sound.white, sound.pink, sound.music])
def test_noise_is_so_much_quieter_than_speech(make: sound.Make) -> None:
    speech = tone(2.0)
    noise = make(len(speech), np.random.default_rng(0))
    rest = sound.mixed(speech, noise, 10.0) - speech
    assert len(noise) == len(speech)
    assert 10 * log10(np.square(speech).mean() / np.square(rest).mean()) == pytest.approx(10, 0.01)


def test_babble_is_of_all_talkers() -> None:
    talkers = [tone(0.5), tone(0.7), tone(0.9)]
    found = sound.babble(3 * RATE, talkers, np.random.default_rng(0))
    assert len(found) == 3 * RATE
    assert np.isfinite(found).all()


def test_a_room_decays_by_60_decibels_in_its_time() -> None:
    click = np.zeros(RATE, np.float32)
    click[0] = 1.0
    found = sound.reverberant(click, 0.5, 0.0, np.random.default_rng(0))
    early, late = (
        np.square(found[round(at * RATE) : round((at + 0.05) * RATE)]).mean() for at in (0.1, 0.35)
    )
    assert 10 * log10(early / late) == pytest.approx(30, abs=1.5)


def test_silence_at_both_ends_is_cut() -> None:
    silence = np.zeros(RATE, np.float32)
    found = trimmed(np.concatenate([silence, tone(1.0), silence]))
    assert len(found) / RATE == pytest.approx(1.06, abs=0.02)
    assert not len(trimmed(silence))
