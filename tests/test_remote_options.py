"""`--server` and its options, and what is said about servers that can't be used."""

import http.client
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from livecap.api.server.tls import Names, own_certificate
from livecap.client import errors
from livecap.client.options import RemoteServer, ServerOptions, server_of
from livecap.client.wire import Wanted
from livecap.commands.backend import wanted
from livecap.commands.captioner import Setup
from livecap.errors import ConfigError
from livecap.output.push.backoff import Backoff


def server(url: str, **fields: str) -> RemoteServer:
    found = server_of(ServerOptions(url, **fields), {})
    assert found
    return found


@pytest.mark.parametrize(
    ("url", "realtime", "path"),
    [
        ("ws://desk:8000", "ws://desk:8000/v1/realtime", "/v1/audio/transcriptions"),
        ("http://desk:8000/", "ws://desk:8000/v1/realtime", "/v1/audio/transcriptions"),
        ("https://[::1]:8000/v1", "wss://[::1]:8000/v1/realtime", "/v1/audio/transcriptions"),
        ("wss://desk/v1/realtime", "wss://desk/v1/realtime", "/v1/audio/transcriptions"),
        ("http://desk/asr/v1/", "ws://desk/asr/v1/realtime", "/asr/v1/audio/transcriptions"),
    ],
)
def test_addresses(url: str, realtime: str, path: str) -> None:
    found = server(url)
    assert found.realtime == f"{realtime}?intent=transcription&audio=binary"
    assert found.path("audio/transcriptions") == path


def test_a_query_of_ones_own() -> None:
    found = server("ws://desk/v1/realtime?model=whisper-large")
    assert found.realtime == "ws://desk/v1/realtime?model=whisper-large&audio=binary"


@pytest.mark.parametrize(
    "url", ["desk:8000", "localhost:8000", "desk", "ftp://desk", "ws://", "ws://desk:x", "ws://a#b",
            "ws://desk:99999", "ws://a..b", "ws://[::1"],
)  # fmt: skip
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ConfigError, match=r"--server can't be .*Write it as in http://host:8000"):
        server(url)


def test_secrets_are_not_repeated() -> None:
    for url in ("ws://me:secret@desk", "://me:secret@desk"):
        with pytest.raises(ConfigError) as told:
            server(url)
        assert "secret" not in str(told.value)
    for key in ("secret key", "sécret"):
        with pytest.raises(ConfigError) as told:
            server("ws://desk", server_key=key)
        assert "cret" not in str(told.value)
    found = server("ws://desk", server_key="secret")
    assert "secret" not in repr((found, ServerOptions("ws://desk", "secret")))


def test_keys() -> None:
    environment = {"LIVECAP_SERVER_KEY": "theirs"}
    for options, key in ((ServerOptions("ws://a"), "theirs"), (ServerOptions("ws://a", "b"), "b")):
        found = server_of(options, environment)
        assert found
        assert found.headers == {"Authorization": f"Bearer {key}"}
    assert server("ws://a").headers == {}
    assert server_of(ServerOptions(), environment) is None


def test_what_is_only_for_servers() -> None:
    for options in (ServerOptions(server_key="a"), ServerOptions(server_ca="a")):
        with pytest.raises(ConfigError, match="is for a server"):
            server_of(options, {})
    with pytest.raises(ConfigError, match="has none"):
        server("ws://desk", server_ca="ca.pem")


def test_certificates(tmp_path: Path) -> None:
    own_certificate(tmp_path, Names(("localhost",), ("127.0.0.1",)), datetime.now(UTC))
    (tmp_path / "junk").write_text("no certificate")
    found = server("wss://desk", server_ca=str(tmp_path / "livecap.crt"))
    assert found.secure
    assert found.secure.verify_mode is ssl.CERT_REQUIRED
    assert found.secure.check_hostname
    assert len(found.secure.get_ca_certs()) > len(
        [one for one in found.secure.get_ca_certs() if "livecap" not in str(one)]
    )
    for name in ("junk", "gone"):
        with pytest.raises(ConfigError, match="--server-ca"):
            server("wss://desk", server_ca=str(tmp_path / name))


def test_what_a_server_is_told() -> None:
    assert wanted(Setup()) == Wanted()
    assert wanted(Setup("small")).model == "small"


# -- trouble ------------------------------------------------------------------------------------


def verification() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED]")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("error", "told", "remedy", "lasting"),
    [
        (verification(), "self-signed", "--server-ca", True),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong"), "TLS", "ws://", True),
        (socket.gaierror(-2, "Name or service not known"), "not known", "address", False),
        (ConnectionRefusedError(111, "refused"), "nothing listens", "livecap serve", False),
        (
            OSError("Multiple exceptions: [Errno 111] Connect call failed"),
            "nothing",
            "serve",
            False,
        ),
        (TimeoutError(), "does not answer", "network", False),
        (http.client.BadStatusLine("x"), "as a web server does", "wss://", False),
        (http.client.RemoteDisconnected("gone"), "gone", "network", False),
        (ConnectionResetError(104, "Connection reset by peer"), "reset", "network", False),
    ],
)
def test_what_the_network_says(error: Exception, told: str, remedy: str, lasting: bool) -> None:
    found = errors.of_error("desk:8000", error)
    assert told in found.error_text
    assert "desk:8000" in found.error_text
    assert remedy in found.remedy
    assert found.lasting == lasting
    assert str(found.error).endswith(".")


@pytest.mark.parametrize(
    ("status", "told", "lasting", "busy"),
    [
        (401, "refuses the key (401)", True, False),
        (403, "lets nobody in there (403)", True, False),
        (404, "nothing at that address", True, False),
        (400, "status 400", True, False),
        (200, "status 200", True, False),
        (302, "status 302", True, False),
        (429, "is busy (429)", False, True),
        (503, "is not ready (503)", False, True),
        (500, "status 500", False, False),
    ],
)
def test_statuses(status: int, told: str, lasting: bool, busy: bool) -> None:
    found = errors.of_status("desk", status, "because", "7")
    assert told in found.error_text
    assert found.error_text.endswith("because")
    assert (found.lasting, found.is_busy) == (lasting, busy)
    assert found.wait == (7.0 if busy else 0.0)


def test_how_long_a_server_wants_to_be_left_alone() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    for after, low, high in (
        ("3", 3, 3),
        ("0.5", 0.5, 0.5),
        ("-4", 0, 0),
        ("99999", errors.LONGEST, errors.LONGEST),
        ("nan", 0, 0),
        ("soon", 0, 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        (later, 50, 60),
    ):
        assert low <= errors.of_status("desk", 429, after=after).wait <= high, after


def test_waits_get_longer_and_are_not_all_alike() -> None:
    longest = Backoff(0.5, 30.0, lambda: 1.0)
    assert [longest.of(n) for n in (1, 2, 3, 7, 8, 1000)] == [0.5, 1.0, 2.0, 30.0, 30.0, 30.0]
    assert Backoff(0.5, 30.0, lambda: 0.0).of(3) == 1.0
    assert longest.of(1, asked=12.0) == 12.0
    assert len({Backoff().of(5) for _ in range(9)}) > 1


@pytest.mark.parametrize(
    ("url", "key", "warns"),
    [
        ("http://captions.example:8000", "k", True),
        ("ws://10.0.0.5:8000", "k", True),
        ("http://captions.example:8000", "", False),
        ("https://captions.example", "k", False),
        ("wss://10.0.0.5:8000", "k", False),
        ("http://127.0.0.1:8000", "k", False),
        ("ws://localhost:8000", "k", False),
        ("http://[::1]:8000", "k", False),
    ],
)
def test_a_key_that_goes_in_clear_is_told(
    url: str, key: str, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server_of(ServerOptions(server=url, server_key=key), {})
    told = capsys.readouterr().err
    assert ("in clear" in told) == warns
    assert not key or f" {key} " not in told
