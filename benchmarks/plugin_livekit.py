"""LiveKit's OpenAI speech-to-text on a server: `python plugin_livekit.py URL WAV --vad on`.

Runs in an environment of its own (`pip install livekit-agents livekit-plugins-openai`). With server
VAD it asks for its default model and settings; without, for `gpt-live-transcribe`, for which it has
its own voice activity detection commit. Prints one line of JSON.
"""

import argparse
import asyncio
import json
import time
import wave
from importlib.metadata import version
from pathlib import Path
from typing import Any

from livekit import rtc
from livekit.agents import stt, utils
from livekit.plugins import openai

MODELS = {"on": "gpt-4o-mini-transcribe", "off": "gpt-live-transcribe"}
PIECE = 0.02  # seconds
QUIET = 5.0  # seconds without an event, after the audio, that end it


async def transcribe(url: str, path: Path, vad: str) -> dict[str, Any]:
    """One stream at the speed of speech."""
    found: dict[str, Any] = {"finals": [], "interims": 0, "errors": [], "events": []}
    async with utils.http_context.open():
        plugin = openai.STT(model=MODELS[vad], base_url=url, api_key="none", use_realtime=True)
        plugin.on("error", lambda error: found["errors"].append(str(error.error)))
        stream = plugin.stream()
        last = time.monotonic()

        async def listen() -> None:
            nonlocal last
            async for event in stream:
                last = time.monotonic()
                found["events"].append(event.type.value)
                if event.type is stt.SpeechEventType.FINAL_TRANSCRIPT:
                    found["finals"].append(event.alternatives[0].text)
                found["interims"] += event.type is stt.SpeechEventType.INTERIM_TRANSCRIPT

        listening = asyncio.create_task(listen())
        await speak(stream, path)
        last = max(last, time.monotonic())
        while time.monotonic() - last < QUIET and not listening.done():
            await asyncio.sleep(0.1)
        if listening.done() and (error := listening.exception()):
            found["errors"].append(f"{type(error).__name__}: {error}")
        listening.cancel()
        await stream.aclose()
        await plugin.aclose()
    return found


async def speak(stream: stt.RecognizeStream, path: Path) -> None:
    """The recording, as a microphone gives it."""
    with wave.open(str(path)) as opened:
        rate, pcm = opened.getframerate(), opened.readframes(opened.getnframes())
    size, begun = round(rate * PIECE) * 2, time.monotonic()
    for at in range(0, len(pcm) - size + 1, size):
        await asyncio.sleep(max(0.0, begun + (at + size) / 2 / rate - time.monotonic()))
        stream.push_frame(rtc.AudioFrame(pcm[at : at + size], rate, 1, size // 2))


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("wav", type=Path)
    parser.add_argument("--vad", choices=("on", "off"), required=True)
    options = parser.parse_args()
    found = asyncio.run(transcribe(options.url, options.wav, options.vad))
    told = {"version": version("livekit-plugins-openai"), "model": MODELS[options.vad], **found}
    print(json.dumps(told, ensure_ascii=False))


if __name__ == "__main__":
    main()
