"""A reader's link, as other machines reach it, and the code that a phone scans."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import URL
from starlette.requests import Request

from livecap.api.errors import invalid
from livecap.api.options import is_loopback

LONGEST_BASE = 500  # characters of a page's address
SCALE = 4  # pixels of a code's module


@dataclass(frozen=True, slots=True)
class Links:
    """What a talk's speaker passes on."""

    token: str
    url: str  # of the page for readers
    overlay: str  # of the lines for OBS or a projector
    is_reachable: bool  # other machines may open them, as far as this one knows

    def payload(self) -> dict[str, object]:
        """As JSON; `code` is a picture of the first one, as a data URL, if segno is here."""
        return {
            "token": self.token,
            "url": self.url,
            "overlay": self.overlay,
            "reachable": self.is_reachable,
            "code": self._code(),
        }

    def _code(self) -> str | None:
        if importlib.util.find_spec("segno") is None:
            return None
        import segno

        picture: str = segno.make(self.url, micro=False).svg_data_uri(scale=SCALE, light="#fff")
        return picture


def links(request: Request, id: str, token: str, addresses: Sequence[str]) -> Links:
    """The links below the page that asks (`base` in the query: a proxy may have it anywhere), or
    else below the host that it asked.

    `addresses`: those of this machine in its network, if others may reach the server; they take the
    place of localhost. Raises ApiError for a base that is none.
    """
    base = _base(request)
    is_local = is_loopback(base.hostname or "")
    if is_local and addresses:
        address = next((one for one in addresses if ":" not in one), addresses[0])
        base = base.replace(hostname=f"[{address}]" if ":" in address else address)

    def link(page: str) -> str:
        made = base.replace(path=f"{base.path}{page}/{id}", query="", fragment="")
        return str(made.include_query_params(token=token))

    return Links(token, link("view"), link("overlay"), not is_local or bool(addresses))


def _base(request: Request) -> URL:
    named = request.query_params.get("base")
    if named is None:
        return request.url.replace(path="/", query="")
    base = URL(named) if len(named) <= LONGEST_BASE else URL("")
    if base.scheme not in ("http", "https") or not base.hostname or not base.path.endswith("/"):
        raise invalid("base", "Expected the address of a page, as in https://host:8000/.")
    return base
