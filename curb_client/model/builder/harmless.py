"""Text of others, in which no block of the runtime can begin or end."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any, Final

from curb_client.model.contract import CONTEXT_TAG, EVENT_TAG
from curb_client.protocol.json_text import without_lone_surrogates

__all__ = ["harmless_value", "made_harmless"]

_TAGS: Final = (CONTEXT_TAG, EVENT_TAG)
_BEGINNINGS: Final = frozenset(tag[:length] for tag in _TAGS for length in range(len(tag) + 1))
# What opens a tag, or looks to a reader as if it did; not where another character of ASCII than / \ C c follows.
_BRACKET: Final = re.compile("[<\u2039\u02c2\u1438\u2329\u27e8\u276e\u3008\ufe64\uff1c](?![!-.0-BD-\\[\\]-bd-~])")
_UNSEEN: Final = ("Cf", "Mn", "Me", "Cc", "Cn")
_BLANK_LETTERS: Final = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a symbol by category, that show nothing


def made_harmless(text: str) -> str:
    """The text with the opening bracket of every such tag written ``&lt;``, and without lone surrogates.

    A tag is one to a model that reads past what is not seen: in full-width letters, with characters without a width,
    with a backslash.
    """
    text = str(without_lone_surrogates(text))
    pieces: list[str] = []
    done = 0
    for bracket in _BRACKET.finditer(text):
        if _is_tag(text, bracket.end()):
            pieces += [text[done : bracket.start()], "&lt;"]
            done = bracket.end()
    return "".join([*pieces, text[done:]])


def harmless_value(value: Any) -> Any:
    """The JSON value with every text and key of it made harmless."""
    if isinstance(value, str):
        return made_harmless(value)
    if isinstance(value, list):
        return [harmless_value(inside) for inside in value]
    if isinstance(value, dict):
        return {made_harmless(name): harmless_value(inside) for name, inside in value.items()}
    return value


def _is_tag(text: str, at: int) -> bool:
    """Whether a tag's name follows. Reads up to the next bracket at most, so that all of a text is read once."""
    name = ""
    for place in range(at, len(text)):
        seen = _seen(text[place])
        if not seen or seen.isspace() or (seen == "/" and not name):
            continue
        name += seen
        if name not in _BEGINNINGS:
            return name.startswith(_TAGS)
    return name.startswith(_TAGS)


@lru_cache(4096)
def _seen(character: str) -> str:
    """What a reader takes the character for: letters in their plain form, nothing for what is not seen."""
    if character == "\\" or character in _BLANK_LETTERS:
        return ""
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(each for each in plain if unicodedata.category(each) not in _UNSEEN)
