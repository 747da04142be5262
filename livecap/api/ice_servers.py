"""STUN and TURN servers: an option's text -> what peers and pages are told.

Sources: RFC 7064 and 7065 for the addresses, W3C's `RTCIceServer`, RFC 9725 for the `Link` header.
"""

import re
from dataclasses import dataclass, field

from livecap.errors import ConfigError

SERVER = re.compile(
    r"(?P<scheme>stuns?|turns?):"
    r"(?:(?P<user>[^:@\s\"\\]+):(?P<password>[^@\s\"\\]+)@)?"
    r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?P<port>:\d{1,5})?"
    r"(?P<transport>\?transport=(?:udp|tcp))?"
)


@dataclass(frozen=True, slots=True)
class IceServer:
    """One server. Those for TURN want a name and a password."""

    url: str  # without them
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def shape(self) -> dict[str, object]:
        """As JavaScript's `RTCPeerConnection` takes it."""
        payload: dict[str, object] = {"urls": [self.url]}
        if self.user is not None:
            payload |= {"username": self.user, "credential": self.password}
        return payload

    def link(self) -> str:
        """As one value of a `Link` header."""
        link = f'<{self.url}>; rel="ice-server"'
        if self.user is not None:
            link += f'; username="{self.user}"; credential="{self.password}"'
            link += '; credential-type="password"'
        return link


def ice_server(text: str) -> IceServer:
    """As in stun:host:port or turn:user:password@host:port?transport=tcp. Raises ConfigError."""
    found = SERVER.fullmatch(text)
    is_turn = text.startswith("turn")
    if (
        found is None
        or is_turn != (found["user"] is not None)
        or (found["transport"] and not is_turn)
    ):
        raise ConfigError(
            f"--ice-server can't be {text.partition(':')[0]}:...",  # the rest may be a password
            remedy="Write stun:host:port, or turn:user:password@host:port?transport=udp.",
        )
    url = f"{found['scheme']}:{found['host']}{found['port'] or ''}{found['transport'] or ''}"
    return IceServer(url, found["user"], found["password"])
