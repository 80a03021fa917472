"""What both sides of a call take as arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from curb_client.errors import InvalidTimeoutError

__all__ = ["NO_PAYLOAD", "check_timeout"]

NO_PAYLOAD: Final[Mapping[str, object]] = MappingProxyType({})
"""What is sent when no payload is given: ``{}``. None is sent as null."""

MAX_TIMEOUT_SECONDS: Final = 86_400.0


def check_timeout(timeout: float | None, *, default: float) -> float:
    """Seconds to wait.

    Raises:
        InvalidTimeoutError: negative, NaN, more than a day, or not a number.
    """
    if timeout is None:
        return default
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise InvalidTimeoutError(f"timeout must be a number of seconds, not {type(timeout).__name__}")
    if math.isnan(timeout) or not 0 <= timeout <= MAX_TIMEOUT_SECONDS:
        raise InvalidTimeoutError(f"timeout is {timeout} seconds; it must be from 0 to {MAX_TIMEOUT_SECONDS:.0f}")
    return float(timeout)
