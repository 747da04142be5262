"""`/v1/realtime?call_id=`: a WebSocket that takes part in a call.

It is told what the data channel is told, and what it says counts as if it came from there. Source:
OpenAI Realtime API, server-side controls.
"""

import asyncio
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from livecap.api.sessions.calls import OpenCall
from livecap.api.sessions.outbox import FrameQueue

GOODBYE = 5.0  # seconds for the close


async def attend(websocket: WebSocket, call: OpenCall) -> None:
    """Until it leaves, or the call is over. The socket has been accepted."""
    outbox = FrameQueue()
    call.join(outbox)
    tasks = {
        asyncio.create_task(_write(websocket, outbox)),
        asyncio.create_task(_read(websocket, call)),
    }
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        call.leave(outbox)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            raise error


async def _read(websocket: WebSocket, call: OpenCall) -> None:
    while (message := await websocket.receive())["type"] != "websocket.disconnect":
        text, data = message.get("text"), message.get("bytes")
        await call.take(text if text is not None else data or b"")


async def _write(websocket: WebSocket, outbox: FrameQueue) -> None:
    try:
        last = await outbox.deliver(websocket.send_text)
    except (WebSocketDisconnect, RuntimeError):
        return  # it has left
    if websocket.application_state is WebSocketState.CONNECTED:
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(GOODBYE):
                await websocket.close(last.code, last.reason)
