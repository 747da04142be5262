"""Receivers from options: what is refused, what stays secret, and who gets what of whom."""

import base64
import json
from typing import Any

import pytest
from push_receivers import FakeObs, obs_running, receiving, until
from server_clients import run
from server_fixture import serving, toned
from test_captions_server import KEY, say, speaker, web

from livecap.api.options import ServeConfig
from livecap.api.viewers import Hub
from livecap.api.viewers.active import Stage
from livecap.errors import ConfigError
from livecap.events import RATE, Caption, Gap, Word
from livecap.output.push.caption_line import Said
from livecap.output.push.options import PushOptions, with_environment
from livecap.output.push.receivers import Passing, Receivers, receivers

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123").decode()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"webhook": ("hook.example/x",)}, "--webhook"),
        ({"webhook": ("ftp://hook.example/hidden",)}, "--webhook"),
        ({"webhook": ("https://user:hidden@hook.example/",)}, "--webhook"),
        ({"webhook": ("https://hook.example/hidden x",)}, "--webhook"),
        ({"webhook": ("https://hook.example/hidden\r\nX: y",)}, "--webhook"),
        ({"webhook": ("https://[hidden",)}, "--webhook"),
        ({"webhook": ("",)}, "--webhook"),
        ({"webhook": ("http://a..b/hidden",)}, "--webhook"),
        ({"youtube": f"http://{'a' * 70}/hidden"}, "--youtube"),
        ({"zoom": "http://.x/hidden"}, "--zoom"),
        ({"obs": "ws://a..b:1"}, "--obs"),
        ({"youtube": "hidden"}, "--youtube"),
        ({"zoom": "ws://zoom.example/hidden"}, "--zoom"),
        ({"obs": "http://localhost:4455"}, "--obs"),
        ({"obs": "ws://user:hidden@localhost:4455"}, "--obs"),
        ({"obs_source": "Captions"}, "--obs-source"),
        ({"webhook_secret": "hidden"}, "--webhook-secret"),
        ({"webhook_secret": "whsec_aGlkZGVu"}, "--webhook-secret"),
        ({"webhook_secret": "whsec_" + "!" * 40}, "--webhook-secret"),
    ],
)
def test_what_can_not_work_is_refused(options: dict[str, Any], told: str) -> None:
    for kind in (PushOptions, ServeConfig):
        with pytest.raises(ConfigError) as refused:
            kind(**options)
        assert str(refused.value).startswith(told)
        assert "hidden" not in str(refused.value)


def test_secrets_are_not_shown_with_the_options() -> None:
    options = {
        "webhook": ("https://hook.example/hidden",),
        "webhook_secret": SECRET,
        "obs": "ws://localhost:4455",
        "obs_password": "hidden",
        "youtube": "https://youtube.example/hidden",
        "zoom": "https://zoom.example/?t=hidden",
    }
    for made in (PushOptions(**options), ServeConfig(**options)):  # type: ignore[arg-type] # mixed
        assert "hidden" not in repr(made)
        assert SECRET not in repr(made)


def test_secrets_of_the_environment() -> None:
    known = {"LIVECAP_WEBHOOK_SECRET": SECRET, "LIVECAP_OBS_PASSWORD": "from there"}
    found = with_environment(PushOptions(), known)
    assert (found.webhook_secret, found.obs_password) == (SECRET, "from there")
    typed = PushOptions(webhook_secret=SECRET[6:], obs_password="typed")
    assert with_environment(typed, known) == typed
    with pytest.raises(ConfigError, match=r"^LIVECAP_WEBHOOK_SECRET"):
        with_environment(PushOptions(), {"LIVECAP_WEBHOOK_SECRET": "short"})


def test_without_options_there_are_no_receivers() -> None:
    assert receivers(PushOptions(), {}, say=print) is None


class Noted(Receivers):
    """What would be sent, and whether to those who take one session at a time."""

    def __init__(self) -> None:
        super().__init__((), ())
        object.__setattr__(self, "lines", list[tuple[str, str, bool]]())

    def put(self, said: Said, *, on_stage: bool = True) -> None:
        lines: list[tuple[str, str, bool]] = self.lines  # type: ignore[attr-defined] # set above
        lines.append((said.session, said.caption.text, on_stage))


def caption(text: str, *, final: bool = True) -> Caption:
    return Caption(0, 0, RATE, (Word(text),), final=final)


def test_the_stage_belongs_to_who_began_last_and_goes_on() -> None:
    now = [100.0]
    noted: Any = Noted()
    hub = Hub(lambda: now[0], observe=Stage(noted, lambda: now[0]))
    first = hub.open("first", model="m")
    now[0] += 1
    second = hub.open("second", model="m")
    first.take(1, [caption("a")])  # the second has not said anything yet
    second.take(1, [caption("b"), Gap(RATE, 2 * RATE, "lost")])
    first.take(1, [caption("c")])
    second.take(1, [caption("d", final=False)])
    hub.close(second)
    first.take(1, [caption("e")])
    assert noted.lines == [
        ("first", "a", True),
        ("second", "b", True),
        ("first", "c", False),
        ("second", "d", True),
        ("first", "e", True),
    ]


def test_the_microphone_passes_lines_on() -> None:
    with receiving() as receiver:
        found = receivers(PushOptions(webhook=(receiver.url,)), {}, say=print)
        assert found
        passing = Passing(found, lambda: 1000.0)
        passing.write(caption(" One", final=False))
        passing.write(Gap(RATE, 2 * RATE, "unplugged"))
        passing.write(Caption(0, 0, 2 * RATE, (Word(" two."),)))
        passing.write(Caption(0, 2 * RATE, 3 * RATE, (), tail="uh"))
        passing.write(caption(" Last", final=False))
        passing.close()
    told = [json.loads(one.text)["data"] for one in receiver.posts]
    assert [(one["id"], one["text"]) for one in told] == [(1, "One two."), (2, "Last")]
    assert len({one["session"] for one in told}) == 1


def test_a_server_sends_on_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signed, in order, to all at once; and the last words when it stops."""
    monkeypatch.setenv("LIVECAP_WEBHOOK_SECRET", SECRET)
    obs = FakeObs()
    with receiving() as hook, receiving(403, 403) as zoom, obs_running(obs):
        config = ServeConfig(
            max_sessions=9, webhook=(hook.url,), zoom=f"{zoom.url}/cc?token=hidden", obs=obs.url
        )
        with serving(toned(), config, keys=("right",)) as server:

            async def work() -> list[str]:
                async with web(server) as pages, speaker(server) as (socket, _):
                    texts = [(await say(socket, seed)).strip() for seed in (1, 2)]
                    metrics = (await pages.get("/metrics", headers=KEY)).text
                    assert "hidden" not in metrics
                return texts

            texts = run(work)
        bodies = [json.loads(one.text) for one in hook.posts]
        assert [one["data"]["text"] for one in bodies] == texts
        assert all("webhook-signature" in one.headers for one in hook.posts)
        assert [one.query["seq"] for one in zoom.posts] == ["1", "1", "1", "2"]
        shown = " ".join(texts).replace("界 ", "")  # stream captions have no such letter
        assert " ".join(obs.rows()) == shown
        registry = server.parts.metrics.registry
        for kind in ("webhook", "zoom", "obs"):
            labels = {"receiver": kind, "result": "delivered"}
            lines = 1 if kind == "obs" else 2  # one has nothing that OBS could show
            assert registry.get_sample_value("livecap_push_lines_total", labels) == lines


def test_a_receiver_that_is_away_costs_a_server_nothing() -> None:
    with receiving() as gone:
        pass
    config = ServeConfig(max_sessions=9, webhook=(gone.url,), youtube=gone.url)
    with serving(toned(), config, keys=("right",)) as server:

        async def work() -> None:
            async with web(server) as pages, speaker(server) as (socket, id):
                await say(socket, 1)
                told = (await pages.delete(f"/v1/captions/{id}", headers=KEY)).json()
                assert told["deleted"]
                assert "webhook" in told["left"], "what a deletion does not reach is said"

        run(work)
        until(lambda: server.parts.admission.sessions == 0)
    registry = server.parts.metrics.registry
    labels = {"receiver": "webhook", "result": "dropped"}
    assert registry.get_sample_value("livecap_push_lines_total", labels) == 1
