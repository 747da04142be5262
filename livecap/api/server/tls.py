"""Certificates: the user's own, or one that is made here and names this machine. -> an SSL context.

Sources: RFC 5280 for certificates, the CA/Browser Forum's 398 days for how long browsers take one.
"""

import datetime
import ipaddress
import os
import socket
import ssl
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from livecap.errors import ConfigError

LASTS = datetime.timedelta(days=397)
RENEWED = datetime.timedelta(days=30)  # before it ends
EARLY = datetime.timedelta(days=1)  # that it counts from: clocks of other machines differ
MOST = 40  # names of a kind in a certificate
FILE = "livecap.pem"  # key and certificate: one file, so that they always belong together
PUBLIC = "livecap.crt"  # the certificate alone, to be handed to those who shall trust it

# Addresses that are kept for documentation (RFC 5737, RFC 3849). Connecting a datagram socket sends
# nothing, but the system then tells by which of its own addresses it would.
ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
SIOCGIFADDR = 0x8915  # asks for the address of an interface


@dataclass(frozen=True, slots=True)
class Names:
    """What this machine is called."""

    hosts: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def all(self) -> frozenset[str]:
        """Both."""
        return frozenset((*self.hosts, *self.addresses))

    def joined(self, others: "Names") -> "Names":
        """These, and as many of the others as a certificate has room for."""
        hosts = dict.fromkeys((*self.hosts, *others.hosts))
        addresses = dict.fromkeys((*self.addresses, *others.addresses))
        return Names(tuple(hosts)[:MOST], tuple(addresses)[:MOST])


def context(option: str, folder: Path, names: Names, now: datetime.datetime) -> ssl.SSLContext:
    """What `--tls` says -> the context for the server. Raises ConfigError.

    `folder` is where a certificate of our own is kept; `now` has a time zone.
    """
    if option == "auto":
        file = own_certificate(folder, names, now)
        return _context(file, file)
    certificate, comma, key = option.rpartition(",")
    if not comma or not certificate or not key:
        raise ConfigError(
            f"--tls can't be {option!r}", remedy="Write auto, or two files: certificate,key."
        )
    return _context(Path(certificate).expanduser(), Path(key).expanduser())


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    for file in (certificate, key):
        if not os.access(file, os.R_OK) or not file.is_file():
            raise ConfigError(
                f"--tls: {file} can't be read", remedy="Name a file of PEM that this user may read."
            )
    try:
        # A key with a password would have the terminal ask for it, at every start.
        made.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"--tls: {certificate} and {key} can't be used ({_reason(error)})",
            remedy="Name a certificate (with its chain) and its key, both PEM, without a password.",
        ) from error
    return made


def _reason(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return (reason or "no certificate, no key, or one with a password").replace("_", " ").lower()


def own_certificate(folder: Path, names: Names, now: datetime.datetime) -> Path:
    """The file with our certificate and its key, made or renewed if need be.

    It is renewed when it is about to end, or lacks a name that this machine has now. Those that it
    had before stay in it: whoever goes to and fro between two networks need not trust it anew.
    """
    file = folder / FILE
    found = _kept(file, now)
    if found is not None and names.all <= found.all:
        return file
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _signed(key, names if found is None else names.joined(found), now)
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(file, private + public, mode=0o600)
        _write(folder / PUBLIC, public, mode=0o644)
    except OSError as error:
        raise ConfigError(
            f"--tls auto: {folder} can't be written ({error.strerror})",
            remedy="Set LIVECAP_HOME to one that can be, or name files: --tls certificate,key.",
        ) from error
    return file


def _kept(file: Path, now: datetime.datetime) -> Names | None:
    """The names in our certificate; None if there is none that is good for a while."""
    try:
        data = file.read_bytes()
        certificate = x509.load_pem_x509_certificate(data)
        key = serialization.load_pem_private_key(data, None)
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if file.stat().st_mode & 0o077:
            file.chmod(0o600)
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return None  # it is not one of ours, and is made anew
    if key.public_key() != certificate.public_key():
        return None
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEWED:
        return None
    hosts = named.get_values_for_type(x509.DNSName)
    addresses = named.get_values_for_type(x509.IPAddress)
    return Names(tuple(hosts), tuple(map(str, addresses)))


def _signed(
    key: ec.EllipticCurvePrivateKey, names: Names, now: datetime.datetime
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "livecap on this network")])
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names.hosts]
    alternatives += [x509.IPAddress(ipaddress.ip_address(one)) for one in names.addresses]
    # Whoever trusts it shall not have to trust it for anything else.
    permitted: list[x509.GeneralName] = [x509.DNSName(name) for name in names.hosts]
    permitted += [x509.IPAddress(ipaddress.ip_network(one)) for one in names.addresses]
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,  # systems take a certificate into their trust only if it is its own CA
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    public = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + LASTS - EARLY)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.NameConstraints(permitted, None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(issuer, critical=False)
        .sign(key, hashes.SHA256())
    )


def _write(file: Path, data: bytes, *, mode: int) -> None:
    """A file that is whole or isn't there, and that nobody else could read in between."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        draft.unlink()
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(data)
    draft.replace(file)


def folder() -> Path:
    """Where the certificate is kept between runs."""
    if value := os.environ.get("LIVECAP_HOME"):
        return Path(value).expanduser() / "tls"
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/livecap/tls").expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        return Path(local).expanduser() / "livecap" / "tls"
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "livecap/tls"


def own_names() -> Names:
    """The names and addresses by which this machine is reached, in its own network too."""
    host = socket.gethostname().lower()
    hosts = [host, f"{host}.local"] if host and "." not in host else [host]
    hosts = [name for name in hosts if name.isascii() and name not in ("", "localhost")]
    addresses = {"127.0.0.1", "::1", *_addresses(host)}
    return Names(("localhost", *hosts), tuple(sorted(addresses)))


def _addresses(host: str) -> Sequence[str]:
    found = list(_interfaces())
    with suppress(OSError, UnicodeError):  # a host that doesn't know itself has no such addresses
        found += [str(entry[4][0]) for entry in socket.getaddrinfo(host, None)]
    for family, address in ELSEWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            found.append(str(probe.getsockname()[0]))
    # One that only means something on one of this machine's links (fe80::1%eth0) is no name.
    return [one for one in found if "%" not in one and not one.startswith("fe80:")]


def _interfaces() -> Iterator[str]:
    """The address of each interface, where the system tells. Source: netdevice(7) of Linux."""
    if sys.platform != "linux":
        return
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                asked = struct.pack("256s", name.encode()[:15])
                yield socket.inet_ntoa(fcntl.ioctl(probe, SIOCGIFADDR, asked)[20:24])
