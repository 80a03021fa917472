"""The settings of one call: the agent's own, and what was accepted from outside over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from curb_client.errors import UsageError
from curb_client.protocol.contract import AdjustablePath, Sender
from curb_client.protocol.settings import (
    Adjustable,
    ProviderRules,
    accept_update,
    check_adjustable,
    effective_settings,
)
from curb_client.protocol.types import EffectiveSettings
from curb_client.room.callbacks import add_removable, call_safely

__all__ = ["LiveSettings"]

_NONE: Final = {"tts": {"provider": "none"}, "stt": {"provider": "none"}, "llm": {"provider": "none", "model": "none"}}


class LiveSettings:
    """Holds them, changes them by the protocol's rules, and tells who listens."""

    def __init__(
        self, own: EffectiveSettings | Mapping[str, Any] | None, adjustable: Adjustable, rules: ProviderRules
    ) -> None:
        check_adjustable(adjustable)
        self._own = _parse(_NONE if own is None else own)
        self._adjustable = adjustable
        self._rules = rules
        self._overrides: dict[AdjustablePath, object] = {}
        self._listeners: dict[object, Callable[[EffectiveSettings, Sender], Any]] = {}

    @property
    def effective(self) -> EffectiveSettings:
        return effective_settings(self._own, self._overrides)

    def set_own(self, own: EffectiveSettings | Mapping[str, Any]) -> None:
        self._own = _parse(own)

    def add_listener(self, callback: Callable[[EffectiveSettings, Sender], Any]) -> Callable[[], None]:
        return add_removable(self._listeners, callback)

    def update(self, body: object, sender: Sender) -> EffectiveSettings:
        """The settings in force after the update.

        Raises:
            Refusal: ``not_adjustable`` or ``invalid_settings``; nothing changed.
        """
        before = self.effective
        self._overrides = accept_update(
            self._own, self._overrides, body, sender=sender, adjustable=self._adjustable, rules=self._rules
        )
        after = self.effective
        if after != before:
            for listener in list(self._listeners.values()):
                call_safely(listener, after, sender)
        return after

    @staticmethod
    def for_client(settings: EffectiveSettings) -> EffectiveSettings:
        """What a client is told: not the endpoint, which may be internal."""
        return settings.model_copy(update={"llm": settings.llm.model_copy(update={"base_url": None})})


def _parse(settings: EffectiveSettings | Mapping[str, Any]) -> EffectiveSettings:
    if isinstance(settings, EffectiveSettings):
        return settings
    try:
        return EffectiveSettings.model_validate(settings)
    except ValidationError as error:
        raise UsageError(f"settings: {error}") from None
