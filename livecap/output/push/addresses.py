"""Where lines are sent, and what signs them: checked, and shown without their secrets."""

import base64
import binascii
from urllib.parse import SplitResult, urlsplit

from livecap.errors import ConfigError

PREFIX = "whsec_"  # what secrets of webhooks may begin with
LEAST = 16  # bytes of one


def check(url: str, option: str, *schemes: str, remedy: str) -> None:
    """Refuse a URL to which nothing can be sent, without repeating it: it may be a secret."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")  # as sockets do; not every word can be a host's name
    except ValueError:  # UnicodeError among them
        is_good = False
    if not is_good or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{option} is no address of {' or '.join(schemes)}", remedy=remedy)
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{option} has a user before the host, who is not sent", remedy=remedy)


def shown_address(url: str) -> str:
    """A URL as it may be shown: its host alone, since paths and queries have tokens in them."""
    return urlsplit(url).netloc


def is_local(parts: SplitResult) -> bool:
    """Whether it is this machine."""
    host = parts.hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def secret_of(text: str, option: str) -> bytes:
    """A webhook's secret as it is written -> its bytes. Raises ConfigError without repeating it."""
    try:
        found = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        found = b""
    if len(found) < LEAST:
        raise ConfigError(
            f"{option} is no secret of {LEAST} bytes or more in base64",
            remedy=f"Make one with: openssl rand -base64 32. {PREFIX} may stand before it.",
        )
    return found
