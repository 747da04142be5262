"""Configuration events of a client -> settings that are applied, and the answer to them."""

from dataclasses import replace
from typing import Any

from msgspec import UNSET

from livecap.api.realtime.audio_buffer import Listener
from livecap.api.realtime.connection import Catalogue, SessionLimits
from livecap.api.realtime.dialects import Dialect, implied
from livecap.api.realtime.errors import Refusal, invalid, missing, new_id
from livecap.api.realtime.items import Ledger
from livecap.api.realtime.settings import SessionSettings
from livecap.api.realtime.updates import known_model, paths, updated
from livecap.api.realtime.views import flat, nested
from livecap.api.realtime.wire import ActionQueue, Message

FLAT_DIALECTS = ("openai-beta", "mstar")


class Configuration:
    """A session's settings, which the listener holds."""

    def __init__(
        self,
        listener: Listener,
        ledger: Ledger,
        outbox: ActionQueue,
        catalogue: Catalogue,
        limits: SessionLimits,
        *,
        begun: int,
    ) -> None:
        """`begun`: Unix seconds."""
        self.session_id = new_id("sess")
        self._listener = listener
        self._ledger = ledger
        self._outbox = outbox
        self._catalogue = catalogue
        self._limits = limits
        self._begun = begun
        ledger.included = self._settings.included

    @property
    def _settings(self) -> SessionSettings:
        return self._listener.settings

    def update(self, message: Message, *, is_pinned: bool) -> None:
        """`session.update` or `transcription_session.update`. Raises Refusal, with nothing applied
        but the dialect.
        """
        body: Any = None if message.session is UNSET else message.session
        names_model = message.model is not UNSET
        wanted = implied(self._settings.dialect, message.type, body, names_model=names_model)
        self._choose(wanted, is_pinned=is_pinned)
        if body is None and names_model and wanted == "vllm":
            self._take_model(message.model)  # vLLM answers nothing
            return
        if message.session is UNSET:
            raise missing("session")
        settings = updated(self._settings, body, self._catalogue, strict=self._limits.strict)
        if settings.form != self._settings.form and self._listener.buffered:
            error_text = (
                "The format can't change while audio is not committed. Commit or clear it first."
            )
            raise Refusal("invalid_state", error_text, param=f"session.{paths(body).format}")
        self._apply(settings)
        view = self.view(beta=settings.dialect in FLAT_DIALECTS)
        self._outbox.send({"type": f"{message.type}d", "session": view})

    def speak(self, dialect: Dialect) -> None:
        """Go over to a dialect, and to its defaults where the client has stated nothing."""
        self._outbox.dialect = dialect
        self._apply(replace(self._settings, dialect=dialect))

    def view(self, *, beta: bool = False) -> dict[str, object]:
        """The session object."""
        length = self._limits.max_session_s
        shape = flat if beta else nested
        return shape(self._settings, self.session_id, self._begun + length if length else None)

    def _choose(self, dialect: Dialect, *, is_pinned: bool) -> None:
        """Audio is heard in one dialect alone."""
        if dialect == self._settings.dialect:
            return
        if is_pinned or self._listener.has_heard:
            message = f"This session speaks {self._settings.dialect}; the event is of {dialect}."
            raise Refusal("invalid_state", message, param="type")
        self.speak(dialect)

    def _take_model(self, name: object) -> None:
        if not isinstance(name, str):
            raise invalid("model", "Expected a string.")
        model = known_model(self._catalogue, name, "model")
        spoken = replace(self._settings.transcription, asked=name, model=model)
        self._apply(replace(self._settings, transcription=spoken))

    def _apply(self, settings: SessionSettings) -> None:
        self._ledger.included = settings.included
        self._listener.apply(settings)
