"""One window -> text: decoded, judged, and decoded again while it isn't believable.

Source: openai-whisper (transcribe.py, decoding.py), whose thresholds these are.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from livecap.checkpoints import GenerationFacts
from livecap.config import DecodeConfig
from livecap.engine.request import Memory, Request, Rule
from livecap.engine.request import Sequence as Decoded
from livecap.engine.sampler import Prefer, Suppress, SuppressFirst, Timestamps
from livecap.events import Scores
from livecap.models.protocol import Ahead, Step
from livecap.models.stopping import SPOKEN, Runaway
from livecap.models.whisper.attempt import NO_SPEECH, Attempt, best_of
from livecap.online.job import PrefixState
from livecap.text.repetition import compression_ratio, is_crowded
from livecap.tokens import Tokenizer

REPETITIVE = 2.4  # compression ratio from which text counts as a loop

# How much likelier than a committed text another one must be. Whisper changes its mind about what
# it has little to tell by, and text that is committed can't be taken back.
PREFERENCE = 3.0

DENSE, BRIEFEST = 20, 16  # tokens a second, and besides: no speech in any script has more

ANEW = 100  # seeds between the tries with timestamps and those without
GUESSED = 0.5  # temperature above which text is guessed at: none such is tried the other way

PHRASE = 3  # tokens: less is said again and again where there is nothing to hear
SURE = -0.4  # mean log-probability from which a repetition is believed, if no context led there


@dataclass(frozen=True, slots=True)
class _Window:
    """What is decoded."""

    memory: Memory
    language: str
    seconds: float  # of audio
    deadline: float


@dataclass(frozen=True, slots=True)
class Fallback:
    """Decodes windows of one model, at rising temperatures where need be."""

    tokenizer: Tokenizer
    facts: GenerationFacts
    limit: int  # most positions of a sequence
    device: torch.device

    def given(self, config: DecodeConfig) -> list[int]:
        """The prompt and hotwords of the options, as tokens."""
        given = [text.strip() for text in (config.hotwords, config.prompt) if text.strip()]
        return self.tokenizer.encode(" " + " ".join(given)) if given else []

    def decode(
        self,
        memory: Memory,
        language: str,
        config: DecodeConfig,
        context: Sequence[int],
        *,
        seconds: float,
        seed: int,
        prefix: PrefixState | None = None,
        deadline: float = math.inf,
    ) -> Generator[Step, Any, Attempt]:
        """Decode `seconds` of audio at rising temperatures until the text is believable.

        If it never is because it loops, it is tried the other way, without timestamps or with them,
        which leads past most loops. In the end the likeliest is taken. `prefix` is what is known of
        the text. Before a deadline all temperatures are begun at once when the first text isn't
        believable, and the other way is tried at the first alone.
        """
        window = _Window(memory, language, seconds, deadline)
        ladder: Sequence[float] = config.temperatures
        found, attempts = yield from self._rise(window, config, ladder, context, seed, prefix)
        if found is None and any(attempt.looped for attempt in attempts):
            other = replace(config, no_timestamps=config.timestamps, prompt="", hotwords="")
            ladder = ladder[:1] if deadline < math.inf else _unguessed(ladder)
            found, more = yield from self._rise(window, other, ladder, (), seed + ANEW, None)
            attempts += more
        best = found or best_of(attempts)
        if config.timestamps:
            return best
        return best.untimed(self.tokenizer.specials.timestamp_begin)

    def _rise(
        self,
        window: _Window,
        config: DecodeConfig,
        temperatures: Sequence[float],
        context: Sequence[int],
        seed: int,
        prefix: PrefixState | None,
    ) -> Generator[Step, Any, tuple[Attempt | None, list[Attempt]]]:
        """One way to decode, at rising temperatures: the first believable text, if there is one,
        and those before it.
        """
        seconds, deadline = window.seconds, window.deadline
        start = self._start(window.language, config)
        runaway = self._runaway(seconds)
        common = self._request(window, start, config, runaway, prefix)
        greedy, hot = self._tries(common, config, temperatures, context, seed, prefix)
        attempts: list[Attempt] = []
        unled: float | None = None  # probability of no speech where nothing leads the model
        for request in (*greedy, *hot):
            if deadline < math.inf and hot and request is hot[0]:
                yield Ahead(hot)
            decoded: Decoded = yield request
            led = len(request.prompt) > len(start)
            attempt = self._judge(decoded, runaway, seconds, led=led)
            if led and attempt.is_bad:
                if unled is None:
                    unled = yield from self._no_speech(window.memory, start)
                attempt = attempt.with_no_speech(unled)
            likely = any(earlier.is_likely for earlier in attempts)
            if likely and not led:
                # Unled, the model has found a likely text, if one that loops: it is no silence.
                attempt = attempt.with_no_speech(NO_SPEECH)
            if deadline < math.inf and not led and self._is_said_once(decoded, attempt, seconds):
                return replace(attempt, looped=False), attempts
            if not attempt.is_bad:
                return attempt, attempts
            attempts.append(attempt)
        return None, attempts

    def _is_said_once(self, decoded: Decoded, attempt: Attempt, seconds: float) -> bool:
        """Whether what a loop repeats is believable as it stands, for those who wait for it: said
        once it fits the time, and the model was as sure of it as of what nobody doubts.
        """
        count = len(attempt.tokens)
        likely = sum(decoded.logprobs[:count]) / max(count, 1)
        return (
            attempt.looped
            and count < len(decoded.sampled)
            and PHRASE <= count <= SPOKEN * seconds + 1
            and likely >= SURE
            and attempt.scores.no_speech_probability <= NO_SPEECH
        )

    def _tries(
        self,
        common: Request,
        config: DecodeConfig,
        temperatures: Sequence[float],
        context: Sequence[int],
        seed: int,
        prefix: PrefixState | None,
    ) -> tuple[tuple[Request, ...], tuple[Request, ...]]:
        """Those at the first temperature, and those at all others."""
        start, room = common.prompt, common.limit
        first, *others = temperatures
        draft = prefix.draft if prefix else ()

        given = self.given(config)

        def request(temperature: float, number: int, before: Sequence[int] = ()) -> Request:
            prompt = (*self._leading(given, before), *start)
            limit = min(len(prompt) + room, self.limit)
            return replace(
                common,
                prompt=prompt,
                limit=limit,
                temperature=temperature,
                seed=seed + number,
                watch=(len(prompt) - len(start), self.tokenizer.specials.nospeech),
                draft=() if temperature or number else draft[: limit - len(prompt) - 1],
            )

        greedy = [request(first, 0, context)]
        if context:
            # A text that goes on from a loop most likely loops: it is tried again without.
            greedy.append(request(first, 1))
        hot = [request(other, len(greedy) + index) for index, other in enumerate(others)]
        return tuple(greedy), tuple(hot)

    def _leading(self, given: Sequence[int], context: Sequence[int]) -> tuple[int, ...]:
        """Text that the model goes on from -> the start of a prompt. What the user gave stays; of
        the text so far there is as much of its end as fits behind it.
        """
        capacity = self.limit // 2 - 1
        left = max(capacity - len(given), 0)
        last = [*given, *context[max(len(context) - left, 0) :]][-capacity:]
        return (self.tokenizer.specials.startofprev, *last) if last else ()

    def decode_once(
        self,
        memory: Memory,
        language: str,
        config: DecodeConfig,
        context: Sequence[int],
        *,
        seconds: float,
        seed: int,
        prefix: PrefixState | None = None,
        deadline: float = math.inf,
    ) -> Generator[Step, Any, Attempt]:
        """As `decode`, at the first temperature alone."""
        window = _Window(memory, language, seconds, deadline)
        start, runaway = self._start(language, config), self._runaway(seconds)
        common = self._request(window, start, config, runaway, prefix)
        once = config.temperatures[:1]
        (request, *_), _ = self._tries(common, config, once, context, seed, prefix)
        decoded: Decoded = yield request
        attempt = self._judge(decoded, runaway, seconds, led=len(request.prompt) > len(start))
        if attempt.is_hopeless:
            return attempt.without_text(looped=attempt.looped)
        return attempt

    def _start(self, language: str, config: DecodeConfig) -> list[int]:
        return self.tokenizer.prompt(language, task=config.task, timestamps=config.timestamps)

    def _runaway(self, seconds: float) -> Runaway:
        return Runaway(self.tokenizer.specials.timestamp_begin, int(SPOKEN * seconds))

    def _request(
        self,
        window: _Window,
        start: Sequence[int],
        config: DecodeConfig,
        runaway: Runaway,
        prefix: PrefixState | None,
    ) -> Request:
        """What all tries have in common. Its limit is what may come after the prompt."""
        rules = self._rules(config)
        if prefix and prefix.committed:
            rules = (*rules, Prefer(prefix.committed, PREFERENCE))
        return Request(
            prompt=tuple(start),
            limit=min(self.limit // 2, int(DENSE * window.seconds) + BRIEFEST),
            ends=frozenset({self.tokenizer.specials.eot}),
            rules=rules,
            memory=window.memory,
            halt=runaway,
            deadline=window.deadline,
        )

    def _no_speech(self, memory: Memory, start: Sequence[int]) -> Generator[Step, Any, float]:
        """The probability of no speech. A prompt or context before it all but hides it."""
        watch = (0, self.tokenizer.specials.nospeech)
        decoded: Decoded = yield Request(
            tuple(start), len(start) + 1, frozenset(), memory=memory, watch=watch
        )
        return decoded.watched or 0.0

    def _rules(self, config: DecodeConfig) -> tuple[Rule, ...]:
        specials, device = self.tokenizer.specials, self.device
        never = torch.tensor(self.facts.suppress, dtype=torch.long, device=device)
        first = torch.tensor(self.facts.suppress_at_begin, dtype=torch.long, device=device)
        rules: tuple[Rule, ...] = (Suppress(never), SuppressFirst(first))
        if not config.timestamps:
            times = torch.arange(specials.timestamp_begin, specials.timestamp_end + 1)
            return (*rules, Suppress(times.to(device)))
        grammar = Timestamps(
            specials.timestamp_begin, specials.timestamp_end, specials.eot, specials.notimestamps
        )
        return (*rules, grammar)

    def _judge(self, decoded: Decoded, runaway: Runaway, seconds: float, *, led: bool) -> Attempt:
        tokens = decoded.sampled
        text = self.tokenizer.decode(tokens)
        ratio = compression_ratio(text)
        likely = sum(decoded.logprobs) / (len(decoded.logprobs) or 1)
        looped = decoded.status == "halted" or ratio > REPETITIVE or runaway.repeats(tokens)
        if looped and likely >= SURE and not led and runaway.could_be_said(tokens):
            looped = False
        if looped:
            tokens = runaway.once(tokens)
        if is_crowded(self.tokenizer.decode(tokens), seconds):
            looped, tokens = True, []  # which of it was said, nobody knows
        scores = Scores(
            tokens=tuple(tokens),
            temperature=decoded.request.temperature,
            average_logprob=likely,
            compression_ratio=ratio,
            no_speech_probability=decoded.watched or 0.0,
        )
        probs = tuple(math.exp(logprob) for logprob in decoded.logprobs[: len(tokens)])
        return Attempt(tuple(tokens), probs, text, scores, looped, decoded.status == "limit")


def _unguessed(temperatures: Sequence[float]) -> Sequence[float]:
    """Those at which something is tried that was not asked for."""
    return [one for one in temperatures if one <= GUESSED] or temperatures[:1]
