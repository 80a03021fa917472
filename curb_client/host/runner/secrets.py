"""The tokens that no log and no record may show."""

from __future__ import annotations

from typing import Final

__all__ = ["Secrets"]

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
        """The text with every token in it replaced."""
        for token in self._tokens:
            if len(token) >= _SHORTEST and token in text:
                text = text.replace(token, "[hidden]")
        return text
