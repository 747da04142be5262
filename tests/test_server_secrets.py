"""Client secrets: signed, short-lived, and readable by nobody who has changed them."""

import base64
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_parts import application

from livecap.api.access.client_secrets import LARGEST, Secret, Secrets, kept_key

KEY = b"k" * 32
SESSION = {"type": "transcription", "audio": {"input": {"transcription": {"prompt": "Ada, 界"}}}}
TOKEN = set(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")  # RFC 9110


class Clock:
    """Time that only goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def made(seconds: int = 600, clock: Clock | None = None) -> tuple[Secrets, Secret]:
    secrets = Secrets(KEY, clock or Clock())
    secret = secrets.make(SESSION, seconds)
    assert secret
    return secrets, secret


def test_a_secret_carries_its_configuration() -> None:
    secrets, secret = made()
    found = secrets.read(secret.value)
    assert found == secret
    assert found.session == SESSION
    assert found.expires == 1_000_600


def test_it_can_be_a_subprotocol() -> None:
    _, secret = made()
    assert secret.value.startswith("ek_")
    assert set(secret.value) <= TOKEN


def test_two_are_never_the_same() -> None:
    secrets, secret = made()
    again = secrets.make(SESSION, 600)
    assert again
    assert again.value != secret.value


@pytest.mark.parametrize("seconds", [10, 600, 7200])
def test_it_opens_until_it_expires(seconds: int) -> None:
    clock = Clock()
    secrets, secret = made(seconds, clock)
    clock.now += seconds - 0.1
    assert secrets.read(secret.value)
    assert secrets.read(secret.value), "any number of sessions"
    clock.now += 0.1
    assert secrets.read(secret.value) is None


def test_no_letter_of_it_can_be_changed() -> None:
    secrets, secret = made()
    value = secret.value
    for place in range(len(value)):
        other = "A" if value[place] != "A" else "B"
        assert secrets.read(value[:place] + other + value[place + 1 :]) is None
        assert secrets.read(value[:place] + value[place + 1 :]) is None
    for other in (value + "A", value + "=", value + " ", value * 2, value.upper(), value[3:]):
        assert secrets.read(other) is None


def test_another_key_does_not_read_it() -> None:
    _, secret = made()
    assert Secrets(b"x" * 32, Clock()).read(secret.value) is None


@given(st.text(max_size=300))
def test_anything_at_all_is_no_secret(text: str) -> None:
    secrets = Secrets(KEY, Clock())
    assert secrets.read(text) is None
    assert secrets.read("ek_" + text) is None


@given(st.binary(max_size=300))
def test_bytes_at_random_are_no_secret(data: bytes) -> None:
    text = base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    assert Secrets(KEY, Clock()).read("ek_" + text) is None


def test_what_would_not_fit_into_a_request_is_not_made() -> None:
    secrets = Secrets(KEY, Clock())
    letters = "".join(chr(0x4E00 + 7919 * n % 20_000) for n in range(4000))
    assert secrets.make({"prompt": letters}, 600) is None
    assert secrets.read("ek_" + "A" * LARGEST) is None


def test_secrets_outlive_a_restart(tmp_path: Path) -> None:
    """And have nothing to do with the keys, which could be tried out on them otherwise."""
    file = tmp_path / "state" / "signing.key"
    before = Secrets(kept_key(file), Clock()).make(SESSION, 600)
    assert before
    assert Secrets(kept_key(file), Clock()).read(before.value)
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]
    file.write_bytes(b"half")
    assert Secrets(kept_key(file), Clock()).read(before.value) is None
    assert kept_key(file) == kept_key(file) != kept_key(tmp_path / "other")


def test_a_server_signs_by_chance() -> None:
    """Two of them with the same keys don't sign alike, unless they keep one for both."""
    first, second = (application(keys=("k",))[0].secrets for _ in range(2))
    made = first.make(SESSION, 600)
    assert made
    assert first.read(made.value)
    assert second.read(made.value) is None
