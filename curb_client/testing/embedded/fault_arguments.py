"""What the methods of :class:`.Faults` are given, checked before anything goes wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from curb_client.errors import UsageError
from curb_client.testing.embedded.fault_packets import PacketFilter
from curb_client.testing.embedded.fault_table import Scope

__all__ = ["at_most", "http_status", "identity", "integer", "packet_filter", "positive", "scope", "seconds", "share"]

_FILTERS = ("direction", "participant", "topic", "method")


def packet_filter(room: str | None, only: Mapping[str, object]) -> PacketFilter:
    """Raises UsageError where there is no such filter, or it is given what it cannot be."""
    if unknown := only.keys() - set(_FILTERS):
        raise UsageError(f"{min(unknown)} is no filter of packets; there are {', '.join(_FILTERS)}")
    return PacketFilter(
        scope(room, only.get("participant"), only.get("direction")),
        _text("topic", only.get("topic")),
        _text("method", only.get("method")),
    )


def scope(room: str | None, participant: object, direction: object = None) -> Scope:
    if direction is not None and direction != "from" and direction != "to":
        raise UsageError(f"direction is {direction!r}; give 'from' or 'to', as the participant sees it")
    return Scope(room, _text("participant", participant), direction)


def identity(participant: object) -> str:
    if not isinstance(participant, str) or not participant:
        raise UsageError(f"participant is {participant!r}; give the identity of one")
    return participant


def _text(name: str, value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise UsageError(f"{name} is {value!r}; give text, or leave it out for any")
    return value


def at_most(name: str, value: Any) -> int | None:
    if value is not None and (not _is_integer(value) or value < 1):
        raise UsageError(f"{name} is {value!r}; give how many at most, or None for all")
    return cast("int | None", value)


def http_status(value: Any) -> int:
    if not _is_integer(value) or not 400 <= value <= 599:
        raise UsageError(f"status is {value!r}; give an HTTP status from 400 to 599")
    return int(value)


def share(value: Any) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise UsageError(f"rate is {value!r}; give a share of the datagrams, from 0 to 1")
    return float(value)


def integer(name: str, value: Any) -> int:
    if not _is_integer(value):
        raise UsageError(f"{name} is {value!r}; give an integer")
    return int(value)


def positive(name: str, value: Any, unit: str) -> float:
    if not _is_number(value) or not 0 < value < math.inf:
        raise UsageError(f"{name} is {value!r}; give {unit}, more than 0")
    return float(value)


def seconds(value: Any) -> float:
    return positive("seconds", value, "seconds")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
