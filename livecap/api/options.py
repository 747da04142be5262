"""The options of `livecap serve`, checked once. Fields are flags, their texts the help."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from livecap.api.ice_servers import IceServer, ice_server
from livecap.errors import ConfigError
from livecap.output.push.options import PushOptions

SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
KEYS = "LIVECAP_API_KEY"  # of the environment: keys with commas between
LEAST = 16  # characters of a key, where other machines can try some
SECRET = "ek_"  # what client secrets begin with (OpenAI's ephemeral keys)

DAYS = 90  # for which history is kept, unless that is said

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "text", "json"]


def _check(ok: bool, option: str, value: object, remedy: str) -> None:
    if not ok:
        raise ConfigError(f"{option} can't be {value}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class ServeConfig(PushOptions):
    """How the server is reached, by whom, how much it takes on, and where captions go."""

    model: tuple[str, ...] = ("auto",)
    """A name that `livecap models` lists, a hub id or a folder; auto: the best on this machine.
    Again for more: the first is loaded at once and serves those who name none, the others when they
    are first asked for."""
    alias: tuple[str, ...] = ()
    """A further name for a model, as in whisper-1=small. OpenAI's names mean the first model."""
    list_aliases: bool = False
    """List those names among the models, too."""
    pull: bool = False
    """Fetch models first that are not on this machine."""

    host: str = "localhost"
    """The address to listen on (localhost: 127.0.0.1 and ::1); 0.0.0.0 or :: for every one, which
    needs a key."""
    port: int = 8000
    """0: any that is free."""
    api_key: tuple[str, ...] = field(default=(), repr=False)
    """What clients have to name; again for more. LIVECAP_API_KEY, with commas between keys, keeps
    them out of the list of processes."""
    insecure: bool = False
    """Listen to more than this machine although no key is asked for."""
    metrics_key: str = field(default="", repr=False)
    """What /metrics asks for instead of nothing (LIVECAP_METRICS_KEY)."""
    query_key: bool = False
    """Take keys from the URL too (?api_key=): they end up in the logs of whatever is between."""
    tls: str = ""
    """auto: with a certificate of its own. Or two files of PEM: certificate,key."""
    cors_origin: tuple[str, ...] = ()
    """A web page's origin that may use this server, as in https://example.org; again for more, or *
    for all. Pages of this machine may always."""

    allow_host: tuple[str, ...] = ()
    """A name by which this machine is reached, as in whisper or captions.example.org; again for
    more. Without a key, others are refused: a stranger's page could use them. Its own name, and
    addresses, are known."""
    trust_proxy: tuple[str, ...] = ()
    """The address of a proxy that says whom it speaks for (X-Forwarded-For), or a network, as in
    10.0.0.0/8; again for more. It needs a key."""

    ice_server: tuple[str, ...] = field(default=(), repr=False)
    """Helps WebRTC through networks that are in the way, as in stun:host:port or
    turn:user:password@host:port; again for more. Without it, nobody else's server is asked."""

    history: str = ""
    """A file of SQLite in which the captions of live sessions are kept, so that they can be read,
    searched and shared when the server has been started again. Without it, they are forgotten 10
    minutes after a session's end."""
    history_days: int = DAYS
    """Days for which they are kept there after that; 0: for ever."""

    max_sessions: int = 0
    """Live sessions at once; 0: as many as the machine bears, by what those that run take."""
    max_connections: int = 1000
    """Connections at once, whatever they are for; 0: any number. Half of them may be waiting for
    their request."""
    max_per_address: int = 400
    """The same, from one address."""
    max_readers: int = 300
    """Who read one session's captions along, and who do so from one address; 0: any number."""
    max_uploads: int = 32
    """Files under way at once."""
    max_upload: str = "512M"
    """The largest file that is taken."""
    max_duration: int = 14_400
    """Seconds: the longest recording that is taken; 0: any."""
    session_length: int = 3600
    """Seconds after which a live session is ended; 0: never."""
    idle_timeout: int = 300
    """Seconds without a message after which a live session is ended; 0: never."""
    min_commit_ms: int = 100
    """Milliseconds of audio that a commit needs; 0: any at all."""
    strict: bool = False
    """Refuse session fields that are not known, instead of naming them as ignored."""
    grace: int = 20
    """Seconds that a stop waits, at most, for what is still being captioned."""
    log_level: LogLevel = "info"
    """info: a line for each request. Audio, text and keys are never logged."""
    log_format: LogFormat = "auto"
    """text: lines for people. json: an object a line. auto: text on a terminal, else json."""

    def __post_init__(self) -> None:
        PushOptions.__post_init__(self)  # super() knows no class with slots
        _check(bool(self.model), "--model", "empty", "Name one, or leave it out.")
        _check(0 <= self.port < 65_536, "--port", self.port, "Use 0 to 65535.")
        for name, value, limit in (
            ("--max-sessions", self.max_sessions, 100_000),
            ("--max-connections", self.max_connections, 1_000_000),
            ("--max-per-address", self.max_per_address, 1_000_000),
            ("--max-readers", self.max_readers, 1_000_000),
            ("--max-duration", self.max_duration, 1_000_000),
            ("--session-length", self.session_length, 10_000_000),
            ("--idle-timeout", self.idle_timeout, 1_000_000),
            ("--min-commit-ms", self.min_commit_ms, 60_000),
            ("--grace", self.grace, 3600),
            ("--history-days", self.history_days, 36_500),
        ):
            _check(0 <= value <= limit, name, value, f"Use 0 to {limit}.")
        if self.history_days != DAYS and not self.history:
            raise ConfigError("--history-days is given without --history", remedy="Add --history.")
        _check(0 < self.max_uploads <= 10_000, "--max-uploads", self.max_uploads, "Use 1 to 10000.")
        if self.metrics_key:
            check_key(self.metrics_key, "--metrics-key")
        for key in self.api_key:
            check_key(key, "--api-key")
        for name in self.allow_host:
            remedy = "Write a name alone, as in whisper."
            _check(bool(HOST.fullmatch(name)), "--allow-host", repr(name), remedy)
        for proxy in self.trust_proxy:
            remedy = "Write an address or a network, as in 127.0.0.1."
            _check(_is_network(proxy), "--trust-proxy", repr(proxy), remedy)
        for entry in self.alias:
            name, _, target = entry.partition("=")
            _check(bool(name and target), "--alias", repr(entry), "Write it as in whisper-1=small.")
        for origin in self.cors_origin:
            _check(_is_origin(origin), "--cors-origin", origin, "Write https://host:port, no path.")
        _check(self.upload_limit > 0, "--max-upload", self.max_upload, "Use a size as in 512M.")
        _check(len(self.ice_servers) <= 8, "--ice-server", "named more than 8 times", "Name fewer.")

    @property
    def ice_servers(self) -> tuple[IceServer, ...]:
        """STUN and TURN servers, as peers are told of them."""
        return tuple(ice_server(text) for text in self.ice_server)

    @property
    def upload_limit(self) -> int:
        """Bytes of the largest file that is taken."""
        found = SIZE.fullmatch(self.max_upload.strip())
        remedy = "Use a number of bytes, or a size as in 512M or 2G."
        if found is None:
            raise ConfigError(f"--max-upload can't be {self.max_upload!r}", remedy=remedy)
        return int(found[1]) * UNITS[found[2].lower()]

    @property
    def aliases(self) -> dict[str, str]:
        """The further names for models, and what they mean."""
        return dict(entry.split("=", 1) for entry in self.alias)


def keys_of(config: ServeConfig, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The keys that open the server: those of the options, else those of the environment."""
    if config.api_key:
        return config.api_key
    named = (key.strip() for key in environment.get(KEYS, "").split(","))
    keys = tuple(key for key in named if key)
    for key in keys:
        check_key(key, KEYS)
    return keys


def check_key(key: str, option: str) -> None:
    """Refuse a key that no client could send. It isn't repeated in the message."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"{option}: a key is empty, or has blanks or characters outside ASCII",
            remedy="Use letters, digits, - and _.",
        )
    if key.startswith(SECRET):
        raise ConfigError(
            f"{option}: a key begins with {SECRET}, as the server's client secrets do",
            remedy="Choose another one.",
        )


def refuse_exposed(config: ServeConfig, keys: tuple[str, ...]) -> None:
    """Refuse to serve other machines without a key, unless that was asked for by name."""
    if not is_loopback(config.host):
        _check_strength(keys)
    if keys or config.insecure:
        return
    wide = [origin for origin in config.cors_origin if origin in ("*", "null")]
    if wide:
        raise ConfigError(
            f"--cors-origin {wide[0]} would let any page that a browser here opens use this server",
            remedy=f"Name origins; or set {KEYS} or --api-key; or add --insecure if it is wanted.",
        )
    if config.trust_proxy:
        raise ConfigError(
            "--trust-proxy would let everybody who reaches the proxy use this server without a key",
            remedy=f"Set {KEYS} or --api-key; or add --insecure if that is wanted.",
        )
    if is_loopback(config.host):
        return
    raise ConfigError(
        f"--host {config.host} would let every machine of the network use this one without a key",
        remedy=f"Set {KEYS} or --api-key; or add --insecure if that is wanted.",
    )


def _check_strength(keys: tuple[str, ...]) -> None:
    """Refuse keys that other machines could guess."""
    if any(len(key) < LEAST for key in keys):
        raise ConfigError(
            f"A key of fewer than {LEAST} characters can be guessed by those who reach this server",
            remedy="Make one: python -c 'import secrets; print(secrets.token_urlsafe())'",
        )


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine as only its own programs reach it."""
    named = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    if named == "localhost" or named.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(named).is_loopback
    except ValueError:
        return False


def _is_origin(origin: str) -> bool:
    if origin in ("*", "null"):
        return True
    if origin == "file://":  # of packaged applications
        return True
    return re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s?#]+", origin) is not None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
