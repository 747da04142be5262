"""OBS over its WebSocket: rows that fit, one after another, through passwords and breaks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from push_receivers import FakeObs, delivering, free_port, obs_running, said, until

from livecap.output.push import obs as module
from livecap.output.push.caption_line import Said
from livecap.output.push.obs import ROW, Obs, answer, rows_of
from livecap.output.push.obs_socket import connected

LONG = (
    "The quick brown fox jumps over the lazy dog and then, having nothing better to do, goes home."
)


def made(obs: FakeObs, *, password: str = "", source: str = "") -> Obs:
    return Obs(obs.url, "127.0.0.1", password, source, connected)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are not shown for as long as people need."""
    monkeypatch.setattr(module, "SPREAD", 0.03)


def test_rows_are_short_and_all_of_the_text() -> None:
    rows = list(rows_of(said(LONG).caption))
    assert " ".join(rows) == LONG
    assert all(len(row) <= ROW for row in rows)
    word = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
    rows = list(rows_of(said(f"Die {word} tagt.").caption))
    assert "".join(rows).replace(" ", "") == f"Die{word}tagt."
    assert all(len(row) <= ROW for row in rows)


@given(st.text(max_size=300))
def test_rows_are_short_whatever_is_said(text: str) -> None:
    line = said(text or "x").caption
    rows = list(rows_of(line))
    assert all(0 < len(row) <= ROW for row in rows)


def test_families_of_emoji_are_not_cut() -> None:
    family = "👨‍👩‍👧‍👦"
    rows = list(rows_of(said(family * 9).caption))
    assert "".join(rows) == family * 9
    assert all(len(row) <= ROW and row.startswith("👨") and row.endswith("👦") for row in rows)


FOLDED = {
    "I don’t — “really” — know…": 'I don\'t - "really" - know...',
    "Čeština, Łódź, œuvre, ő": "Cestina, Lódz, oeuvre, o",
    "¿Qué? Straße, naïve, Ñ": "¿Qué? Straße, naïve, Ñ",
    "ﬁne 😀 ☃ 5\u00a0€": "fine 5 EUR",
}


@pytest.mark.parametrize(("spoken", "shown"), FOLDED.items())
def test_signs_are_folded_for_a_streams_captions(spoken: str, shown: str) -> None:
    obs = FakeObs()
    with obs_running(obs), delivering(made(obs)) as (delivery, told):
        delivery.put(said(spoken))
        until(lambda: told.results == ["delivered"], lambda: told)
    assert " ".join(obs.rows()) == shown
    assert told.sentences == []


def test_letters_that_a_stream_has_not_are_told_of_once() -> None:
    obs = FakeObs()
    lines = ("Привет, мир.", "Hello, мир.", "Hello.", "日本語です。", "Bye.")
    with obs_running(obs), delivering(made(obs)) as (delivery, told):
        for number, line in enumerate(lines, 1):
            delivery.put(said(line, number))
        until(lambda: len(told.results) == len(lines), lambda: told)
    assert obs.rows() == ["Hello,", "Hello.", "Bye."]
    (sentence,) = told.sentences
    assert "--obs-source" in sentence
    assert told.results == ["refused", "refused", "delivered", "refused", "delivered"]


def test_a_text_source_shows_all_letters() -> None:
    obs = FakeObs()
    with obs_running(obs), delivering(made(obs, source="text")) as (delivery, told):
        delivery.put(said("Привет, “мир”."))
        until(lambda: told.results == ["delivered"], lambda: told)
    assert "Привет, “мир”." in obs.texts()
    assert obs.rows() == []
    assert told.sentences == []


def test_a_stream_gets_rows_in_order() -> None:
    obs = FakeObs()
    with obs_running(obs), delivering(made(obs)) as (delivery, told):
        delivery.put(said(LONG, 1))
        delivery.put(said("Short.", 2))
        until(lambda: told.results == ["delivered"] * 2, lambda: told)
    assert " ".join(obs.rows()) == f"{LONG} Short."
    assert obs.connections == 1
    assert obs.identified[0] == {"rpcVersion": 1, "eventSubscriptions": 0}
    assert all(before <= after for before, after in pairwise(obs.at))


def test_rows_are_shown_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPREAD", 3.0)
    pauses: list[float] = []
    obs = FakeObs()
    with obs_running(obs):
        sink = made(obs)
        sink.send(said(LONG), pauses.append)
        sink.send(said("Short.", 2), pauses.append)
        sink.close()
    count = len(list(rows_of(said(LONG).caption)))
    assert len(pauses) == count - 1
    assert 2.0 < sum(pauses) <= 3.0


def test_a_password() -> None:
    obs = FakeObs(password="geheim")
    with obs_running(obs), delivering(made(obs, password="geheim")) as (delivery, told):
        delivery.put(said("Hello."))
        until(lambda: told.results == ["delivered"])
    assert obs.rows() == ["Hello."]


@pytest.mark.parametrize(
    ("password", "sentence"),
    [("", "set LIVECAP_OBS_PASSWORD"), ("wrong", "it does not take the password")],
)
def test_no_password_and_a_wrong_one(password: str, sentence: str) -> None:
    asked: list[float] = []

    def delay(tries: int, wanted: float) -> float:
        asked.append(wanted)
        obs.password = password  # somebody has noticed
        return 0.001

    obs = FakeObs(password="geheim")
    with (
        obs_running(obs),
        delivering(made(obs, password=password), delay=delay) as (delivery, told),
    ):
        delivery.put(said("Hello."))
        until(lambda: told.results == ["delivered"])
    assert asked == [module.LATER]
    assert sentence in told.sentences[0]
    assert "geheim" not in "".join(told.sentences)


def test_what_proves_a_password() -> None:
    """The example of obs-websocket's protocol, and its salt."""
    challenge = {
        "challenge": "+IxH4CnCiqpX1rM9scsNynZzbOe4KhDeYcTNS3PDaeY=",
        "salt": "lM1GncleQOaCu9lT1yeUZhFYnqhsLLP1G5lAGo3ixaI=",
    }
    assert (
        answer("supersecretpassword", challenge) == "1Ct943GAT+6YQUUX47Ia/ncufilbe6+oD6lY+5kaCu4="
    )


def test_a_text_source_shows_two_rows_and_is_emptied() -> None:
    obs = FakeObs()
    with obs_running(obs):
        sink = made(obs, source="Captions")
        sink.quiet = 0.02
        with delivering(sink) as (delivery, _):
            delivery.put(said(LONG))
            until(lambda: bool(obs.texts()) and obs.texts()[-1] == "")
    rows = list(rows_of(said(LONG).caption))
    shown = ["\n".join(rows[max(n - 1, 0) : n + 1]) for n in range(len(rows))]
    assert obs.texts() == [*shown, ""]
    asked = [data for kind, data in obs.requests if kind == "SetInputSettings"]
    assert all((one["inputName"], one["overlay"]) == ("Captions", True) for one in asked)


def test_a_text_source_is_emptied_at_the_end() -> None:
    obs = FakeObs()
    with obs_running(obs), delivering(made(obs, source="Captions")) as (delivery, told):
        delivery.put(said("Hello."))
        until(lambda: told.results == ["delivered"])
    assert obs.texts() == ["Hello.", ""]


def test_a_stream_that_is_not_on() -> None:
    obs = FakeObs(statuses={"SendStreamCaption": 501})
    with obs_running(obs), delivering(made(obs)) as (delivery, told):
        delivery.put(said("Hello."))
        delivery.put(said("Hello.", 2))
        until(lambda: told.results == ["refused"] * 2)
    assert told.sentences == ["OBS (127.0.0.1): it is not streaming, and takes captions only then"]
    with obs_running(obs), delivering(made(obs, source="Captions")) as (delivery, told):
        delivery.put(said("Hello."))
        until(lambda: told.results == ["delivered"])
    assert obs.texts()[0] == "Hello."


def test_a_source_that_is_not_there() -> None:
    obs = FakeObs(statuses={"SetInputSettings": 600})
    with obs_running(obs), delivering(made(obs, source="Captions")) as (delivery, told):
        delivery.put(said("Hello."))
        until(lambda: told.results == ["refused"])
    assert "--obs-source" in told.sentences[0]


def test_a_break_repeats_no_row_that_was_taken() -> None:
    obs = FakeObs(break_after=2)
    with obs_running(obs), delivering(made(obs)) as (delivery, told):
        delivery.put(said(LONG))
        until(lambda: told.results == ["delivered"], lambda: told)
    rows = list(rows_of(said(LONG).caption))
    assert obs.rows() == [rows[0], rows[1], *rows[1:]]  # the second had no answer
    assert obs.connections == 2


def test_an_obs_that_comes_later_and_goes() -> None:
    port = free_port()
    obs = FakeObs()
    sink = Obs(f"ws://127.0.0.1:{port}", "127.0.0.1", "", "", connected)
    with delivering(sink) as (delivery, told):
        delivery.put(said("One."))
        until(lambda: bool(told.sentences))
        assert "can't be reached" in told.sentences[0]
        with obs_running(obs, port):
            until(lambda: told.results == ["delivered"])
        delivery.put(said("Two.", 2))
        until(lambda: len(told.sentences) > 2)
        with obs_running(obs, port):
            until(lambda: told.results == ["delivered"] * 2, lambda: told)
    assert obs.rows() == ["One.", "Two."]


def test_something_else_at_that_address() -> None:
    class Other(FakeObs):
        def talk(self, connection: object) -> None:
            connection.send("hello")  # type: ignore[attr-defined] # a connection

    obs = Other()
    with obs_running(obs), delivering(made(obs), last=0.0) as (delivery, told):
        delivery.put(said("One."))
        until(lambda: bool(told.sentences))
    assert "does not speak as obs-websocket" in told.sentences[0]


def test_lines_of_two_sessions_are_told_apart() -> None:
    obs = FakeObs()
    with obs_running(obs), delivering(made(obs)) as (delivery, told):
        lines: list[Said] = [said("A.", 1, session="a"), said("B.", 1, session="b")]
        for line in lines:
            delivery.put(line)
        until(lambda: told.results == ["delivered"] * 2)
    assert obs.rows() == ["A.", "B."]
