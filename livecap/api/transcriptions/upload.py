"""A multipart body -> its text fields, and its file on disk. Nothing is read beyond the limits.

The file has no name in the file system: what a client calls it never becomes a path, and it is
gone as soon as it is closed, however the process ends.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import Headers
from starlette.types import Receive

from livecap.api.errors import NO_RETRY, ApiError, invalid, missing
from livecap.api.transcriptions.limits import UploadLimits

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

AT_ONCE = 1 << 20  # bytes of a file written together
MOST_TEXT = 1 << 18  # bytes of all text fields together, their names included
MOST_PARTS = 1000


class ClientGone(Exception):
    """The client has left: there is nobody to answer."""


class Upload:
    """What has come. `take` hands the file over to whoever closes it then."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, str]] = []
        self.size = 0  # bytes of the file
        self.kind = ""  # content type of the file, as the client says
        self._file: BinaryIO | None = None

    async def write(self, data: bytes) -> None:
        """More of the file. Raises ApiError (503) where the disk takes no more."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="livecap-")  # noqa: SIM115 - see close
            await asyncio.to_thread(_put, self._file, data)
        except OSError as error:
            message = "The server has no room for the upload. Please try again later."
            retry = {"Retry-After": "60"}
            raise ApiError(503, message, type="server_error", headers=retry) from error
        self.size += len(data)

    def check(self) -> None:
        """Raises ApiError where there is no file, or nothing in it."""
        if "file" in (name for name, _ in self.fields):
            raise invalid("file", "'file' has to be sent as a file, not as text.")
        if self._file is None:
            raise missing("file")
        if not self.size:
            raise invalid("file", "The file is empty.")

    def take(self) -> BinaryIO:
        """The file, to be read from its beginning. There has to be one."""
        assert self._file is not None, "it was not checked"
        file, self._file = self._file, None
        file.seek(0)
        return file

    def close(self) -> None:
        """Removes the file, unless it was taken."""
        if self._file is not None:
            self._file.close()


class _Parts:
    """What a parser finds in a body."""

    def __init__(self, upload: Upload) -> None:
        self.file = bytearray()  # of the file, not written yet
        self.has_file = False
        self.is_whole = False  # the last boundary has come
        self._upload = upload
        self._texts = 0  # bytes of text fields
        self._count = 0
        self._header, self._headers = (b"", b""), dict[bytes, bytes]()
        self._name, self._text = "", bytearray()
        self._kind = "text"  # of the part under way: text, file, or one that nobody asked for

    def callbacks(self) -> "MultipartCallbacks":
        """For the parser, which calls them in the order of the body."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._add(data[start:end], b""),
            "on_header_value": lambda data, start, end: self._add(b"", data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._open,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._count += 1
        if self._count > MOST_PARTS:
            raise ApiError(400, f"The form has more than {MOST_PARTS} fields.")
        self._headers.clear()

    def _add(self, name: bytes, value: bytes) -> None:
        self._header = self._header[0] + name, self._header[1] + value

    def _end_header(self) -> None:
        self._headers[self._header[0].lower()] = self._header[1]
        self._header = b"", b""

    def _open(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        kind = self._headers.get(b"content-type", b"").decode("latin-1").strip().lower()
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._text = bytearray()
        if b"filename" not in options and kind.startswith(("text/plain", "application/json")):
            kind = ""  # a field with its type
        if b"filename" not in options and not kind:
            self._kind = "text"
            self._count_text(len(self._name))
        elif self._name.removesuffix("[]") != "file":
            self._kind = "ignored"
        elif self.has_file:
            raise invalid("file", "There is more than one file. Send them one at a time.")
        else:
            self._kind, self.has_file = "file", True
            self._upload.kind = kind

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._kind == "file":
            self.file += memoryview(data)[start:end]
        elif self._kind == "text":
            self._count_text(end - start)
            self._text += memoryview(data)[start:end]

    def _count_text(self, size: int) -> None:
        self._texts += size
        if self._texts > MOST_TEXT:
            raise ApiError(400, f"The text fields have more than {MOST_TEXT} bytes together.")

    def _end(self) -> None:
        if self._kind == "text":
            self._upload.fields.append((self._name, self._text.decode("utf-8", "replace")))

    def _finish(self) -> None:
        self.is_whole = True


class RequestBody:
    """A request's body as it comes, counted. Raises `Gone` where the client leaves."""

    def __init__(self, receive: Receive, limits: UploadLimits) -> None:
        self._receive = receive
        self._limits = limits
        self._until: float | None = None  # on the event loop's clock
        self.count = 0  # bytes so far
        self.ended = False

    async def next(self) -> bytes:
        """The next bytes. Raises ApiError: 408 where they don't come in time, 413 where there are
        more than may be.
        """
        loop = asyncio.get_running_loop()
        if self._until is None:
            self._until = loop.time() + self._limits.receiving
        try:
            async with asyncio.timeout_at(min(loop.time() + self._limits.chunk, self._until)):
                message = await self._receive()
        except TimeoutError:
            slow = "The upload took too long. Check the connection, or send a smaller file."
            raise ApiError(408, slow, code="timeout", headers=NO_RETRY) from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        data: bytes = message.get("body", b"")
        self.count += len(data)
        self.ended = not message.get("more_body", False)
        if self.count > self._limits.upload:
            raise too_large(self._limits.upload, self.count)
        return data


@asynccontextmanager
async def receiving(headers: Headers, body: RequestBody) -> AsyncGenerator[Upload]:
    """The upload in a body, once all of it has come; its file is removed in the end.

    Raises ApiError for a body that is no form or breaks a limit, and `Gone`.
    """
    upload = Upload()
    parts = _Parts(upload)
    try:
        parser = MultipartParser(_boundary(headers), parts.callbacks())
        while not body.ended:
            parser.write(await body.next())
            if len(parts.file) >= AT_ONCE:
                await _flush(parts, upload)
        if not parts.is_whole:
            raise ApiError(400, "The form ends in the middle.", code="invalid_value")
        if parts.has_file:
            await _flush(parts, upload)
        yield upload
    except FormParserError as error:
        raise ApiError(400, f"The form can't be read: {error}", code="invalid_value") from None
    finally:
        upload.close()


def _put(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()


async def _flush(parts: _Parts, upload: Upload) -> None:
    data, parts.file = parts.file, bytearray()
    await upload.write(bytes(data))


def check_head(headers: Headers, limits: UploadLimits) -> None:
    """What can be told before the body comes. Raises ApiError: 413 or 415."""
    kind, _ = parse_options_header(headers.get("content-type"))
    if kind != b"multipart/form-data":
        raise ApiError(415, "The body has to be multipart/form-data, with the audio as 'file'.")
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > limits.upload:
        raise too_large(limits.upload, int(length[:20]))


def too_large(limit: int, count: int) -> ApiError:
    """413, in the words of OpenAI's API."""
    message = f"Maximum content size limit ({limit}) exceeded ({count} bytes read)"
    return ApiError(413, message, type="server_error")


def _boundary(headers: Headers) -> bytes:
    _, options = parse_options_header(headers.get("content-type"))
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise ApiError(400, "The content type names no boundary.", code="invalid_value")
    return boundary
