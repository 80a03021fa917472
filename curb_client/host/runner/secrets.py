"""The tokens that no log and no record may show."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import urlsplit

from curb_client.protocol.types import EffectiveSettings

__all__ = ["Secrets", "without_user_information"]

_SHORTEST: Final = 6  # a shorter one is no secret, and part of any word


class Secrets:
    """Those in use."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    def add(self, token: str) -> None:
        """From now on it is hidden."""
        self._tokens.append(token)

    def remove(self, token: str) -> None:
        """It is in use no more (once; another call may use the same)."""
        self._tokens.remove(token)

    def hide(self, text: str) -> str:
        """The text with every token in it replaced, also where it is JSON."""
        for token in self._tokens:
            if len(token) >= _SHORTEST:
                for written in (token, json.dumps(token)[1:-1], json.dumps(token, ensure_ascii=False)[1:-1]):
                    text = text.replace(written, "[hidden]")
        return text


def without_user_information(settings: EffectiveSettings) -> EffectiveSettings:
    """The settings as a host is told them: an agent's own endpoint may have a name and a password in it."""
    base_url = settings.llm.base_url
    try:
        netloc = urlsplit(base_url or "").netloc
    except ValueError:
        return settings
    if base_url is None or "@" not in netloc:
        return settings
    shown = base_url.replace(netloc, netloc.rpartition("@")[2], 1)
    return settings.model_copy(update={"llm": settings.llm.model_copy(update={"base_url": shown})})
