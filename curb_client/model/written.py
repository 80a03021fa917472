"""JSON values as text, whatever they are."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["written"]


def written(value: Any) -> str:
    """Compact JSON text, to show or to compare; what JSON has no form for is written as Python does. Never raises: a
    value nested too deeply, or with keys that are none, is told of instead."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (RecursionError, TypeError, ValueError) as error:
        return f"(cannot be written as JSON: {error})"
