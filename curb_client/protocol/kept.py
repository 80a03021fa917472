"""What a call's record keeps of a payload (host protocol, What a call's record contains)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from curb_client.protocol.contract import MAX_KEPT_BYTES
from curb_client.protocol.json_text import encode_json

__all__ = ["Kept", "keep"]


@dataclass(frozen=True)
class Kept:
    """A payload on record.

    Attributes:
        value: the JSON value, or the beginning of its text.
        truncated: whether it is the beginning only.
    """

    value: Any
    truncated: bool


def keep(payload: object) -> Kept:
    """The payload as it was sent while its JSON text is at most 4,096 bytes; else the first 4,096 bytes of that text.

    The text is cut before a character that would not fit whole. The value is a copy: what is on record does not change
    with the payload.

    Raises:
        InvalidPayloadError: the payload is not JSON.
    """
    text = encode_json(payload)
    data = text.encode("utf-8")
    if len(data) <= MAX_KEPT_BYTES:
        return Kept(json.loads(text), truncated=False)
    return Kept(data[:MAX_KEPT_BYTES].decode("utf-8", "ignore"), truncated=True)
