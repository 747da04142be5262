"""What a user chose and what suits a model -> how a live stream is cut up and said."""

from livecap.commit import AlignAtt, AppendOnly, CommitPolicy, LocalAgreement, Rollback
from livecap.config import LiveOptions, VadConfig
from livecap.errors import ConfigError
from livecap.events import RATE
from livecap.live_config import LiveConfig
from livecap.models.protocol import Model


def commit_policy(name: str) -> CommitPolicy | None:
    """A policy by its name, with its published constants; None if there is none."""
    policies: dict[str, CommitPolicy] = {
        "append-only": AppendOnly(),
        "rollback": Rollback(),
        "local-agreement": LocalAgreement(),
        "align-att": AlignAtt(),
    }
    return policies.get(name)


def live_config(
    model: Model, options: LiveOptions, *, vad: VadConfig | None, language: str | None
) -> LiveConfig:
    """For one stream of a model. Raises ConfigError for a policy that doesn't suit it."""
    traits = model.live
    name = traits.policies[0] if options.policy == "auto" else options.policy
    policy = commit_policy(name) if name in traits.policies else None
    if policy is None:
        raise ConfigError(
            f"--policy: {model.name} has no {options.policy!r}",
            remedy=f"It has: auto, {', '.join(traits.policies)}.",
        )
    only = model.languages[0] if len(model.languages) == 1 else None
    return LiveConfig(
        policy=policy,
        vad=vad,
        interval=round(options.update * RATE) or traits.interval,
        lead=traits.lead,
        pause=options.pause * RATE // 1000 or traits.pause,
        sentence=traits.sentence,
        bridge=max(traits.bridge, options.pause * RATE // 1000),
        most=traits.most,
        carry=options.carry,
        language=language or only,
    )
