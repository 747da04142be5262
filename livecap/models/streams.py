"""What a user chose and what suits a model -> how a live stream is segmented and committed."""

from livecap.config import LiveOptions, VadConfig
from livecap.errors import ConfigError
from livecap.events import RATE
from livecap.models.protocol import Model
from livecap.online.config import StreamConfig, UpdateConfig
from livecap.online.policy import (
    AlignAtt,
    AppendOnly,
    CommitPolicy,
    LocalAgreement,
    Rollback,
)

POLICIES: dict[str, CommitPolicy] = {
    "append-only": AppendOnly(),
    "rollback": Rollback(),
    "local-agreement": LocalAgreement(),
    "align-att": AlignAtt(),
}


def live_config(
    model: Model, options: LiveOptions, *, vad: VadConfig | None, language: str | None
) -> StreamConfig:
    """For one stream of a model. Raises ConfigError for a policy that doesn't suit it."""
    suits = model.streaming
    name = suits.policies[0] if options.policy == "auto" else options.policy
    if name not in suits.policies:
        raise ConfigError(
            f"--policy: {model.name} has no {options.policy!r}",
            remedy=f"It has: auto, {', '.join(suits.policies)}.",
        )
    only = model.languages[0] if len(model.languages) == 1 else None
    return StreamConfig(
        vad=vad,
        max_segment=suits.max_segment,
        max_silence=max(suits.max_silence, options.pause * RATE // 1000),
        language=language or only,
        updates=UpdateConfig(
            policy=POLICIES[name],
            interval=round(options.update * RATE) or suits.interval,
            first_update=suits.first_update,
            pause_update=suits.pause_update,
            endpoint_silence=options.pause * RATE // 1000 or suits.endpoint_silence,
            min_sentence=suits.min_sentence,
            context_words=options.carry,
        ),
    )
