"""Without keys: which pages of browsers, under which name, and through which proxies.

Sources: the Fetch standard for `Origin` and `Sec-Fetch-Site`; RFC 7239 and its forerunner
`X-Forwarded-For` for proxies.
"""

import logging
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from livecap.api.errors import ApiError
from livecap.api.options import is_loopback

FORWARDED = re.compile(r'for="?\[?([^;,"\]\s]+)', re.IGNORECASE)
SHOWN = 100  # characters of what a client sent, in a message
UNTRUSTED = (
    "requests come through a proxy (X-Forwarded-For), which --trust-proxy does not name: clients "
    "are taken for the proxy itself. A proxy that others reach needs --api-key"
)

LOG = logging.getLogger("livecap.server")


class Origins:
    """What may ask a server that asks for no key."""

    def __init__(self, origins: Sequence[str], hosts: Sequence[str], *, trusts_proxy: bool) -> None:
        """`origins`: those of pages that may. `hosts`: names that this server is reached by.
        `trusts_proxy`: clients' addresses are as a proxy says.
        """
        self._origins = frozenset(_plain(origin) for origin in origins)
        of_pages = (urlsplit(origin).hostname for origin in self._origins)
        self._hosts = {host.lower() for host in hosts} | {name for name in of_pages if name}
        self._trusts_proxy = trusts_proxy
        self._is_noted = False

    def note_proxy(self, headers: Headers) -> None:
        """Say once that there is a proxy which nobody told of."""
        if not (self._trusts_proxy or self._is_noted) and forwarded(headers):
            self._is_noted = True
            LOG.warning(UNTRUSTED)

    def is_local(self, scope: Scope) -> bool:
        """Whether a request was made on this machine. What a proxy passes on was not."""
        client = scope.get("client")
        if client is None or not is_loopback(client[0]):
            return False
        through = () if self._trusts_proxy else forwarded(Headers(scope=scope))
        return all(is_loopback(address) for address in through)

    def refusal(self, headers: Headers) -> ApiError | None:
        """Why a request may not come in; None if it may.

        Otherwise any page that is open in a browser here could use this server. A page of this
        server itself may, unless it was reached by a name that a stranger could have pointed here.
        """
        if not self._trusts_proxy and not all(map(is_loopback, forwarded(headers))):
            return _through_proxy()
        origin = headers.get("origin")
        if "*" in self._origins or (origin is not None and _plain(origin) in self._origins):
            return None
        host = headers.get("host", "")
        if origin is None:  # no page, or one that asks what it takes for its own server
            if headers.get("sec-fetch-site") == "cross-site":
                return _bad_origin("another site")
            return None if self._is_ours(host) else _bad_host(host)
        return None if self._may(origin, host) else _bad_origin(origin)

    def _may(self, origin: str, host: str) -> bool:
        try:
            named = urlsplit(origin.lower())
            of_page = named.hostname
        except ValueError:
            return False
        if named.scheme not in ("http", "https") or of_page is None:
            return False
        if is_loopback(of_page):
            return True
        return named.netloc == host.lower() and self._is_ours(named.netloc)

    def _is_ours(self, netloc: str) -> bool:
        """Whether a `Host` is a name that no stranger can have pointed at this machine."""
        try:
            host = _name_in(netloc)
        except ValueError:
            return False
        if host is None:  # browsers always send one
            return not netloc
        return is_loopback(host) or _is_address(host) or host in self._hosts


def forwarded(headers: Headers) -> Sequence[str]:
    """The clients that proxies name, as they do; none where there was no proxy."""
    found: list[str] = []
    for value in headers.getlist("x-forwarded-for"):
        found += (part.strip() for part in value.split(","))
    for value in headers.getlist("forwarded"):
        found += FORWARDED.findall(value) or ["unknown"]
    return found


def _plain(origin: str) -> str:
    """Without the slash that some write behind a host: file:// is an origin of its own."""
    named = origin.lower()
    return named if named.endswith("://") else named.rstrip("/")


def _is_address(host: str) -> bool:
    return ":" in host or re.fullmatch(r"\d+(\.\d+){3}", host) is not None


def _name_in(netloc: str) -> str | None:
    """A `Host` without its port. Raises ValueError."""
    return urlsplit(f"//{netloc.lower()}").hostname


def _shown(value: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in value[:SHOWN])


def _bad_origin(origin: str) -> ApiError:
    named = _shown(origin) if "://" in origin or origin == "null" else "and the page's origin"
    return ApiError(
        403,
        f"Pages of {_shown(origin) or 'that origin'} may not use this server. Start it with "
        f"--cors-origin {named}.",
        code="origin_not_allowed",
    )


def _bad_host(netloc: str) -> ApiError:
    shown = _shown(netloc)
    try:
        name = _shown(_name_in(netloc) or netloc)
    except ValueError:
        name = "and its name"
    return ApiError(
        403,
        f"This server was asked for by the name '{shown}', which it does not know as its own. "
        f"Start it with --allow-host {name}, or with a key.",
        code="host_not_allowed",
    )


def _through_proxy() -> ApiError:
    return ApiError(
        403,
        "Without a key this server serves its own machine alone, and this came through a proxy. "
        "Start it with --api-key, and name the proxy with --trust-proxy.",
        code="proxy_not_trusted",
    )
