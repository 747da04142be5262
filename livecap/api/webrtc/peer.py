"""The WebRTC connection of a call, by aiortc: an offer -> an answer, frames and messages."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpCodecCapability,
    RTCRtpReceiver,
    RTCSessionDescription,
)
from aiortc.exceptions import InternalError, InvalidStateError, OperationError
from aiortc.mediastreams import MediaStreamError
from aiortc.sdp import candidate_from_sdp
from av import AudioFrame

from livecap.api.ice_servers import IceServer
from livecap.api.realtime.formats import Int16
from livecap.api.webrtc.candidates import CANDIDATES, TooMany, is_reachable
from livecap.api.webrtc.ice import reach
from livecap.api.webrtc.offers import BadOffer, count, usable
from livecap.api.webrtc.reorder import put_in_order

CHANNEL = "oai-events"
HIGH, LOW = 256 << 10, 64 << 10  # bytes that may wait in the data channel; then, that are left
CONNECT = 10.0  # seconds until a peer is there, or never will be
FREED = 5.0  # seconds for the connection to close
RATE = 48_000  # Hz: Opus, as it is decoded


class RtcPeer:
    """See `call.Peer`. For the event loop alone."""

    def __init__(self, servers: Sequence[IceServer]) -> None:
        self.has_channel = False
        self.opened = asyncio.Event()
        self.gone = asyncio.Event()
        self._connection = RTCPeerConnection(
            RTCConfiguration(
                [RTCIceServer(one.url, one.user, one.password) for one in servers]
            )  # an empty list, not None, which means a server of the library's choice
        )
        self.on_message: Callable[[str | bytes], None] = lambda message: None
        self._channel: RTCDataChannel | None = None
        self._room = asyncio.Event()  # little waits in the data channel, or it is closed
        self._track: MediaStreamTrack | None = None
        self.user = ""
        self._is_local = False
        self._candidates = 0  # of the client, so far
        self._mid = ""  # of the section whose transport all share
        self._waits: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._connection.on("connectionstatechange", self._changed)
        self._connection.on("track", self._take_track)
        self._connection.on("datachannel", self._take_channel)

    async def answer(self, text: str, *, is_ingest: bool, is_local: bool) -> str:
        """An offer -> the answer, with all of our addresses. `is_local`: from this machine.

        Raises BadOffer.
        """
        offer = usable(text, is_ingest=is_ingest, is_local=is_local)
        self._is_local, self._candidates = is_local, count(offer)
        connection = self._connection
        audio = connection.addTransceiver("audio", "recvonly")
        audio.setCodecPreferences([_opus()])
        put_in_order(audio.receiver)
        try:
            await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        except (InternalError, OperationError, InvalidStateError, ValueError) as error:
            raise BadOffer(f"The offer can't be followed: {error}") from error
        transports = {one.receiver.transport.transport for one in connection.getTransceivers()}
        if connection.sctp:
            self.has_channel = True
            transports.add(connection.sctp.transport.transport)
        for transport in transports:
            reach(transport, is_local=is_local)
        await connection.setLocalDescription()
        for transceiver in connection.getTransceivers():
            if transceiver.receiver.track is not self._track:
                _ignore(transceiver.receiver)
        self._mid = audio.mid or ""
        self.user = next(
            line.removeprefix("a=ice-ufrag:")
            for line in offer.splitlines()
            if line.startswith("a=ice-ufrag:")
        )
        self._waits = asyncio.get_running_loop().call_later(CONNECT, self.gone.set)
        return connection.localDescription.sdp

    async def frames(self) -> AsyncIterator[tuple[int, Int16]]:
        """See `call.Peer`."""
        while self._track:
            try:
                frame = await self._track.recv()
            except MediaStreamError:
                return
            if isinstance(frame, AudioFrame) and frame.pts is not None:
                yield frame.pts, mono(frame)

    async def send(self, text: str) -> None:
        """See `call.Peer`."""
        channel = self._open_channel()
        while channel.bufferedAmount > HIGH:
            self._room.clear()
            await self._room.wait()
            self._open_channel()
        channel.send(text)

    async def finish(self) -> None:
        """See `call.Peer`. A channel is closed only after what was sent has arrived."""
        self._open_channel().close()
        await self.gone.wait()

    async def trickle(self, candidates: Sequence[str]) -> None:
        """See `call.Peer`."""
        self._candidates += len(candidates)
        if self._candidates > CANDIDATES:
            raise TooMany
        for value in candidates:
            if not is_reachable(value, is_local=self._is_local):
                continue
            if self._connection.connectionState in ("new", "connecting"):
                candidate = candidate_from_sdp(value)
                candidate.sdpMid = self._mid
                await self._connection.addIceCandidate(candidate)

    async def close(self) -> None:
        """See `call.Peer`. The library must not be cancelled in the middle of this."""
        if self._waits:
            self._waits.cancel()
        self.gone.set()
        self._room.set()
        if self._closing is None:
            self._closing = asyncio.create_task(self._connection.close())
        with suppress(TimeoutError):
            async with asyncio.timeout(FREED):
                await asyncio.shield(self._closing)

    def _open_channel(self) -> RTCDataChannel:
        if self._channel is None or self._channel.readyState != "open":
            raise ConnectionError
        return self._channel

    def _changed(self) -> None:
        state = self._connection.connectionState
        if state == "connected" and self._waits:
            self._waits.cancel()
        elif state in ("failed", "closed"):
            self._leave()

    def _leave(self) -> None:
        self.gone.set()
        self._room.set()

    def _take_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "audio" and self._track is None:
            self._track = track

    def _take_channel(self, channel: RTCDataChannel) -> None:
        if channel.label != CHANNEL or self._channel:
            return
        self._channel = channel
        channel.bufferedAmountLowThreshold = LOW
        channel.on("bufferedamountlow", self._room.set)
        channel.on("close", self._leave)
        channel.on("message", self._take_message)
        self.opened.set()

    def _take_message(self, message: str | bytes) -> None:
        self.on_message(message)


def mono(frame: AudioFrame) -> Int16:
    """A frame of 16-bit samples -> the mean of its channels, [sample]."""
    packed: Int16 = frame.to_ndarray().reshape(-1, len(frame.layout.channels))
    if packed.shape[1] == 1:
        return packed[:, 0]
    mean: Int16 = (packed.sum(axis=1, dtype=np.int32) // packed.shape[1]).astype(np.int16)
    return mean


def _opus() -> RTCRtpCodecCapability:
    known = RTCRtpReceiver.getCapabilities("audio")
    codecs = known.codecs if known else []
    return next(codec for codec in codecs if codec.mimeType.lower() == "audio/opus")


def _ignore(receiver: RTCRtpReceiver) -> None:
    """Its packets are thrown away before they are put together and decoded.

    Encoders that offer video want it to be accepted, and to decode what nobody looks at could take
    the whole machine. The library has a switch for that, which it doesn't document.
    """
    receiver._enabled = False
