"""`--server` and what goes with it; and the options that mean nothing where a server captions."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from livecap.api.options import is_loopback
from livecap.errors import ConfigError
from livecap.log import report

if TYPE_CHECKING:
    import ssl

KEY = "LIVECAP_SERVER_KEY"  # of the environment
SCHEMES = {"ws": False, "http": False, "wss": True, "https": True}  # whether over TLS
SHAPE = "Write it as in http://host:8000 or wss://host:8000."


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Which server captions, if not this machine. Fields are flags, their texts the help."""

    server: str = ""
    """Have it captioned by a server instead, as in ws://host:8000 or https://host:8000: `livecap
    serve`, or another that speaks OpenAI's API. --model names one of the server's then."""
    server_key: str = field(default="", repr=False)
    """The key that the server asks for. LIVECAP_SERVER_KEY keeps it out of the list of
    processes."""
    server_ca: str = ""
    """A file of PEM with certificates to trust besides those of this system."""


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """Where a server is, and what opens it."""

    url: SplitResult  # as it was typed
    key: str = field(default="", repr=False)
    secure: "ssl.SSLContext | None" = None

    @property
    def name(self) -> str:
        """For messages."""
        return self.url.netloc

    @property
    def realtime(self) -> str:
        """The URL of live sessions. Raw audio is asked for; who knows nothing of it goes on."""
        scheme = "wss" if self.secure else "ws"
        asked = self.url.query or "intent=transcription"
        return f"{scheme}://{self.url.netloc}{self.path('realtime')}?{asked}&audio=binary"

    def path(self, route: str) -> str:
        """The path of a route, as in audio/transcriptions."""
        base = self.url.path.rstrip("/").removesuffix("/realtime")
        return f"{base or '/v1'}/{route}"

    @property
    def headers(self) -> dict[str, str]:
        """What every request says."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


def server_of(
    options: ServerOptions, environment: Mapping[str, str] = os.environ
) -> RemoteServer | None:
    """The server that was named, if one was. Raises ConfigError for what can't be one."""
    if not options.server:
        for name, value in (
            ("--server-key", options.server_key),
            ("--server-ca", options.server_ca),
        ):
            if value:
                raise ConfigError(f"{name} is for a server", remedy="Name one with --server.")
        return None
    url = _url(options.server)
    key = options.server_key or environment.get(KEY, "")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(
            "--server-key has blanks or characters outside ASCII", remedy="Check what was pasted."
        )
    if key and not SCHEMES[url.scheme] and not is_loopback(url.hostname or ""):
        report(
            f"livecap: --server {url.scheme}:// sends the key in clear, for all between to read; "
            "use https or wss (livecap serve --tls auto)"
        )
    secure = _trusting(options.server_ca) if SCHEMES[url.scheme] else None
    if options.server_ca and secure is None:
        raise ConfigError(
            f"--server-ca is for TLS, and {url.scheme}:// has none", remedy="Use wss or https."
        )
    return RemoteServer(url, key, secure)


def refuse_local(given: Mapping[str, bool]) -> None:
    """Refuse options that only mean something where this machine computes: name -> whether given.

    Raises ConfigError for the first.
    """
    for name, is_given in given.items():
        if is_given:
            raise ConfigError(
                f"{name} has no effect on a server",
                remedy="Leave it out with --server, or set it where the server is started.",
            )


def _url(typed: str) -> SplitResult:
    try:
        url = urlsplit(typed.strip())
        host = (url.hostname or "").encode("idna")
        is_whole = url.scheme in SCHEMES and bool(host) and url.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or url.fragment:
        shown = typed if "@" not in typed else "that (it has an @)"
        raise ConfigError(f"--server can't be {shown}", remedy=SHAPE)
    if url.username is not None or url.password is not None:
        raise ConfigError("--server has a user's name in it", remedy=f"A key goes into {KEY}.")
    return url


def _trusting(file: str) -> "ssl.SSLContext":
    """The authorities of this system, and those in the file."""
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if file:
        try:
            context.load_verify_locations(os.path.expanduser(file))
        except OSError as error:  # of TLS, too
            raise ConfigError(
                f"--server-ca {file} can't be used ({error.strerror or error})",
                remedy="Name a file of PEM with the certificate of the server or of its authority.",
            ) from error
    return context
