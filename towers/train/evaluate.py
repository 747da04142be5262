"""How well a checkpoint hears, by livecap itself: offline, and live on a virtual clock.

The only place in `towers` that knows livecap: what is measured is what users run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from livecap.checkpoints import resolve
from livecap.commands.bench_measures import edits, words
from livecap.commands.bench_runs import replay
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.models.load import load_model
from livecap.models.streams import live_config
from livecap.online.job import DecodeJob
from livecap.online.speech_buffer import Piece, Segment
from livecap.runtime.batcher import Batcher
from livecap.vad.silero import load
from towers.train.manifest import Utterance, read_audio


@dataclass(frozen=True, slots=True)
class Score:
    """Errors in words, as jiwer counts them: substituted, left out, put in."""

    words: int
    offline: int
    live: int

    def __str__(self) -> str:
        if not self.words:
            return f"{self.offline} words offline and {self.live} live, where nothing was said"
        shares = (f"{100 * one / self.words:.2f} %" for one in (self.offline, self.live))
        return "WER offline {}, live {}, of {} words".format(*shares, self.words)


def evaluate(checkpoint: Path, utterances: Sequence[Utterance], *, threads: int = 0) -> Score:
    """A checkpoint's folder -> its errors. Case and punctuation don't count.

    Raises LivecapError for a checkpoint that can't be read.
    """
    loaded = load_model(resolve(str(checkpoint)), ModelConfig(threads=threads))
    silero, decode = load(), DecodeConfig(language="en")
    live = live_config(loaded.model, LiveOptions(), vad=VadConfig(), language="en")
    batcher: Batcher[int] = Batcher(loaded.model, decode, max_jobs=1)
    count = offline = streamed = 0
    for number, one in enumerate(utterances):
        pcm, reference = read_audio(one.audio), words(one.text)
        batcher.submit(number, DecodeJob(number, Segment(pcm, (Piece(0, 0, len(pcm)),)), "en"))
        while not (done := batcher.step()):
            pass
        decoded = " ".join(word.text for word in done[0][1].words)
        count += len(reference)
        offline += edits(reference, words(decoded))
        streamed += edits(reference, words(replay(loaded, silero, pcm, live, decode).text))
    return Score(count, offline, streamed)
