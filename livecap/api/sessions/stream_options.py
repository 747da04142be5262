"""What a realtime session asks for -> how a live stream is cut up, and how it is decoded."""

import logging
from dataclasses import replace

from livecap.api.realtime.actions import Delay, Hearing
from livecap.config import DecodeConfig, LiveOptions, VadConfig
from livecap.events import RATE
from livecap.models.prompting import fitted
from livecap.models.protocol import Model
from livecap.models.streams import live_config
from livecap.online.config import StreamConfig

# How often speech is heard again, against what suits the model: `delay` of OpenAI's API trades the
# moment of a word for its certainty, and so does this.
PACE: dict[Delay | None, float] = {
    None: 1.0,
    "minimal": 0.5,
    "low": 0.75,
    "medium": 1.0,
    "high": 1.5,
    "xhigh": 2.5,
}
LOG = logging.getLogger("livecap.server")
LEAST, MOST = 0.01, 0.99  # thresholds of speech that mean something


def heard_by(
    hearing: Hearing, model: Model, options: LiveOptions
) -> tuple[StreamConfig, DecodeConfig]:
    """Raises ConfigError for what the model can't follow."""
    vad = VadConfig(
        vad_threshold=min(max(hearing.threshold, LEAST), MOST),
        vad_min_silence=min(VadConfig().vad_min_silence, hearing.silence_ms),
        vad_pad=hearing.prefix_padding_ms,
        vad_tail=min(VadConfig().vad_tail, hearing.silence_ms),
    )
    config = live_config(model, options, vad=vad, language=hearing.language)
    assert config.updates is not None
    updates = replace(config.updates, interval=round(config.updates.interval * PACE[hearing.delay]))
    if hearing.turns:
        silence = hearing.silence_ms * RATE // 1000
        updates = replace(updates, turns=True, endpoint_silence=silence)
        config = replace(config, max_silence=max(config.max_silence, silence))
    decode = DecodeConfig(
        language=hearing.language,
        words=hearing.words,
        prompt=hearing.prompt,
        hotwords=", ".join(hearing.keywords),
    )
    return replace(config, updates=updates), fitted(model, decode, LOG.warning, live=True)
