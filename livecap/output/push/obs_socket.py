"""A WebSocket for a thread, as `livecap.output.push.obs` wants it: what goes wrong is Closed."""

from contextlib import ExitStack, suppress

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from livecap.output.push.obs import Closed

OPENING = 5.0  # seconds until there is a connection
CLOSING = 1.0  # seconds until a goodbye is answered
LARGEST = 1 << 20  # bytes of a message
PROTOCOL = Subprotocol("obswebsocket.json")


class ObsSocket:
    """One connection, closed by what `opened` holds."""

    def __init__(self, connection: ClientConnection, opened: ExitStack) -> None:
        self._connection = connection
        self._opened = opened

    def send(self, message: str) -> None:
        """Raises Closed."""
        try:
            self._connection.send(message)
        except ConnectionClosed as error:
            raise _closed(error) from error

    def receive(self, timeout: float) -> str:
        """The next message, which comes within so many seconds. Raises Closed."""
        try:
            found = self._connection.recv(timeout)
        except TimeoutError as error:
            raise Closed("it does not answer") from error
        except ConnectionClosed as error:
            raise _closed(error) from error
        return found if isinstance(found, str) else ""

    def close(self) -> None:
        """Goodbye."""
        with suppress(WebSocketException, OSError):
            self._opened.close()


def connected(url: str) -> ObsSocket:
    """A connection to obs-websocket. Raises Closed."""
    opened = ExitStack()  # the only way in that all versions of websockets know
    try:
        connection = opened.enter_context(
            connect(
                url,
                subprotocols=[PROTOCOL],
                proxy=None,  # it is in one's own network
                compression=None,
                open_timeout=OPENING,
                close_timeout=CLOSING,
                max_size=LARGEST,
            )
        )
    except TimeoutError as error:
        raise Closed("it does not answer") from error
    except OSError as error:
        raise Closed(f"it can't be reached ({error.strerror or type(error).__name__})") from error
    except UnicodeError as error:
        raise Closed("its name can't be looked up") from error
    except WebSocketException as error:
        raise Closed("there is no WebSocket server of OBS at that address") from error
    return ObsSocket(connection, opened)


def _closed(error: ConnectionClosed) -> Closed:
    return Closed("it has closed the connection", error.rcvd.code if error.rcvd else None)
