"""What Qwen3-ASR decoded -> an answer that is judged: whether it loops, or was cut."""

import math
from dataclasses import dataclass

from livecap.engine.request import Sequence as Decoded
from livecap.events import Scores
from livecap.models.qwen3_asr.prompt import ParsedAnswer, Prompt
from livecap.models.stopping import Runaway
from livecap.text.repetition import compression_ratio

DENSEST = 10  # tokens a second, the most that are decoded; speech has about three
SPARE = 32  # tokens on top of that: the header, and a short clip's words


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One decoding of a clip, judged."""

    answer: ParsedAnswer
    tokens: tuple[int, ...]  # as sampled, but one copy of what repeats
    scores: Scores
    looped: bool
    cut: bool  # it reached the most tokens there may be

    @property
    def reason(self) -> str | None:
        """Why the audio, or its end, has no text, where that is so."""
        if self.looped:
            return "the model kept repeating itself"
        if self.cut:
            return "the text grew longer than speech can be, and was cut"
        if not self.answer.text.strip():
            return "the model found no speech in it"
        return None


def judge(prompt: Prompt, decoded: Decoded, runaway: Runaway, *, is_forced: bool) -> JudgedAnswer:
    """A finished sequence -> the answer; `is_forced`: the language was given."""
    tokens = decoded.sampled
    looped = decoded.status == "halted" or (
        runaway.repeats(tokens) and not runaway.could_be_said(tokens)
    )
    once = runaway.once(tokens) if looped else tokens
    answer = prompt.answer(once, decoded.logprobs, is_forced=is_forced)
    scores = Scores(
        tokens=tuple(tokens),
        temperature=decoded.request.temperature,
        average_logprob=sum(decoded.logprobs) / (len(decoded.logprobs) or 1),
        compression_ratio=compression_ratio(answer.text),
        no_speech_probability=0.0,
    )
    return JudgedAnswer(answer, tuple(once), scores, looped, decoded.status == "limit")


def budget(seconds: float) -> int:
    """Seconds of audio -> most tokens that are decoded for it."""
    return math.ceil(DENSEST * seconds) + SPARE
