"""Where lines are sent on to: options, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from livecap.errors import ConfigError
from livecap.output.push.addresses import check, secret_of

SECRET = "LIVECAP_WEBHOOK_SECRET"  # of the environment
PASSWORD = "LIVECAP_OBS_PASSWORD"
OBS = f"Write it as ws://localhost:4455, and the password into {PASSWORD}."


@dataclass(frozen=True, slots=True)
class PushOptions:
    """Receivers of final captions. Fields are flags, their texts the help."""

    webhook: tuple[str, ...] = field(default=(), repr=False)
    """A URL to which every final caption is sent as JSON; again for more."""
    webhook_secret: str = field(default="", repr=False)
    """Signs that as the Standard Webhooks specification says: base64, with or without whsec_ before
    it. LIVECAP_WEBHOOK_SECRET keeps it out of the list of processes."""
    obs: str = ""
    """An OBS Studio whose stream gets captions, as in ws://localhost:4455 (its WebSocket server).
    When several people speak, OBS, YouTube and Zoom get the one whose session began last of those
    that have said something and go on; a webhook gets all."""
    obs_password: str = field(default="", repr=False)
    """Its password; LIVECAP_OBS_PASSWORD keeps it out of the list of processes."""
    obs_source: str = ""
    """A text source in that OBS which shows the last two rows."""
    youtube: str = field(default="", repr=False)
    """The caption URL of a YouTube live stream, which has to have a delay of 30 or 60 s."""
    zoom: str = field(default="", repr=False)
    """The caption URL (API token) of a Zoom meeting."""

    def __post_init__(self) -> None:
        urls = [("--webhook", url) for url in self.webhook]
        urls += [("--youtube", self.youtube), ("--zoom", self.zoom)]
        for option, url in urls:
            if url or option == "--webhook":
                check(url, option, "http", "https", remedy="Write it as https://host/path.")
        if self.webhook_secret:
            secret_of(self.webhook_secret, "--webhook-secret")
        if self.obs:
            check(self.obs, "--obs", "ws", "wss", remedy=OBS)
        elif self.obs_source:
            raise ConfigError("--obs-source is given without --obs", remedy="Add --obs.")


def with_environment(options: PushOptions, environment: Mapping[str, str]) -> PushOptions:
    """The options, with the secrets that the environment has and they don't."""
    secret, password = environment.get(SECRET, ""), environment.get(PASSWORD, "")
    if secret:
        secret_of(secret, SECRET)
    return replace(
        options,
        webhook_secret=options.webhook_secret or secret,
        obs_password=options.obs_password or password,
    )
