"""Text of others, in which no block of the runtime can begin or end."""

from __future__ import annotations

import re
from typing import Final

from curb_client.model.contract import CONTEXT_TAG, EVENT_TAG

__all__ = ["made_harmless"]

# Between the bracket and the name, what a reader may overlook: blanks, a slash, characters without a width.
_INVISIBLE: Final = r"[\s/\\\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]*"
_TAG: Final = re.compile(rf"[<\uff1c\ufe64]({_INVISIBLE}(?:{CONTEXT_TAG}|{EVENT_TAG}))", re.IGNORECASE)


def made_harmless(text: str) -> str:
    """The text with the opening bracket of every such tag written ``&lt;``."""
    return _TAG.sub(r"&lt;\1", text)
