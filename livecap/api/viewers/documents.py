"""What has been said so far, as files: each made once for all who ask for it."""

import asyncio
import io
from collections import OrderedDict
from dataclasses import dataclass

from livecap.api.viewers.channel import Broadcast
from livecap.output import Options, open_writer

FORMATS = {
    "txt": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "json": "application/json",
}
MOST = 32  # documents that are kept


@dataclass(frozen=True, slots=True)
class _Made:
    version: tuple[int, int]  # the last line's number, and how many lines there are
    body: "asyncio.Task[bytes]"


class Documents:
    """For the event loop alone."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str, str], _Made] = OrderedDict()  # by talk and form

    async def get(self, broadcast: Broadcast, form: str) -> bytes:
        """All lines so far in one of FORMATS."""
        key, version = (broadcast.id, form), (broadcast.count, len(broadcast.lines))
        found = self._made.get(key)
        if found is None or found.version != version:
            task = asyncio.create_task(asyncio.to_thread(written, broadcast, form))
            found = self._made[key] = _Made(version, task)
            while len(self._made) > MOST:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return await asyncio.shield(found.body)  # one who leaves doesn't take it from others

    def forget(self, id: str) -> None:
        """Those of a talk that is deleted."""
        for form in FORMATS:
            self._made.pop((id, form), None)


def written(broadcast: Broadcast, form: str) -> bytes:
    """All lines in one of FORMATS, by the writers that files are written by."""
    out = io.BytesIO()
    writer = open_writer(form, out, options=Options(words=True))
    for event in broadcast.events:
        writer.write(event)
    writer.close()
    return out.getvalue()
