"""The counter that caption URLs want: one more for each post, the same for one sent again."""

from urllib.parse import urlencode, urlsplit, urlunsplit


class PostSequence:
    """Counts posts that were taken. One that never was leaves its number to the next."""

    def __init__(self, last: int = 0) -> None:
        """`last`: the number that was taken last."""
        self._last = last

    def url(self, url: str, **more: str) -> str:
        """Where to post next."""
        return with_query(url, seq=str(self._last + 1), **more)

    def taken(self) -> None:
        """That post has arrived."""
        self._last += 1


def with_query(url: str, **more: str) -> str:
    """A URL with these in its query, in place of those of the same names."""
    parts = urlsplit(url)
    parts_left = [
        part for part in parts.query.split("&") if part and part.split("=")[0] not in more
    ]
    return urlunsplit(parts._replace(query="&".join([*parts_left, urlencode(more)]), fragment=""))
