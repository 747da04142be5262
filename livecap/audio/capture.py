"""A microphone -> 16 kHz mono on a timeline that states what is missing.

PortAudio's thread only copies. Whoever takes the audio has it mixed and resampled (`recording.py`),
and sees to a device that is gone.
"""

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from livecap.audio.capture_buffer import (
    QUIET,
    CapturedBlock,
    CaptureQueue,
    CaptureTrack,
    Clock,
    Samples,
    SilenceAlarm,
)
from livecap.audio.devices import choose, choose_loopback, find_again
from livecap.audio.live_source import Chunk, Heard, Notice
from livecap.audio.portaudio import Device, PortAudio, devices, load_portaudio
from livecap.errors import AudioError
from livecap.events import RATE

HELD = 60  # seconds of audio kept for whoever is late to take it
ROOM = 64 << 20  # bytes that it may take
PATIENCE = 1.5  # seconds without audio after which a device counts as gone
WARM_UP = 6.0  # the same where none has come yet: wireless ones take their time
RETRY = 1.0  # seconds between two tries to open it again
SLACK = 0.2  # seconds that the system keeps for a callback that is late; its default is some 0.03
LOOK = 0.25  # seconds after which the device is looked at, audio or not
STATED = 2.0  # seconds of a gap after which it is stated, though it goes on
LAST = 0.5  # seconds in which what was recorded before `stop` may still come
JITTER = 0.005  # seconds by which clocks are off though nothing is missing
IDLE = 0.5  # seconds that nothing was played, as far as a loopback leaves that out

LATE = "this machine was too busy to take all audio"
UNPLAYED = "nothing was played"
SHOW = "`livecap devices` shows them"


class Microphone:
    """An input of this machine, at its own rate and with all its channels; an AudioIn.

    `device` is an index or a part of a name, None the default; with `loopback`, it is among those
    that carry what the computer plays. AudioError or ConfigError says why none can be opened.

    A device that goes away is opened again when it is back. For that PortAudio is started anew, so
    the process must have no other streams. A gap that is open for two seconds, or at the end, is
    stated by a chunk without samples.
    """

    def __init__(
        self,
        device: str | None = None,
        *,
        loopback: bool = False,
        sd: PortAudio | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._sd = sd or load_portaudio()
        self._clock = clock
        self._wish = device
        self.device = (choose_loopback if loopback else choose)(devices(self._sd), device)
        self._track = CaptureTrack()
        self._ear = SilenceAlarm(loopback=self.device.loopback)
        self._inbox = CaptureQueue(clock, 0)  # of the stream that is open, or was
        self._before = 0  # overflows of earlier streams
        self._last: CapturedBlock | None = None  # of this stream
        self._began = self._opened = clock()  # capture, and this stream
        self._ended = self._began  # when the last sample before an open gap was recorded
        self._gone: Device | None = None  # it was lost, and no audio has come since
        self._stated = False  # the gap, so far
        self._retry = 0.0  # when to try again
        self._until = math.inf  # when nothing more comes, after `stop`
        self._done = False
        self._rate = RATE  # Hz, of the stream
        self._stream: Any = None  # open, or None
        self._open()

    @property
    def name(self) -> str:
        """The device's, for messages."""
        return self.device.title

    @property
    def overflows(self) -> int:
        """How many times audio was lost because nobody took it fast enough."""
        return self._before + self._inbox.overflows

    def take(self, timeout: float) -> list[Heard] | None:
        """What has come; see AudioIn. It may return early, with nothing."""
        if self._done:
            return None
        items = self._receive(min(timeout, LOOK))
        now = self._clock()
        if now >= self._until:
            self._release()
            items += self._receive(0)
            items += self._track.flush()
            items += self._state(self._until)
            self._done = True
            return items or None
        if math.isinf(self._until):
            items += self._watch(now)
        return items

    def stop(self) -> None:
        """Capture no more. What was captured can still be taken."""
        if math.isinf(self._until):
            late = self._stream.latency if self._stream is not None else 0.0
            self._until = self._inbox.until = self._clock() + min(late, LAST)

    def close(self) -> None:
        """Release the device. Safe to call twice."""
        self._done = True
        self._release()

    def _receive(self, timeout: float) -> list[Heard]:
        """Blocks that have come -> chunks, and what there is to say about them."""
        items: list[Heard] = []
        run: list[Samples] = []  # blocks that follow each other
        for block in self._inbox.take(timeout):
            missing, reason = self._missing(block)
            if missing > 0:
                items += self._track.feed(run)
                items += self._track.skip(missing, reason)
                run = []
            if self._gone:
                items.append(self._returned(self._gone))
            run.append(block.pcm)
            if self._ear.listen(block.pcm, self._rate):
                items.append(Notice(self._silent()))
            self._last = block
        return items + self._track.feed(run)

    def _missing(self, block: CapturedBlock) -> tuple[float, str]:
        """Seconds of audio that are missing before a block, and why."""
        last = self._last
        if last is None:
            gap = block.arrived - len(block.pcm) / self._rate - self._ended
            if self._gone:
                return gap, _was_gone(self._gone)
            return (gap if self.device.loopback and gap > IDLE else 0.0), UNPLAYED
        dropped = (block.first - last.end) / self._rate  # for lack of room, so known exactly
        # time stamps that make no sense must not carry the timeline into the future
        limit = block.arrived - self._began - self._track.end / RATE + 1.0
        jump = min(block.recorded - last.recorded - len(last.pcm) / self._rate, limit)
        if block.overflow and jump > JITTER:
            return max(dropped, jump), LATE
        if self.device.loopback and jump > max(IDLE, dropped):
            return jump, UNPLAYED
        return dropped, LATE

    def _silent(self) -> str:
        if self.device.loopback:
            return f"no sound for {QUIET} s: is anything playing through {self.name}?"
        return f"no sound for {QUIET} s: is {self.name} the right microphone? {SHOW}"

    def _watch(self, now: float) -> list[Heard]:
        """Sees that the device is gone, and opens it again."""
        if self._stream is not None:
            return [] if self._is_alive(now) else self._lose(now)
        items: list[Heard] = []
        if not self._stated and now - self._ended >= STATED:
            items += self._state(now)
        if now >= self._retry:
            self._retry = now + RETRY
            with suppress(AudioError, self._sd.PortAudioError):
                self._reopen()
        return items

    def _is_alive(self, now: float) -> bool:
        with suppress(self._sd.PortAudioError):
            if self._inbox.is_finished or not self._stream.active:
                return False
            if self.device.loopback:
                return True  # Windows gives nothing while nothing is played (PortAudio #935)
            arrived = self._inbox.arrived
            return now - self._opened < WARM_UP if arrived is None else now - arrived < PATIENCE
        return False

    def _lose(self, now: float) -> list[Heard]:
        """The device is gone: gives out what came before."""
        self._release()
        items = self._receive(0)
        items += self._track.flush()
        if self._inbox.arrived is not None:
            self._ended = self._inbox.arrived
        self._last = None
        self._retry = now + RETRY
        if not self._gone:
            self._gone, self._stated = self.device, False
            items.append(
                Notice(
                    f"{self.name} is gone; captions go on once it is back. Plug it in again, or "
                    f"stop and choose another: {SHOW}"
                )
            )
        return items

    def _returned(self, lost: Device) -> Notice:
        self._gone = None
        if self.device.model == lost.model:
            return Notice(f"{self.name} is back")
        return Notice(f"{self.name} is heard in place of {lost.title}")

    def _state(self, now: float) -> list[Chunk]:
        """The gap up to now, while the device is gone."""
        if not self._gone:
            return []
        chunks = self._track.skip(max(0.0, now - self._ended), _was_gone(self._gone))
        self._ended, self._stated = max(now, self._ended), True
        return [*chunks, self._track.mark()]

    def _reopen(self) -> None:
        """Start PortAudio anew, which sees only then what was plugged in, and open the device."""
        with suppress(self._sd.PortAudioError):  # it is down already if it failed to start
            self._sd._terminate()
        self._sd._initialize()
        found = find_again(devices(self._sd), self.device, self._wish)
        if found is not None:
            self.device = found
            self._open()

    def _open(self) -> None:
        failure: Exception | None = None
        for channels in self.device.counts:
            rate = self.device.rate
            inbox = CaptureQueue(self._clock, min(HELD * rate, ROOM // (4 * channels)))
            stream: Any = None
            try:
                with _recording(self.device.source):
                    stream = self._sd.InputStream(
                        device=self.device.index,
                        samplerate=rate,
                        channels=channels,
                        dtype="float32",
                        latency=SLACK,
                        callback=inbox,
                        finished_callback=inbox.finish,
                    )
                    stream.start()
            except (self._sd.PortAudioError, ValueError) as error:
                failure = error
                if stream is not None:
                    stream.close()
                continue
            self._before += self._inbox.overflows
            inbox.until = self._until
            self._inbox, self._stream, self._rate = inbox, stream, rate
            self._opened = self._clock()
            self._ear = SilenceAlarm(loopback=self.device.loopback)
            self._track.open(rate, channels)
            return
        raise AudioError(
            f"{self.name} can't be opened: {failure}",
            remedy=f"Close other programs that use it, or choose another input: {SHOW}",
        )

    def _release(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.abort()  # PortAudio may hang in `close` without it
            stream.close()


def _was_gone(device: Device) -> str:
    return f"{device.title} was gone"


@contextmanager
def _recording(source: str) -> Iterator[None]:
    """Streams opened meanwhile record this source: libpulse asks the environment for its name."""
    before = os.environ.get("PULSE_SOURCE")
    if source:
        os.environ["PULSE_SOURCE"] = source
    try:
        yield
    finally:
        if source and before is None:
            del os.environ["PULSE_SOURCE"]
        elif source:
            os.environ["PULSE_SOURCE"] = before or ""
