"""Who may come in: keys in all their carriers, client secrets, and the pages of browsers."""

import pytest
from starlette.types import Scope

from livecap.frontends.server.auth import CARRIER, Door
from livecap.frontends.server.secrets import Secrets

KEYS = ("sk-one", "sk-two")
SECRETS = Secrets(b"0" * 32, lambda: 1000.0)
EK = SECRETS.make({"type": "transcription"}, 600)
assert EK


def scope(
    path: str = "/v1/models",
    *,
    kind: str = "http",
    query: str = "",
    offered: tuple[str, ...] = (),
    **headers: str,
) -> Scope:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": kind,
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
