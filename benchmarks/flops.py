"""Operations per second of audio, counted: `python benchmarks/flops.py`.

Models of the real 0.6B shape without any weights ("meta" tensors) run through the towers' and the
decoder's own code under `torch.utils.flop_counter`. A multiplication with its addition counts as
two. Speech has 2.9 tokens a second; a stream is updated every 2 s and begins anew every 16 s.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from compare import write_table
from qwen_checkpoint import shapes
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from livecap.engine.batch import pack, turn
from livecap.engine.request import Request
from livecap.engine.request import Sequence as Decoded
from livecap.models.qwen3_asr.decoder import Qwen3Decoder, Shape
from towers import causal, qwen3_windowed
from towers.layers import dense

SEGMENT, UPDATE = 16, 2  # seconds
SPOKEN = 2.9  # tokens a second
HEAD, TAIL = 9, 9  # positions of the prompt before and after the audio, the language included
ONES = dense(torch.float32)


@dataclass(frozen=True)
class Cost:
    """GFLOP per second of audio."""

    encoder: float
    prompt: float  # audio rows, the prompt's end, and text that is read again
    decode: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.encoder + self.prompt + self.decode


def counted(work: Callable[..., Any], *given: Any, **named: Any) -> tuple[float, Any]:
    """GFLOP of some work, and what came of it."""
    with FlopCounterMode(display=False) as counter:
        result = work(*given, **named)
    return counter.get_total_flops() / 1e9, result


class Model:
    """The decoder, asked only for what it costs."""

    def __init__(self) -> None:
        tensors = weights("model.")
        self.decoder = Qwen3Decoder(
            tensors,
            shape=Shape(16, 8, 128, 1e6, 1e-6),
            head="embed_tokens.weight",
            positions=4096,
            make=ONES,
            make_head=ONES,
            dtype=torch.float32,
            device=torch.device("meta"),
        )

    def cost(self, known: int, new: int) -> float:
        """GFLOP of so many new positions after so many known ones; logits for the last alone."""
        length = known + new
        table = self.decoder.pages.admit(length)
        assert table
        self.decoder.pages.grow(table, known)
        tokens = [0] * length
        sequence = Decoded(Request(tuple(tokens), length + 1, frozenset()), tokens, table, None)
        sequence.cached = known
        batch = pack([turn(sequence, new)], self.decoder.pages, None, self.decoder.device)
        flops, _ = counted(self.decoder.forward, batch)
        self.decoder.pages.release(table)
        return flops

    def decode(self, known: int, tokens: int) -> float:
        """GFLOP of so many single steps: it grows evenly, so the middle one stands for all."""
        return tokens * self.cost(known + tokens // 2, 1)


def weights(prefix: str) -> dict[str, Tensor]:
    """The tensors of the 0.6B under a prefix, without contents."""
    return {
        name.removeprefix(prefix): torch.empty(shape)
        for name, shape in shapes().items()
        if name.startswith(prefix)
    }


def streamed(model: Model, rows: Sequence[tuple[int, int, float]], *, rereads: bool) -> Cost:
    """Updates as (rows known for good before, rows now, encoder GFLOP) -> cost of a second.

    The text so far is verified as a draft: a prompt's positions. With `rereads` nothing is kept.
    """
    encoder = prompt = decode = 0.0
    for number, (known, now, flops) in enumerate(rows):
        text = round(SPOKEN * UPDATE * number)
        fresh = round(SPOKEN * UPDATE * (number + 1)) - text
        kept = 0 if rereads or not number else HEAD + known
        length = HEAD + now + TAIL + text
        encoder += flops
        prompt += model.cost(kept, length - kept)
        decode += model.decode(length, fresh)
    return Cost(encoder / SEGMENT, prompt / SEGMENT, decode / SEGMENT)


def windowed(model: Model, window: int) -> Cost:
    """Finished windows kept, the open one run again."""
    tower = qwen3_windowed.WindowedTower(
        weights("audio_tower."), heads=14, make=ONES, window=window
    )
    state, stable, rows = tower.open(), 0, []
    for number in range(1, SEGMENT // UPDATE + 1):
        mel = torch.zeros(128, 100 * UPDATE)
        final = number * UPDATE == SEGMENT
        flops, ((found, state),) = counted(tower.encode, [state], [mel], final=final)
        rows.append((stable, stable + len(found.stable) + len(found.provisional), flops))
        stable += len(found.stable)
    return streamed(model, rows, rereads=False)


def repeated(model: Model) -> Cost:
    """All audio so far encoded again and again, and all of the prompt read again."""
    tower = qwen3_windowed.WindowedTower(weights("audio_tower."), heads=14, make=ONES)
    rows = []
    for number in range(1, SEGMENT // UPDATE + 1):
        mel = torch.zeros(128, 100 * UPDATE * number)
        flops, found = counted(tower.clip, mel)
        rows.append((0, len(found), flops))
    return streamed(model, rows, rereads=True)


def appended(model: Model) -> tuple[Cost, list[float]]:
    """The causal tower; also GFLOP of each of its blocks."""
    tower = causal.CausalTower(weights("audio_tower."), heads=14, make=ONES)
    state, known, rows, blocks = tower.open(), 0, [], []
    for number in range(1, SEGMENT // UPDATE + 1):
        mel = torch.zeros(128, 100 * UPDATE)
        final = number * UPDATE == SEGMENT
        flops, ((found, state),) = counted(tower.encode, [state], [mel], final=final)
        rows.append((known, known + len(found), flops))
        known += len(found)
    state = tower.open()
    for _ in range(16):
        mel = torch.zeros(128, causal.BLOCK_ROWS * causal.ROW_FRAMES)
        flops, ((_, state),) = counted(tower.encode, [state], [mel], final=False)
        blocks.append(flops)
    return streamed(model, rows, rereads=False), blocks


def offline(model: Model, seconds: int) -> Cost:
    """A clip at once."""
    tower = qwen3_windowed.WindowedTower(weights("audio_tower."), heads=14, make=ONES)
    flops, rows = counted(lambda: tower.clip(torch.zeros(128, 100 * seconds)))
    length = HEAD + len(rows) + TAIL
    decode = model.decode(length, round(SPOKEN * seconds))
    return Cost(flops / seconds, model.cost(0, length) / seconds, decode / seconds)


def main() -> None:
    """Count and write the table."""
    with torch.device("meta"):
        model = Model()
        causal_cost, blocks = appended(model)
        rows = [
            ("a clip of 30 s at once", offline(model, 30), "25"),
            ("everything again at each update", repeated(model), "114"),
            *(
                (f"windows of {n} s, finished ones kept", windowed(model, n), told)
                for n, told in ((8, "66"), (4, "49"), (2, "41"))
            ),
            ("causal tower", causal_cost, "42"),
        ]
    text = (
        "| method | encoder | prompt | decode | GFLOP/s of audio | published or computed before |\n"
    )
    text += "|---|---|---|---|---|---|\n"
    text += "\n".join(
        f"| {name} | {cost.encoder:.1f} | {cost.prompt:.1f} | {cost.decode:.1f} "
        f"| {cost.total:.1f} | {told} |"
        for name, cost, told in rows
    )
    text += (
        f"\n\nThe causal tower's blocks of 1.92 s cost {blocks[0]:.1f} GFLOP each at first and "
        f"{blocks[9]:.1f}, {blocks[12]:.1f}, {blocks[-1]:.1f} as the 10th, 13th and 16th: "
        "constant once the 15.6 s that it sees are full."
    )
    write_table("flops", text)


if __name__ == "__main__":
    main()
