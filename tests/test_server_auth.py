"""Who may come in: keys in all their carriers, client secrets, and the pages of browsers."""

from typing import Any

import pytest
from starlette.types import Scope

from livecap.api.access.auth import CARRIER, Door
from livecap.api.access.client_secrets import Secrets
from livecap.api.access.failed_keys import FOR, MOST, PARTIES

KEYS = ("sk-one", "sk-two")
SECRETS = Secrets(b"0" * 32, lambda: 1000.0)
EK = SECRETS.make({"type": "transcription"}, 600)
assert EK


def scope(
    path: str = "/v1/models",
    *,
    client: str = "127.0.0.1",
    kind: str = "http",
    query: str = "",
    offered: tuple[str, ...] = (),
    **headers: str,
) -> Scope:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": kind,
        "client": (client, 5000),
        "path": path,
        "query_string": query.encode(),
        "headers": raw,
        "subprotocols": list(offered),
    }


def door(*keys: str, origins: tuple[str, ...] = (), query_key: bool = False) -> Door:
    return Door(keys, SECRETS, origins=origins, hosts=("box", "box.local"), query_key=query_key)


CARRIED = [
    ({"authorization": "Bearer {}"}, ()),
    ({"authorization": "bearer  {} "}, ()),
    ({"x_api_key": "{}"}, ()),
    ({}, ("realtime", CARRIER + "{}")),
    ({}, (CARRIER + "{}",)),
    ({"authorization": "Basic dTpw"}, ("realtime", CARRIER + "{}", "openai-beta.realtime-v1")),
]


@pytest.mark.parametrize("key", [*KEYS, "sk-three", "sk-on", "", "sk-öne"])
@pytest.mark.parametrize(("headers", "offered"), CARRIED)
def test_keys_open_the_door(key: str, headers: dict[str, str], offered: tuple[str, ...]) -> None:
    carried = {name: value.format(key) for name, value in headers.items()}
    protocols = tuple(name.format(key) for name in offered)
    found = door(*KEYS).check(scope(kind="websocket", offered=protocols, **carried))
    assert (found.refusal is None) == (key in KEYS)
    if found.refusal:
        assert (found.who, found.refusal.status, found.refusal.code) == (
            "nobody",
            401,
            "invalid_api_key",
        )
        assert found.refusal.headers["WWW-Authenticate"] == "Bearer"
        assert not key or key not in found.refusal.message
    else:
        assert found.who == "key"


def test_without_a_key_it_says_how_to_send_one() -> None:
    found = door(*KEYS).check(scope()).refusal
    assert found
    assert "Authorization: Bearer" in found.message


def test_what_is_in_authorization_counts_first() -> None:
    asked = scope(authorization="Bearer sk-wrong", x_api_key="sk-one")
    assert door(*KEYS).check(asked).refusal


@pytest.mark.parametrize(
    "offered", [("realtime",), ("realtime", CARRIER + "k"), (CARRIER + "k",), ()]
)
def test_a_key_is_never_echoed_as_a_subprotocol(offered: tuple[str, ...]) -> None:
    for keys in ((), ("k",)):
        found = door(*keys).check(scope(kind="websocket", offered=offered))
        assert found.subprotocol == ("realtime" if "realtime" in offered else None)


def test_a_refused_socket_is_closed_as_openai_does() -> None:
    found = door("k").check(scope(kind="websocket", offered=("realtime",)))
    assert found.refusal
    assert (found.close_code, found.close_reason) == (
        3000,
        "invalid_request_error.invalid_api_key",
    )
    assert found.subprotocol == "realtime"


@pytest.mark.parametrize("query", ["api_key=k", "model=x&token=k"])
def test_keys_in_urls_count_only_where_that_was_asked_for(query: str) -> None:
    asked = scope("/v1/realtime", query=query)
    assert door("k").check(asked).refusal
    assert door("k", query_key=True).check(asked).refusal is None
    assert door("k", query_key=True).check(scope(query=query.replace("k", "x"))).refusal


@pytest.mark.parametrize("keys", [(), KEYS])
@pytest.mark.parametrize(
    ("path", "opens"),
    [
        ("/v1/realtime", True),
        ("/v1/realtime/calls", True),
        ("/v1/realtime/client_secrets", False),
        ("/v1/realtime/transcription_sessions", False),
        ("/v1/audio/transcriptions", False),
        ("/v1/models", False),
    ],
)
def test_a_client_secret_opens_live_sessions_alone(
    keys: tuple[str, ...], path: str, opens: bool
) -> None:
    assert EK
    for asked in (
        scope(path, authorization=f"Bearer {EK.value}"),
        scope(path, offered=("realtime", CARRIER + EK.value), origin="https://shop.example"),
    ):
        found = door(*keys).check(asked)
        assert (found.refusal is None) == opens
        assert found.session == ({"type": "transcription"} if opens else None)
        assert found.who == ("secret" if opens else "nobody")


@pytest.mark.parametrize("keys", [(), KEYS])
def test_a_secret_that_is_not_ours_opens_nothing(keys: tuple[str, ...]) -> None:
    others = Secrets(b"1" * 32, lambda: 1000.0).make({}, 600)
    late = Secrets(b"0" * 32, lambda: 0.0).make({}, 600)
    assert others
    assert late
    for value in (others.value, late.value, "ek_", "ek_abc", "ek_ü"):
        found = door(*keys).check(scope("/v1/realtime", authorization=f"Bearer {value}"))
        assert found.refusal
        assert found.refusal.code == "invalid_api_key"


# -- pages of browsers ---------------------------------------------------------------------------

PAGES = [
    ("http://localhost", True),
    ("http://localhost:5173", True),
    ("https://app.localhost:8443", True),
    ("http://127.0.0.1:8000", True),
    ("http://127.9.9.9", True),
    ("http://[::1]:3000", True),
    ("https://evil.example", False),
    ("http://localhost.evil.example", False),
    ("http://127.0.0.1.evil.example", False),
    ("http://evil.example#localhost", False),
    ("http://localhost@evil.example", False),
    ("null", False),
    ("", False),
    ("file://localhost", False),
    ("http://[::1", False),
]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(("origin", "may"), PAGES)
def test_without_keys_only_pages_of_this_machine_may_ask(kind: str, origin: str, may: bool) -> None:
    asked = scope("/v1/realtime", kind=kind, origin=origin, host="localhost:8000")
    found = door().check(asked)
    assert (found.refusal is None) == may
    if found.refusal:
        assert (found.refusal.status, found.refusal.code) == (403, "origin_not_allowed")
        assert "--cors-origin" in found.refusal.message
        assert "with a key" not in found.refusal.message  # it would be no way for a page
    assert door("k").check(scope(origin=origin, authorization="Bearer k")).refusal is None


def test_what_is_no_browser_may_ask() -> None:
    assert door().check(scope()).who == "anyone"
    assert door().check(scope(authorization="Bearer whatever")).who == "anyone"


@pytest.mark.parametrize(
    ("origins", "origin", "may"),
    [
        (("https://shop.example",), "https://shop.example", True),
        (("https://shop.example/",), "https://SHOP.example", True),
        (("https://shop.example",), "http://shop.example", False),
        (("https://shop.example",), "https://shop.example:8443", False),
        (("https://shop.example",), "https://a.shop.example", False),
        (("*",), "https://anything.example", True),
        (("null",), "null", True),
        (("file://",), "file://", True),
        (("file://",), "null", False),
        (("capacitor://localhost",), "capacitor://localhost", True),
    ],
)
def test_origins_that_are_named_may_ask(origins: tuple[str, ...], origin: str, may: bool) -> None:
    assert (door(origins=origins).check(scope(origin=origin)).refusal is None) == may


@pytest.mark.parametrize(
    ("page", "host", "may"),
    [
        ("http://192.168.1.5:8000", "192.168.1.5:8000", True),
        ("https://[2001:db8::5]:8000", "[2001:db8::5]:8000", True),
        ("http://box.local:8000", "box.local:8000", True),
        ("http://BOX:8000", "box:8000", True),
        ("http://192.168.1.6:8000", "192.168.1.5:8000", False),
        ("http://192.168.1.5:8001", "192.168.1.5:8000", False),
        # a name that somebody has pointed at this machine
        ("http://rebound.example:8000", "rebound.example:8000", False),
    ],
)
def test_the_servers_own_pages_may_ask(page: str, host: str, may: bool) -> None:
    assert (door().check(scope(origin=page, host=host)).refusal is None) == may


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_name_that_is_not_known_is_told_with_the_option(kind: str) -> None:
    """Programs in containers call a server by such names; they are no pages."""
    found = door().check(scope(kind=kind, host="whisper:8000")).refusal
    assert found
    assert (found.status, found.code) == (403, "host_not_allowed")
    assert "'whisper:8000'" in found.message
    assert "--allow-host whisper," in found.message
    assert door("k").check(scope(host="whisper:8000", authorization="Bearer k")).refusal is None
    named = Door((), SECRETS, hosts=("Whisper",)).check(scope(host="whisper:8000"))
    assert named.refusal is None
    odd = door().check(scope(host="\x1b]0;x" + "y" * 500)).refusal
    assert odd
    assert odd.message.isprintable()
    assert len(odd.message) < 500


def test_other_sites_may_not_even_ask() -> None:
    """What they can have requested without being a page that may: pictures, forms, scripts."""
    crossing: Any = {"host": "localhost:8000", "sec_fetch_site": "cross-site"}
    refusal = door().check(scope("/v1/captions", **crossing)).refusal
    assert refusal
    assert (refusal.status, refusal.code) == (403, "origin_not_allowed")
    for site in ("same-origin", "same-site", "none"):
        asked = scope(host="localhost:8000", sec_fetch_site=site)
        assert door().check(asked).refusal is None
    allowed = scope(origin="https://shop.example", **crossing)
    assert door(origins=("https://shop.example",)).check(allowed).refusal is None
    assert door("k").check(scope(authorization="Bearer k", **crossing)).refusal is None


FORWARDED = [
    ({"x_forwarded_for": "203.0.113.9"}, False),
    ({"x_forwarded_for": "127.0.0.1, 203.0.113.9"}, False),
    ({"x_forwarded_for": ""}, False),
    ({"forwarded": "for=203.0.113.9;proto=https"}, False),
    ({"forwarded": 'for="[2001:db8::1]:4711"'}, False),
    ({"forwarded": "proto=https"}, False),
    ({"x_forwarded_for": "127.0.0.1"}, True),
    ({"x_forwarded_for": "::1, 127.0.0.1"}, True),
    ({"forwarded": "for=127.0.0.1"}, True),
    ({}, True),
]


@pytest.mark.parametrize(("headers", "local"), FORWARDED)
def test_without_a_key_nothing_comes_through_a_proxy(
    headers: Any, local: bool, caplog: pytest.LogCaptureFixture
) -> None:
    asked = scope(host="localhost:8000", **headers)
    opened = door()
    for _ in range(3):
        refusal = opened.check(asked).refusal
        assert (refusal is None) == local
        assert local or (refusal and refusal.code == "proxy_not_trusted")
        assert opened.is_local(asked) == local
    assert caplog.text.count("--trust-proxy") == bool(headers)
    trusting = Door((), SECRETS, trusts_proxy=True)
    assert trusting.check(asked).refusal is None
    with_key = scope(authorization="Bearer k", **headers)
    assert door("k").check(with_key).refusal is None


@pytest.mark.parametrize(
    ("client", "local"), [("127.0.0.1", True), ("::1", True), ("10.0.0.5", False)]
)
def test_who_is_on_this_machine(client: str, local: bool) -> None:
    assert door().is_local(scope(client=client)) == local
    assert not door().is_local({**scope(), "client": None})


def test_who_tries_keys_is_not_listened_to_for_a_while() -> None:
    now = [0.0]
    shut = Door(KEYS, SECRETS, now=lambda: now[0])

    def tried(key: str, client: str = "10.0.0.5") -> int:
        refusal = shut.check(scope(client=client, authorization=f"Bearer {key}")).refusal
        return refusal.status if refusal else 200

    assert [tried("old") for _ in range(100)] == [401] * 100, "one wrong key locks nobody out"
    assert [tried(f"guess {n}") for n in range(MOST)] == [401] * (MOST - 1) + [429]
    refusal = shut.check(scope(client="10.0.0.5", authorization="Bearer sk-one")).refusal
    assert refusal
    assert (refusal.status, refusal.code) == (429, "too_many_wrong_keys")
    assert 0 < int(refusal.headers["Retry-After"]) <= FOR + 1
    assert tried("sk-one", "10.0.0.6") == 200
    for number in range(3 * MOST):  # a page in a browser here could do that
        assert tried(f"guess {number}", "127.0.0.1") == 401
    assert tried("sk-one", "127.0.0.1") == 200
    assert shut.delay(scope(client="127.0.0.1")) > 0.1, "but it takes its time"
    assert shut.delay(scope(client="10.0.0.6")) == 0.0
    now[0] = FOR + 1
    assert tried("sk-one") == 200
    assert tried("guess") == 401


def test_few_of_those_who_try_keys_are_remembered() -> None:
    shut = Door(KEYS, SECRETS, now=lambda: 0.0)
    for number in range(PARTIES + 10):
        client = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        shut.check(scope(client=client, authorization="Bearer wrong"))
    assert len(shut._guesses._tries) == PARTIES
