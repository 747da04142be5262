"""Certificates: our own is made, kept and renewed; files of others are used or refused."""

import datetime
import ipaddress
import os
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from livecap.api.server.tls import (
    FILE,
    LASTS,
    MOST,
    PUBLIC,
    RENEWED,
    Names,
    context,
    folder,
    own_certificate,
    own_names,
)
from livecap.errors import ConfigError

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
NAMES = Names(("localhost", "box", "box.local"), ("127.0.0.1", "192.168.7.5", "::1", "2001:db8::5"))


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def handshake(server: ssl.SSLContext, trusted: Path, name: str) -> None:
    """Both sides of TLS in memory, the client as strict as Python's can be."""
    client = ssl.create_default_context(cafile=trusted)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    pipes = [ssl.MemoryBIO() for _ in range(2)]
    sides = [
        client.wrap_bio(pipes[0], pipes[1], server_hostname=name),
        server.wrap_bio(pipes[1], pipes[0], server_side=True),
    ]
    waiting = set(sides)
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.discard(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting


def test_the_certificate_names_this_machine(tmp_path: Path) -> None:
    file = own_certificate(tmp_path / "tls", NAMES, NOW)
    made = context("auto", tmp_path / "tls", NAMES, NOW)
    for name in (*NAMES.hosts, *NAMES.addresses):
        handshake(made, file.with_name(PUBLIC), name)
    for name in ("example.org", "192.168.7.6"):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(made, file.with_name(PUBLIC), name)


def test_nobody_else_can_read_the_key(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = own_certificate(tmp_path / "a" / "tls", NAMES, NOW)
    finally:
        os.umask(before)
    assert mode(file) == 0o600
    assert mode(file.parent) == 0o700
    assert b"PRIVATE" in file.read_bytes()
    assert b"PRIVATE" not in file.with_name(PUBLIC).read_bytes()
    assert sorted(path.name for path in file.parent.iterdir()) == [PUBLIC, FILE]
    file.chmod(0o644)
    own_certificate(file.parent, NAMES, NOW)
    assert mode(file) == 0o600


def test_it_is_kept_until_it_is_about_to_end(tmp_path: Path) -> None:
    data = own_certificate(tmp_path, NAMES, NOW).read_bytes()
    for later in (DAY, LASTS - RENEWED - 2 * DAY):
        assert own_certificate(tmp_path, NAMES, NOW + later).read_bytes() == data
    late = NOW + LASTS - RENEWED
    renewed = own_certificate(tmp_path, NAMES, late).read_bytes()
    assert renewed != data
    certificate = x509.load_pem_x509_certificate(renewed)
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc <= 398 * DAY
    assert own_certificate(tmp_path, NAMES, NOW + LASTS).read_bytes() == renewed


def test_it_is_renewed_for_a_new_name(tmp_path: Path) -> None:
    data = own_certificate(tmp_path, NAMES, NOW).read_bytes()
    fewer = Names(NAMES.hosts[:1], NAMES.addresses[:1])
    assert own_certificate(tmp_path, fewer, NOW).read_bytes() == data
    moved = Names(NAMES.hosts, (*NAMES.addresses, "10.1.2.3"))
    renewed = own_certificate(tmp_path, moved, NOW)
    assert renewed.read_bytes() != data
    for name in ("10.1.2.3", "192.168.7.5"):
        handshake(context("auto", tmp_path, moved, NOW), tmp_path / PUBLIC, name)
    data = renewed.read_bytes()
    elsewhere = Names(("localhost",), ("10.1.2.3",))
    for back in (NAMES, elsewhere):
        assert own_certificate(tmp_path, back, NOW).read_bytes() == data


def test_names_do_not_pile_up(tmp_path: Path) -> None:
    for n in range(MOST + 5):
        moved = Names(("localhost",), ("127.0.0.1", f"10.0.0.{n}"))
        made = context("auto", tmp_path, moved, NOW)
    certificate = x509.load_pem_x509_certificate((tmp_path / PUBLIC).read_bytes())
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(list(named)) == MOST + 1
    handshake(made, tmp_path / PUBLIC, f"10.0.0.{MOST + 4}")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAA\n"])
def test_what_is_broken_is_made_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    handshake(context("auto", tmp_path, NAMES, NOW), tmp_path / PUBLIC, "localhost")


def test_a_key_that_does_not_belong_is_made_anew(tmp_path: Path) -> None:
    one = own_certificate(tmp_path / "1", NAMES, NOW).read_bytes()
    other = own_certificate(tmp_path / "2", NAMES, NOW)
    key = one[: one.index(b"-----BEGIN CERT")]
    certificate = other.with_name(PUBLIC).read_bytes()
    other.write_bytes(key + certificate)
    handshake(context("auto", tmp_path / "2", NAMES, NOW), tmp_path / "2" / PUBLIC, "localhost")


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(ConfigError, match=r"--tls auto: .*LIVECAP_HOME"):
        context("auto", tmp_path / "file" / "tls", NAMES, NOW)


def test_files_of_others(tmp_path: Path) -> None:
    own = own_certificate(tmp_path, NAMES, NOW)
    data = own.read_bytes()
    (tmp_path / "a,b.key").write_bytes(data[: data.index(b"-----BEGIN CERT")])
    certificate, key = tmp_path / PUBLIC, tmp_path / "a,b.key"
    key.rename(tmp_path / "the.key")
    made = context(f"{certificate},{tmp_path / 'the.key'}", tmp_path, NAMES, NOW)
    handshake(made, certificate, "localhost")


def test_files_that_can_not_be_used_are_told(tmp_path: Path) -> None:
    one = own_certificate(tmp_path / "1", NAMES, NOW)
    two = own_certificate(tmp_path / "2", NAMES, NOW)
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("?", "utf-8")
    for option, told in (
        ("certificate.pem", "--tls can't be"),
        ("a,", "--tls can't be"),
        (",b", "--tls can't be"),
        (f"{one},{tmp_path}/nowhere", "nowhere can't be read"),
        (f"{tmp_path},{one}", "can't be read"),
        (f"{one.with_name(PUBLIC)},{two}", "key values mismatch"),
        (f"{nonsense},{one}", "can't be used"),
        (f"{one},{nonsense}", "can't be used"),
    ):
        with pytest.raises(ConfigError) as refused:
            context(option, tmp_path, NAMES, NOW)
        assert told in str(refused.value)


def test_a_key_with_a_password_is_refused_without_asking(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as pem

    own = own_certificate(tmp_path, NAMES, NOW)
    key = pem.load_pem_private_key(own.read_bytes(), None)
    sealed = key.private_bytes(
        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"word")
    )
    (tmp_path / "sealed.key").write_bytes(sealed)
    with pytest.raises(ConfigError, match="without a password"):
        context(f"{tmp_path / PUBLIC},{tmp_path / 'sealed.key'}", tmp_path, NAMES, NOW)


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LIVECAP_HOME", str(tmp_path))
    assert folder() == tmp_path / "tls"


def test_what_this_machine_is_called() -> None:
    names = own_names()
    assert names.hosts[0] == "localhost"
    assert {"127.0.0.1", "::1"} <= set(names.addresses)
    for address in names.addresses:
        ipaddress.ip_address(address)
