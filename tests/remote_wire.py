"""A wire between a client and servers, which can be cut, and plugged in again elsewhere."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Result = TypeVar("Result")

PATIENCE = 60.0  # seconds after which a test has failed


class Wire:
    """TCP, forwarded. For any thread; the loop is the wire's own."""

    def __init__(self, port: int) -> None:
        """`port`: of the server behind it."""
        self.target = port
        self.port = 0  # where clients find it
        self.connections = 0  # so far
        self.forwarded = 0  # bytes from servers
        self.limit: int | None = None  # bytes from servers, after which it is cut
        self._listener: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire")
        self._thread.start()
        self.plug()

    def plug(self, port: int | None = None) -> None:
        """EncodeRequest, and forward to that server."""
        self.target = port or self.target
        self._do(self._listen)

    def cut(self) -> None:
        """All connections are gone; new ones are forwarded."""
        self._do(self._cut)

    def unplug(self) -> None:
        """All connections are gone, and nothing listens."""

        async def unplugged() -> None:
            assert self._listener
            self._listener.close()
            await self._cut()

        self._do(unplugged)

    def close(self) -> None:
        """It is over."""
        self._do(self._end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def _do(self, what: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        return asyncio.run_coroutine_threadsafe(what(), self._loop).result(PATIENCE)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        self.limit = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _end(self) -> None:
        assert self._listener
        self._listener.close()
        await self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._open.add(back)
        try:
            await asyncio.gather(self._forward(reader, back), self._forward(there, writer, True))
        finally:
            for one in (writer, back):
                self._open.discard(one)
                one.transport.abort()

    async def _forward(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_told: bool = False
    ) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                self.forwarded += len(data) if is_told else 0
                if self.limit is not None and self.forwarded >= self.limit:
                    await self._cut()
                    return
                target.write(data)
                await target.drain()
            target.write_eof()


@contextmanager
def wired(port: int) -> Iterator[Wire]:
    """A wire to a server's port."""
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()
