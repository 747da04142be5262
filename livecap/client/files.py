"""Files -> events, by a server: several uploads at once."""

import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from livecap.audio.io import Stream, open_path
from livecap.audio.prefetch import standard_input
from livecap.client.answer import UploadAnswer, read
from livecap.client.errors import ServerError, of_refusal
from livecap.client.form import Form
from livecap.client.options import RemoteServer
from livecap.client.request import Asked, Detail
from livecap.client.spool import spooled
from livecap.client.upload import Reply, UploadRefused, UploadTimeouts, greet, upload
from livecap.client.wire import text
from livecap.errors import AudioError, EngineFault, LivecapError
from livecap.runtime.runs import Progress, Report

AT_ONCE = 4  # files that are sent or captioned
REMEDIES = {413: "Send it in parts, or start the server with a larger --max-upload."}


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of a file."""

    path: str
    answer: UploadAnswer | None
    failure: LivecapError | None
    is_cut: bool  # a pipe was not waited for


class _Stopped(Exception):
    """Nobody waits for another try any more."""


class RemoteRun:
    """A `runs.Run`."""

    is_opening = False  # what is slow to open is opened in threads

    def __init__(
        self,
        server: RemoteServer,
        asked: Asked,
        open_outputs: Callable[[str], None],
        say: Callable[[str], None],
        patience: UploadTimeouts | None = None,
    ) -> None:
        """`open_outputs` is called when a file could be opened; `say` is told what takes time."""
        self._server = server
        self._asked = asked
        self._open_outputs = open_outputs
        self._say = say
        self._patience = patience or UploadTimeouts()
        self._detail: Detail = "words" if asked.decode.words else "segments"
        self._news: SimpleQueue[_Outcome | str] = SimpleQueue()
        self._stopped = threading.Event()
        self._fatal: ServerError | None = None  # why no file can be captioned

    def stop(self) -> None:
        """Begin no more, and try nothing again; what is under way is waited for."""
        self._stopped.set()

    def run(self, paths: Sequence[str]) -> Iterator[Report]:
        """Caption the files. Raises ServerError for what none can be captioned without."""
        greet(self._server, self._patience)
        waiting, under_way = deque(paths), 0
        while True:
            while waiting and under_way < AT_ONCE and not (self._stopped.is_set() or self._fatal):
                path = waiting.popleft()
                try:
                    self._begin(path)
                except LivecapError as error:
                    yield Progress(path, 0, None, failure=error, state="failed")
                else:
                    under_way += 1
                    yield Progress(path, 0, None)
            if not under_way:
                break
            news = self._news.get()
            if isinstance(news, str):
                self._say(news)
            else:
                under_way -= 1
                yield from self._told(news)
        if self._fatal:
            raise self._fatal

    def _begin(self, path: str) -> None:
        """Open a file, then its outputs: neither a bad file nor a bad folder costs an upload."""
        stream = standard_input() if path == "-" else open_path(Path(path))
        with ExitStack() as closing:
            if path != "-":
                closing.callback(stream.close)
            self._open_outputs(path)
            closing.pop_all()
        # A daemon: whoever leaves at once need not wait for a server.
        work = threading.Thread(
            target=self._work, args=(path, stream), name="livecap-send", daemon=True
        )
        work.start()

    def _told(self, outcome: _Outcome) -> Iterator[Report]:
        path, answer = outcome.path, outcome.answer
        if outcome.failure is not None and outcome.failure is self._fatal:
            yield Progress(path, 0, None, state="stopped")  # it is told once, and for all
        elif answer is None:
            yield Progress(path, 0, None, failure=outcome.failure, state="failed")
        else:
            for event in answer.events:
                yield path, event
            yield self._done(outcome, answer)

    def _done(self, outcome: _Outcome, answer: UploadAnswer) -> Progress:
        failure = None
        if answer.damage is not None:
            failure = AudioError(answer.damage, remedy="What came before it is captioned.")
        return Progress(
            outcome.path,
            answer.duration,
            answer.duration,
            discarded=answer.silence,
            failure=failure,
            state="failed" if failure else "stopped" if outcome.is_cut else "finished",
        )

    # The threads

    def _work(self, path: str, stream: Stream) -> None:
        answer, is_cut = None, False
        failure: LivecapError | None = EngineFault(  # what nobody expected must not look like less
            "the upload broke off", remedy="Please report what is above"
        )
        try:
            with ExitStack() as closing:
                if path != "-":
                    closing.callback(stream.close)
                file = stream
                if path == "-" or not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    file = spooled(stream, self._stopped.is_set)
                    closing.callback(file.close)
                    is_cut = self._stopped.is_set()
                answer = self._ask(path, file)
            failure = None
        except _Stopped:
            failure = ServerError("there was no other try", remedy="Begin again.")
        except LivecapError as error:
            failure = error
        finally:
            self._news.put(_Outcome(path, answer, failure, is_cut))

    def _ask(self, path: str, file: Stream) -> UploadAnswer:
        size = os.fstat(file.fileno()).st_size
        name = "audio" if path == "-" else Path(path).name
        while True:
            detail = self._detail
            form = Form.of(self._asked.fields(detail), file, size, name)
            try:
                body = upload(
                    self._server,
                    self._asked.route,
                    form,
                    self._patience,
                    pause=self._pause,
                    say=lambda message: self._news.put(f"{path}: {message}"),
                )
            except UploadRefused as refused:
                less = self._asked.less(detail, refused.reply)
                if less is None:
                    raise self._refusal(refused.reply) from refused
                self._detail = less
            except ServerError as error:
                raise self._lasting(error) from error
            else:
                return read(body, self._asked.decode.language)

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds) or self._fatal:
            raise _Stopped

    def _refusal(self, reply: Reply) -> LivecapError:
        """What the server does not want: this file, or any."""
        name, message = self._server.name, text(reply.error, "message")
        if text(reply.error, "code") == "model_not_found":
            return self._end(of_refusal(name, "model_not_found", message).error)
        if reply.status in (401, 403, 404):
            return self._end(reply.trouble(name).error)
        detail = f": {message.rstrip('.')}" if message else ""
        remedy = REMEDIES.get(reply.status, "The server's log may say more.")
        return AudioError(f"{name} refuses it ({reply.status}{detail})", remedy=remedy)

    def _lasting(self, error: ServerError) -> ServerError:
        """This file could not be captioned. Where the server is gone, no other can be either."""
        try:
            greet(self._server, self._patience)
        except ServerError as gone:
            return self._end(gone)
        return error

    def _end(self, error: ServerError) -> ServerError:
        self._fatal = self._fatal or error
        return self._fatal
