"""Webhooks and caption URLs against servers that fail, redirect, ask for patience and are away."""

import base64
import hmac
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from push_receivers import delivering, free_port, receiving, said, texts, until

from livecap.output.push.addresses import secret_of
from livecap.output.push.webhook import Webhook
from livecap.output.push.youtube import YouTube, body
from livecap.output.push.zoom import Zoom

SECRET = base64.b64encode(b"a secret of more than sixteen bytes").decode()
Make = Callable[[str], Any]

makes: list[Make] = [lambda url: Webhook(url, None), YouTube, Zoom]
every = pytest.mark.parametrize("make", makes, ids=["webhook", "youtube", "zoom"])


# -- what they have in common ----------------------------------------------------------------------


@every
def test_lines_arrive_in_order_through_trouble(make: Make) -> None:
    with receiving(503, 500, 200, 429, (429, {"Retry-After": "1"}), 502) as receiver:
        sink = make(f"{receiver.url}/in?token=hidden")
        with delivering(sink) as (delivery, told):
            for number in range(1, 5):
                delivery.put(said(f"Line {number}.", number))
            until(lambda: told.results == ["delivered"] * 4, lambda: told)
        order = [int(re.findall(r"Line (\d)", text)[0]) for text in texts(receiver.posts)]
        assert order == [1, 1, 1, 2, 2, 2, 2, 3, 4]
        assert not any("hidden" in one for one in told.sentences)


@every
def test_a_receiver_that_comes_later(make: Make) -> None:
    port = free_port()
    sink = make(f"http://127.0.0.1:{port}/in?token=hidden")
    with delivering(sink) as (delivery, told):
        delivery.put(said("Line 1.", 1))
        until(lambda: bool(told.sentences))
        assert "can't be reached (Connection refused); trying again" in told.sentences[0]
        with receiving(port=port) as receiver:
            until(lambda: told.results == ["delivered"])
            assert len(receiver.posts) == 1
    assert not any("hidden" in one for one in told.sentences)


@pytest.mark.parametrize("make", makes[:2], ids=["webhook", "youtube"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 301, 307])
def test_what_is_refused_is_not_sent_again_or_elsewhere(make: Make, status: int) -> None:
    with receiving() as other, receiving((status, {"Location": f"{other.url}/x"})) as receiver:
        with delivering(make(f"{receiver.url}/in")) as (delivery, told):
            delivery.put(said("One."))
            delivery.put(said("Two.", 2))
            until(lambda: told.results == ["refused", "delivered"])
        assert len(receiver.posts) == 2
        assert other.requests == []
        assert str(status) in told.sentences[0]


@every
def test_a_receiver_that_is_not_http(make: Make) -> None:
    with receiving() as receiver:
        port = receiver.port
    sink = make(f"https://127.0.0.1:{port}/in?token=hidden")
    with receiving(port=port), delivering(sink, last=0.0) as (delivery, told):
        delivery.put(said("One."))
        until(lambda: bool(told.sentences))
    assert "can't be reached" in told.sentences[0]
    assert "hidden" not in "".join(told.sentences)


# -- webhooks --------------------------------------------------------------------------------------


def test_a_webhook_is_signed_and_keeps_its_id() -> None:
    key = secret_of(f"whsec_{SECRET}", "--webhook-secret")
    now = iter([1000.7, 1030.2])
    with receiving(503) as receiver:
        sink = Webhook(f"{receiver.url}/hook", key, lambda: next(now))
        with delivering(sink) as (delivery, told):
            delivery.put(said('Größe — 世界 👋 "quoted".', 7))
            until(lambda: told.results == ["delivered"])
    first, second = receiver.posts
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == "msg_sess_1_7"
    assert [one.headers["webhook-timestamp"] for one in (first, second)] == ["1000", "1030"]
    assert first.body == second.body
    for one in (first, second):
        stamp, (version, _, tag) = (
            one.headers["webhook-timestamp"],
            one.headers["webhook-signature"].partition(","),
        )
        signed = f"msg_sess_1_7.{stamp}.".encode() + one.body
        assert version == "v1"
        assert base64.b64decode(tag) == hmac.digest(key, signed, "sha256")
        assert one.headers["content-type"] == "application/json"
    told_of = json.loads(second.body)
    assert (told_of["type"], told_of["timestamp"]) == ("caption.final", "2030-03-17T17:46:40.250Z")
    data = told_of["data"]
    assert (data["session"], data["id"], data["language"]) == ("sess_1", 7, "en")
    assert data["text"] == 'Größe — 世界 👋 "quoted".'
    assert (data["start_ms"], data["end_ms"]) == (1000, 3500)
    assert [word["word"] for word in data["words"]] == data["text"].split()


def test_a_webhook_without_a_secret_is_not_signed() -> None:
    with receiving() as receiver:
        with delivering(Webhook(receiver.url, None)) as (delivery, told):
            delivery.put(said("One."))
            until(lambda: told.results == ["delivered"])
        assert "webhook-signature" not in receiver.posts[0].headers
        assert receiver.posts[0].headers["webhook-id"] == "msg_sess_1_1"


def test_a_webhook_that_is_gone_is_left_alone() -> None:
    with receiving(410) as receiver:
        with delivering(Webhook(receiver.url, None)) as (delivery, told):
            for number in range(3):
                delivery.put(said("One.", number))
            until(lambda: len(told.results) == 3)
        assert len(receiver.posts) == 1


def test_patience_that_is_asked_for() -> None:
    asked: list[float] = []

    def delay(tries: int, wanted: float) -> float:
        asked.append(wanted)
        return 0.001

    later = "Fri, 01 Jan 2100 00:00:00 GMT"
    answers = [(503, {"Retry-After": value}) for value in ("17", later, "soon", "")]
    with (
        receiving(*answers) as receiver,
        delivering(Webhook(receiver.url, None), delay=delay) as (delivery, told),
    ):
        delivery.put(said("One."))
        until(lambda: told.results == ["delivered"])
    assert asked == [17.0, 600.0, 0.0, 0.0]


# -- caption URLs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [YouTube, Zoom])
def test_numbers_rise_by_one_and_stay_through_tries(make: Make) -> None:
    with (
        receiving(503, 200, 200, 500, 503, 200) as receiver,
        delivering(make(f"{receiver.url}/cc?id=1&seq=99&key=a%2Fb")) as (delivery, told),
    ):
        for number in range(4):
            delivery.put(said(f"Line {number}.", number))
        until(lambda: told.results == ["delivered"] * 4)
    sequence = [one.query["seq"] for one in receiver.posts]
    assert sequence == ["1", "1", "2", "3", "3", "3", "4"]
    assert all((one.query["id"], one.query["key"]) == ("1", "a/b") for one in receiver.posts)
    kinds = {one.headers["content-type"].split(";")[0] for one in receiver.posts}
    assert kinds == {"text/plain"}


@pytest.mark.parametrize("make", [YouTube, Zoom])
def test_what_was_too_late_leaves_no_hole(make: Make) -> None:
    now = [0.0]

    def delay(tries: int, asked: float) -> float:
        now[0] += 3.0
        return 0.001

    with receiving(503, 503) as receiver:
        sink = make(f"{receiver.url}/cc")
        with delivering(sink, delay=delay, clock=lambda: now[0]) as (delivery, told):
            delivery.put(said("Old."))
            until(lambda: told.results == ["late"])
            delivery.put(said("New."))
            until(lambda: told.results == ["late", "delivered"])
    assert [one.query["seq"] for one in receiver.posts] == ["1", "1", "1"]


def test_youtube_is_told_when_each_part_was_said() -> None:
    text = "The quick brown fox jumps over the lazy dog and then, having nothing better to do, it "
    text += "goes back home again and <b>sleeps</b> until morning."
    lines = body(said(text)).split("\n")
    assert lines.pop() == ""  # it ends with the end of a line
    times, parts = lines[::2], lines[1::2]
    assert times[0] == "2030-03-17T17:46:40.250"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}", one) for one in times)
    assert len(times) == len(parts) > 1
    assert all(before < after for before, after in pairwise(times))
    assert " ".join(parts).replace("<br>", " ") == text.replace("<", "‹")
    assert all(len(line) <= 42 for part in parts for line in part.split("<br>"))


@given(st.text(max_size=200))
def test_youtube_takes_any_text(text: str) -> None:
    lines = body(said(text.replace(" ", "x") or "x")).split("\n")
    assert len(lines) % 2 == 1
    assert all(line.startswith("2030-03-17T17:46:4") for line in lines[:-1:2])


def test_zoom_goes_on_where_a_meeting_is() -> None:
    with (
        receiving(told=b"41\n") as receiver,
        delivering(Zoom(f"{receiver.url}/closedcaption?id=2&ns=x")) as (delivery, told),
    ):
        delivery.put(said("Hello\nthere,   you.", 1))
        delivery.put(said("Bonjour.", 2, language="fr"))
        until(lambda: told.results == ["delivered"] * 2)
    asked, first, second = receiver.requests
    assert (asked.method, asked.path) == ("GET", "/closedcaption/seq")
    assert asked.query == {"id": "2", "ns": "x"}
    assert (first.query["seq"], first.query["lang"]) == ("42", "en-US")
    assert (second.query["seq"], second.query["lang"]) == ("43", "fr-FR")
    assert second.text == "Bonjour.\n"
    assert first.text.count("\n") == 1


def test_zoom_keeps_the_language_of_its_url() -> None:
    with (
        receiving(told=b"no number") as receiver,
        delivering(Zoom(f"{receiver.url}/closedcaption?lang=de-DE")) as (delivery, told),
    ):
        delivery.put(said("Hallo."))
        until(lambda: told.results == ["delivered"])
    assert receiver.posts[0].query == {"lang": "de-DE", "seq": "1"}


def test_zoom_is_tried_again_before_a_meeting() -> None:
    with (
        receiving(400, 403, 405) as receiver,
        delivering(Zoom(f"{receiver.url}/closedcaption?id=1")) as (delivery, told),
    ):
        delivery.put(said("One."))
        until(lambda: told.results == ["delivered"])
    assert [one.query["seq"] for one in receiver.posts] == ["1"] * 4
    assert "has the meeting begun?" in told.sentences[0]


def test_names_say_no_secrets() -> None:
    url = "https://user.example:8443/path-token?signature=secret"
    for make in makes:
        sink = make(url)
        assert "user.example:8443" in sink.name
        assert "token" not in sink.name
        assert "secret" not in sink.name
