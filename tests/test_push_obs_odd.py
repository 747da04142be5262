"""An OBS that answers oddly, or never comes to an end."""

import json
import time
from typing import Any

import pytest
from push_receivers import FakeObs, delivering, obs_running, said, until
from test_push_obs import made

from livecap.output.push import obs as module
from livecap.output.push.obs import Obs
from livecap.output.push.obs_socket import connected


class OddObs(FakeObs):
    """Says hello as it is told to, and answers requests so, at first; then like others."""

    def __init__(self, hello: dict[str, Any], reply: dict[str, Any]) -> None:
        super().__init__()
        self.hello = hello
        self.reply = reply

    def _talk(self, connection: Any) -> None:
        if self.connections > 1:
            super()._talk(connection)
            return
        connection.send(json.dumps({"op": 0, "d": self.hello}))
        connection.recv()
        connection.send(json.dumps({"op": 2, "d": {}}))
        id = json.loads(connection.recv())["d"]["requestId"]
        connection.send(json.dumps({"op": 7, "d": {"requestId": id, **self.reply}}))
        connection.recv()


GOOD = {"requestStatus": {"code": 100}}


@pytest.mark.parametrize(
    ("hello", "reply"),
    [
        ({"authentication": "yes"}, GOOD),
        ({"authentication": {"challenge": "x"}}, GOOD),
        ({"authentication": {"challenge": "x", "salt": 7}}, GOOD),
        ({}, {}),
        ({}, {"requestStatus": "fine"}),
        ({}, {"requestStatus": {}}),
        ({}, {"requestStatus": {"code": "x"}}),
    ],
)
def test_an_odd_answer_is_no_end(hello: dict[str, Any], reply: dict[str, Any]) -> None:
    obs = OddObs(hello, reply)
    with obs_running(obs), delivering(made(obs, password="geheim")) as (delivery, told):
        delivery.put(said("One."))
        delivery.put(said("Two.", 2))
        until(lambda: told.results == ["delivered"] * 2, lambda: told)
    assert "it answered something that can't be read; trying again" in told.sentences[0]
    assert obs.connections == 2


def test_nesting_without_end_is_no_end() -> None:
    class Deep(FakeObs):
        def _talk(self, connection: Any) -> None:
            if self.connections == 1:
                connection.send("[" * 200_000)
            else:
                super()._talk(connection)

    obs = Deep()
    with obs_running(obs), delivering(made(obs)) as (delivery, told):
        delivery.put(said("One."))
        until(lambda: told.results == ["delivered"], lambda: told)


def test_other_news_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of it there is."""

    class Chatty(FakeObs):
        def _talk(self, connection: Any) -> None:
            if self.connections > 1:
                super()._talk(connection)
                return
            connection.send(json.dumps({"op": 0, "d": {}}))
            while True:
                connection.send(json.dumps({"op": 5, "d": {}}))
                time.sleep(0.01)

    monkeypatch.setattr(module, "ANSWER", 0.3)
    obs = Chatty()
    with obs_running(obs), delivering(made(obs)) as (delivery, told):
        delivery.put(said("One."))
        until(lambda: told.results == ["delivered"], lambda: told)
    assert "it does not answer" in told.sentences[0]


def test_a_host_that_can_not_be_looked_up_is_away() -> None:
    sink = Obs("ws://a..b:1", "a..b", "", "", connected)
    with delivering(sink) as (delivery, told):
        delivery.put(said("One."))
        until(lambda: bool(told.sentences))
    assert "its name can't be looked up; trying again" in told.sentences[0]
