"""Pipecat's realtime speech-to-text on a server: `python plugin_pipecat.py URL WAV --vad on`.

Runs in an environment of its own (`pip install 'pipecat-ai[openai]'`). With server VAD it asks for
`gpt-transcribe`, as its documentation has it; without, for its default model, and Pipecat's own
voice activity detection commits. Prints one line of JSON.
"""

import argparse
import asyncio
import json
import time
import wave
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.services.openai.stt import OpenAIRealtimeSTTService
from pipecat.workers.runner import WorkerRunner

MODELS = {"on": "gpt-transcribe", "off": "gpt-realtime-whisper"}
PIECE = 0.02  # seconds
QUIET = 5.0  # seconds without a frame of text, after the audio, that end it


class Notes(BaseObserver):  # type: ignore[misc] # its package has no types here
    """Counts what the service says."""

    def __init__(self, service: OpenAIRealtimeSTTService) -> None:
        super().__init__()
        self._service = service
        self._known: set[int] = set()
        self.finals: list[str] = []
        self.interims = 0
        self.errors: list[str] = []
        self.last = time.monotonic()

    async def on_push_frame(self, data: FramePushed) -> None:
        """Pipecat's call for each frame that goes from one processor to the next."""
        frame = data.frame
        if data.source is not self._service or frame.id in self._known:
            return
        self._known.add(frame.id)
        if isinstance(frame, InterimTranscriptionFrame):
            self.interims += 1
        elif isinstance(frame, TranscriptionFrame):
            self.finals.append(frame.text)
        elif isinstance(frame, ErrorFrame):
            self.errors.append(frame.error)
        else:
            return
        self.last = time.monotonic()


async def transcribe(url: str, path: Path, vad: str) -> Notes:
    """One pipeline at the speed of speech."""
    service = OpenAIRealtimeSTTService(
        api_key="none",
        base_url=f"{url.replace('http', 'ws', 1)}/realtime",
        turn_detection={"type": "server_vad"} if vad == "on" else False,
        settings=OpenAIRealtimeSTTService.Settings(model=MODELS[vad]),
    )
    before = [] if vad == "on" else [VADProcessor(vad_analyzer=SileroVADAnalyzer())]
    with wave.open(str(path)) as opened:
        rate, pcm = opened.getframerate(), opened.readframes(opened.getnframes())
    notes = Notes(service)
    worker = PipelineWorker(
        Pipeline([*before, service]),
        cancel_on_idle_timeout=False,
        observers=[notes],
        params=PipelineParams(audio_in_sample_rate=rate),
    )
    started = asyncio.Event()

    async def begun(worker: PipelineWorker, frame: Frame) -> None:
        started.set()

    worker.add_event_handler("on_pipeline_started", begun)

    async def drive() -> None:
        await started.wait()
        await speak(worker.queue_frame, rate, pcm)
        notes.last = max(notes.last, time.monotonic())
        while time.monotonic() - notes.last < QUIET:
            await asyncio.sleep(0.1)
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), drive())
    return notes


async def speak(queue: Callable[[Frame], Any], rate: int, pcm: bytes) -> None:
    """The recording, as a microphone gives it."""
    size, begun = round(rate * PIECE) * 2, time.monotonic()
    for at in range(0, len(pcm) - size + 1, size):
        await asyncio.sleep(max(0.0, begun + (at + size) / 2 / rate - time.monotonic()))
        await queue(InputAudioRawFrame(pcm[at : at + size], rate, 1))


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("wav", type=Path)
    parser.add_argument("--vad", choices=("on", "off"), required=True)
    options = parser.parse_args()
    notes = asyncio.run(transcribe(options.url, options.wav, options.vad))
    found = {"finals": notes.finals, "interims": notes.interims, "errors": notes.errors}
    told = {"version": version("pipecat-ai"), "model": MODELS[options.vad], **found}
    print(json.dumps(told, ensure_ascii=False))


if __name__ == "__main__":
    main()
