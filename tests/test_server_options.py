"""The options: what they refuse, where they come from, and which of them counts most."""

import dataclasses
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from livecap import cli, cli_serve
from livecap.api.options import (
    ServeConfig,
    is_loopback,
    keys_of,
    refuse_exposed,
)
from livecap.config import LiveOptions, ModelConfig
from livecap.errors import ConfigError

Seen = list[tuple[ServeConfig, LiveOptions, ModelConfig]]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seen:
    """What the command would run with."""
    found: Seen = []

    def run(config: ServeConfig, live: LiveOptions, run: ModelConfig) -> int:
        found.append((config, live, run))
        return 0

    running = ModuleType("livecap.api.server.serve")
    running.__dict__["run_serve"] = run
    monkeypatch.setitem(sys.modules, running.__name__, running)
    monkeypatch.delenv("LIVECAP_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    return found


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(["serve", *words])
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"port": 65_536}, "--port"),
        ({"port": -1}, "--port"),
        ({"max_sessions": -1}, "--max-sessions"),
        ({"max_uploads": 0}, "--max-uploads"),
        ({"max_upload": "big"}, "--max-upload"),
        ({"max_upload": "0"}, "--max-upload"),
        ({"max_upload": "-5M"}, "--max-upload"),
        ({"max_duration": -1}, "--max-duration"),
        ({"session_length": -1}, "--session-length"),
        ({"idle_timeout": -1}, "--idle-timeout"),
        ({"min_commit_ms": -1}, "--min-commit-ms"),
        ({"grace": -1}, "--grace"),
        ({"history_days": 3}, "--history-days is given without --history"),
        ({"model": ()}, "--model"),
        ({"alias": ("whisper-1",)}, "--alias"),
        ({"alias": ("=small",)}, "--alias"),
        ({"cors_origin": ("shop.example",)}, "--cors-origin"),
        ({"cors_origin": ("https://shop.example/page",)}, "--cors-origin"),
        ({"api_key": ("",)}, "--api-key"),
        ({"api_key": ("two words",)}, "--api-key"),
        ({"api_key": ("ek_mine",)}, "--api-key"),
        ({"api_key": ("schlüssel",)}, "--api-key"),
    ],
)
def test_what_can_not_work_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ServeConfig(**options)
    assert str(refused.value).startswith(told)
    for key in options.get("api_key", ()):
        assert not key or key not in str(refused.value)


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("512M", 512 << 20),
        ("512m", 512 << 20),
        ("2G", 2 << 30),
        ("1500", 1500),
        ("64 KiB", 64 << 10),
        ("3MB", 3 << 20),
    ],
)
def test_sizes(size: str, count: int) -> None:
    assert ServeConfig(max_upload=size).upload_limit == count


def test_keys_are_not_shown_with_the_options() -> None:
    assert "sk-private" not in repr(ServeConfig(api_key=("sk-private",)))


def test_keys_of_options_and_environment() -> None:
    environment = {"LIVECAP_API_KEY": "a, b,,c "}
    assert keys_of(ServeConfig(), {}) == ()
    assert keys_of(ServeConfig(), environment) == ("a", "b", "c")
    assert keys_of(ServeConfig(api_key=("x", "y")), environment) == ("x", "y")
    with pytest.raises(ConfigError, match="LIVECAP_API_KEY"):
        keys_of(ServeConfig(), {"LIVECAP_API_KEY": "ek_x"})


LOOPS = ["127.0.0.1", "127.8.8.8", "localhost", "LocalHost.", "::1", "[::1]", "a.localhost"]
WIDE = ["0.0.0.0", "::", "", "192.168.1.5", "example.org", "localhost.example.org", "127.0.0.1.nip"]


@pytest.mark.parametrize(
    ("host", "loops"), [*((h, True) for h in LOOPS), *((h, False) for h in WIDE)]
)
def test_other_machines_need_a_key(host: str, loops: bool) -> None:
    assert is_loopback(host) == loops
    config = ServeConfig(host=host)
    refuse_exposed(config, ("k" * 16,))
    refuse_exposed(ServeConfig(host=host, insecure=True), ())
    if loops:
        refuse_exposed(config, ())
    else:
        with pytest.raises(ConfigError, match=r"LIVECAP_API_KEY.*--insecure"):
            refuse_exposed(config, ())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5"])
def test_keys_that_others_may_try_are_long(host: str) -> None:
    config = ServeConfig(host=host)
    for keys in (("a",), ("k" * 16, "k" * 15)):
        with pytest.raises(ConfigError, match=r"fewer than 16 characters.*token_urlsafe"):
            refuse_exposed(config, keys)
    refuse_exposed(ServeConfig(), ("a",))


@pytest.mark.parametrize(
    "config",
    [
        ServeConfig(cors_origin=("https://a.example", "*")),
        ServeConfig(cors_origin=("null",)),
        ServeConfig(trust_proxy=("127.0.0.1",)),
    ],
)
def test_what_opens_a_server_to_others_needs_a_key(config: ServeConfig) -> None:
    with pytest.raises(ConfigError, match="--insecure"):
        refuse_exposed(config, ())
    refuse_exposed(config, ("k",))
    refuse_exposed(dataclasses.replace(config, insecure=True), ())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("allow_host", "http://whisper"),
        ("allow_host", "a b"),
        ("allow_host", ""),
        ("trust_proxy", "nginx"),
        ("trust_proxy", "10.0.0.0/40"),
        ("cors_origin", "file:"),
        ("cors_origin", "file:///a"),
    ],
)
def test_names_of_others_are_checked(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match="--" + option.replace("_", "-")):
        ServeConfig(**{option: (value,)})  # type: ignore[arg-type]  # one of several


def test_packaged_applications_have_an_origin() -> None:
    for origin in ("file://", "capacitor://localhost", "app://obsidian.md"):
        assert ServeConfig(cors_origin=(origin,)).cors_origin == (origin,)


def test_flags(seen: Seen) -> None:
    words = "--model a --model b --api-key k --api-key l --update 2 --threads 1 --compute cpu"
    assert command(*words.split(), "--tls", "auto", "--strict", "--precision", "int8") == 0
    ((config, live, run),) = seen
    assert (config.model, config.api_key, config.tls) == (("a", "b"), ("k", "l"), "auto")
    assert config.strict
    assert live == LiveOptions(update=2.0)
    assert run == ModelConfig(device="cpu", threads=1, precision="int8")


def test_defaults(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command() == 0
    assert seen == [(ServeConfig(), LiveOptions(), ModelConfig())]
    monkeypatch.setenv("LIVECAP_MODEL", "small")
    assert command() == 0
    assert seen[1][0].model == ("small",)


FILE = """
host = "0.0.0.0"
port = 9000
api-key = ["k", "l"]
model = ["small", "tiny.en"]
max_sessions = 5
max-upload = "2G"
strict = true
update = 2.5
compute = "cpu"
cors-origin = "https://shop.example"
"""


def test_a_file_gives_what_is_not_typed(seen: Seen) -> None:
    Path("livecap.toml").write_text(FILE, "utf-8")
    assert (
        command("--config", "livecap.toml", "--port", "1", "--api-key", "z", "--update", "3") == 0
    )
    ((config, live, run),) = seen
    assert config == ServeConfig(
        host="0.0.0.0",
        port=1,
        api_key=("z",),
        model=("small", "tiny.en"),
        max_sessions=5,
        max_upload="2G",
        strict=True,
        cors_origin=("https://shop.example",),
    )
    assert (live, run) == (LiveOptions(update=3.0), ModelConfig(device="cpu"))


def test_all_options_can_stand_in_a_file(seen: Seen) -> None:
    """Under the names of the flags, which are those of the fields."""
    fields = [*dataclasses.fields(ServeConfig), *dataclasses.fields(LiveOptions)]
    lines = []
    for field in fields:
        value = field.default
        shown = "[]" if value == () else str(value).lower() if isinstance(value, bool) else None
        if field.name == "model":
            shown = '["auto"]'
        shown = shown or (f'"{value}"' if isinstance(value, str) else str(value))
        if shown != "[]":
            lines.append(f"{field.name.replace('_', '-')} = {shown}")
    Path("all.toml").write_text("\n".join(lines), "utf-8")
    assert command("--config", "all.toml") == 0
    assert seen == [(ServeConfig(), LiveOptions(), ModelConfig())]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hots = 3", "options that are not known: hots. Known are: alias, allow-host, api-key, "),
        ("[server]\nhost = 'x'", "not known: server"),
        ("config = 'other.toml'", "not known: config"),
        ("port = ", "is no TOML"),
        ("port = 'x'", 'unable to convert "x" into int'),
        ("port = 70000", "--port can't be 70000"),
        ("api-key = 'two words'", "--api-key: a key is empty, or has blanks"),
        ("obs-password = 7", "--obs-password has to be text in the file of --config"),
        ("history = 5", "--history has to be text"),
        ("webhook = 'https://a.example'\nyoutube = true", "--youtube has to be text"),
        ("api-key = ['k', 7]", "--api-key has to be text"),
        ("model = 1.5", "--model has to be text"),
        ("history-days = 3", "--history-days is given without --history"),
        ("update = 99", "--update can't be 99"),
    ],
)
def test_a_file_that_can_not_work_is_refused(
    seen: Seen, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    Path("livecap.toml").write_text(text, "utf-8")
    assert command("--config", "livecap.toml") == 2
    assert told in capsys.readouterr().err
    assert not seen


def test_a_file_that_can_not_be_read_is_refused(
    seen: Seen, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("latin.toml").write_bytes(b"host = '\xff'")
    for name, told in (("nowhere.toml", "can't be read"), ("latin.toml", "is no TOML")):
        assert command("--config", name) == 2
        assert told in capsys.readouterr().err
    assert not seen


def test_without_its_packages_the_server_says_how_to_get_them() -> None:
    with pytest.raises(ConfigError) as refused:
        cli_serve.require(("starlette", "nothing_of_that_name"))
    assert "nothing_of_that_name" in str(refused.value)
    assert "pip install 'livecap[serve]'" in str(refused.value)


def test_they_are_those_of_the_extra() -> None:
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8")
    extra = tomllib.loads(text)["project"]["optional-dependencies"]["serve"]
    named = {line.split(">=")[0].replace("-", "_") for line in extra}
    assert named - {"segno"} == set(cli_serve.PACKAGES), "without segno links have no code to scan"
