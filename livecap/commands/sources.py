"""What `livecap mic` was told to listen to -> how that is opened."""

import math
from collections.abc import Callable

from livecap.audio import RawFormat
from livecap.audio.live_source import AudioIn
from livecap.errors import ConfigError


def source_of(
    recording: str | None, *, device: str | None, loopback: bool, speed: float, raw: str | None
) -> Callable[[], AudioIn]:
    """A recording ('-': standard input), or else a device. Raises ConfigError for what clashes."""
    if recording is None:
        if speed != 1.0 or raw is not None:
            raise ConfigError(
                "--speed and --raw are for recordings",
                remedy="Name one with --from, or - for a pipe.",
            )
        return _microphone(device, loopback=loopback)
    if device is not None or loopback:
        raise ConfigError(
            "--from takes the place of a device", remedy="Leave out --device and --loopback."
        )
    if not (math.isfinite(speed) and (speed == 0 or 0.1 <= speed <= 100)):
        raise ConfigError(f"--speed can't be {speed}", remedy="Use 0.1 to 100, or 0.")
    layout = None if raw is None else RawFormat.parse(raw)

    def opened() -> AudioIn:
        from livecap.audio.file_source import Recorded
        from livecap.audio.prefetch import Pump, ReadConfig

        pump = Pump(recording, ReadConfig(raw=layout))
        # A pipe has its own pace: what comes is what has been said.
        return Recorded(pump, speed=0.0 if pump.is_live else speed)

    return opened


def _microphone(device: str | None, *, loopback: bool) -> Callable[[], AudioIn]:
    def opened() -> AudioIn:
        from livecap.audio.capture import Microphone

        return Microphone(device, loopback=loopback)

    return opened
