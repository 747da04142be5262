"""Client secrets: short-lived keys for browsers, signed, so that nobody has to keep them.

Source: OpenAI's Realtime API, `POST /v1/realtime/client_secrets`: a value that begins with `ek_`,
an expiry, and the configuration that sessions opened with it begin with.
"""

import base64
import binascii
import hashlib
import hmac
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from livecap.api.options import SECRET

SHORTEST, USUAL, LONGEST = 10, 600, 7200  # seconds that a secret lasts
LARGEST = 6000  # characters: it has to fit into the head of a request
TAG = hashlib.sha256().digest_size  # bytes of the signature
KEY = 32  # bytes of the key that signs


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    """What a secret's value carries."""

    expires: int
    session: dict[str, object]
    nonce: bytes  # two secrets are never the same


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that was found to be one of ours and not to have expired."""

    value: str
    expires: int  # Unix seconds
    session: Mapping[str, object]  # the configuration to begin with


def kept_key(file: Path) -> bytes:
    """The key that secrets are signed with, made at random when there is none yet.

    It stays the same after a restart. It has nothing to do with API keys, which nobody can try out
    on a secret then. Raises OSError where it can be neither read nor written.
    """
    try:
        stored = file.read_bytes()
        if len(stored) == KEY:
            return stored
        file.unlink()  # it is none of ours, or was not written to its end
    except FileNotFoundError:
        pass
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(os.urandom(KEY))
    draft.replace(file)
    return file.read_bytes()  # of whoever came last, should two have been at it


class Secrets:
    """Makes secrets and reads them."""

    def __init__(self, key: bytes, now: Callable[[], float]) -> None:
        """`now`: Unix seconds."""
        self._key = key
        self._now = now

    def make(self, session: Mapping[str, object], seconds: int) -> Secret | None:
        """A configuration -> a secret that lasts so many seconds.

        None if it is too large, has numbers that are, or goes too deep.
        """
        assert SHORTEST <= seconds <= LONGEST
        expires = int(self._now()) + seconds
        payload = _Payload(expires, dict(session), os.urandom(8))
        try:
            packed = zlib.compress(msgspec.msgpack.encode(payload))
        except (OverflowError, RecursionError):
            return None
        value = SECRET + _text(self._sign(packed) + packed)
        return Secret(value, expires, session) if len(value) <= LARGEST else None

    def read(self, value: str) -> Secret | None:
        """A value -> the secret, if this server made it and it has not expired."""
        data = _bytes(value.removeprefix(SECRET)) if len(value) <= LARGEST else None
        if data is None or not value.startswith(SECRET) or len(data) <= TAG:
            return None
        tag, packed = data[:TAG], data[TAG:]
        if not hmac.compare_digest(tag, self._sign(packed)):
            return None
        # Only what was signed gets here, so it can be trusted to unpack to something small.
        payload = msgspec.msgpack.decode(zlib.decompress(packed), type=_Payload)
        if self._now() >= payload.expires:
            return None
        return Secret(value, payload.expires, payload.session)

    def proof(self, id: str) -> str:
        """What proves that a talk of that id was begun by whoever knows it."""
        return _text(self._sign(b"talk " + id.encode()))

    def _sign(self, packed: bytes) -> bytes:
        return hmac.digest(self._key, packed, "sha256")


def _text(data: bytes) -> str:
    """Bytes -> letters that a WebSocket's subprotocol may have, too."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes | None:
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        data = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    return data if _text(data) == text else None  # only one spelling of a secret is that secret
