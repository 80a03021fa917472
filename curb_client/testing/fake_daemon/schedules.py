"""When a job fires: six fields with seconds first, Sunday 1, all of them to fit, in UTC."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

__all__ = ["Schedule"]

_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES: Final = {name: number for names in (_DAYS, _MONTHS) for number, name in enumerate(names, start=1)}
_RANGES: Final = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (1, 7))
_PART: Final = re.compile(r"(?:(\*|\?)|(\w+)(?:-(\w+))?)(?:/(\d+))?", re.ASCII)


class Schedule:
    """A schedule.

    Raises:
        ValueError: it is none.
    """

    def __init__(self, text: str) -> None:
        fields = text.split()
        if len(fields) not in (6, 7):
            raise ValueError(f"{text}\n{' ' * len(text)}^\n")
        self._values = [_values(field, *limits) for field, limits in zip(fields, _RANGES, strict=False)]

    def fires(self, at: dt.datetime) -> bool:
        """Whether in this second."""
        now = (at.second, at.minute, at.hour, at.day, at.month, at.isoweekday() % 7 + 1)
        return all(value in values for value, values in zip(now, self._values, strict=True))


def _values(field: str, least: int, most: int) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{field!r} is not understood")
        everything, first, last, step = match.groups()
        start = least if everything else _number(first)
        end = most if everything or (step and last is None) else _number(last or first)
        if not least <= start <= end <= most or not 1 <= int(step or 1) <= most:
            raise ValueError(f"{field!r} is out of range")
        values.update(range(start, end + 1, int(step or 1)))
    return values


def _number(text: str) -> int:
    return _NAMES[text.lower()] if text.lower() in _NAMES else int(text)
