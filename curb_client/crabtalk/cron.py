"""Schedules as everybody writes them, as a daemon takes them, and its quiet hours.

A daemon's schedules begin with a field for seconds, count the days of the week from Sunday as 1, and fire only where
day of month and day of week both fit; they are in UTC, quiet hours in the daemon's local time. Five fields, as cron
itself has them, mean what they mean there: minutes first, Sunday 0 or 7, Monday 1.
"""

from __future__ import annotations

import re
from typing import Final

from curb_client.crabtalk.errors import InvalidCronError

__all__ = ["daemon_schedule", "quiet_hours", "quiet_time"]

_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_SHORT: Final = {
    "@hourly": "0 0 * * * *",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@weekly": "0 0 0 * * SUN",
    "@monthly": "0 0 0 1 * *",
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
}
_FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of month", 1, 31),
    ("month", 1, 12),
    ("day of week", 0, 7),
)
_PART: Final = re.compile(
    r"(?:(\*)|([a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?)(?:/(\d{1,9}))?", re.IGNORECASE | re.ASCII
)
_TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)


def daemon_schedule(schedule: str) -> str:
    """The schedule as a daemon takes it: ``*/5 * * * *`` becomes ``0 */5 * * * *``.

    Six and seven fields are a daemon's own form, which it checks itself.

    Raises:
        InvalidCronError: no schedule, or one that a daemon would fire at other times.
    """
    text = " ".join(schedule.split())
    if text.lower() in _SHORT:
        return _SHORT[text.lower()]
    fields = text.split(" ")
    if len(fields) in (6, 7):
        return text
    if len(fields) != 5:
        raise _invalid(schedule, f"it has {len(text.split())} fields; give five: minute hour day month weekday")
    values = [_values(schedule, field, *known) for field, known in zip(fields, _FIELDS, strict=True)]
    if not fields[2].startswith("*") and not fields[4].startswith("*"):
        raise _invalid(
            schedule,
            "cron fires where day of month or day of week fits, a daemon only where both do: make a job for each, "
            "with * in the other field",
        )
    days = fields[4] if fields[4] == "*" else ",".join(_DAYS[day] for day in sorted({day % 7 for day in values[4]}))
    return " ".join(["0", *fields[:4], days]).upper()


def quiet_hours(quiet: object) -> tuple[str, str]:
    """From when to when.

    Raises:
        InvalidCronError: not two times, or twice the same.
    """
    if not isinstance(quiet, (tuple, list)) or len(quiet) != 2:
        raise InvalidCronError(f"quiet is {quiet!r:.60}; give two times, ('23:00', '07:00')", field="quiet_end")
    start, end = quiet_time(quiet[0], "quiet_start"), quiet_time(quiet[1], "quiet_end")
    if start == end:
        raise InvalidCronError(f"quiet from {start} to {end} is never; give two times", field="quiet_end")
    return start, end


def quiet_time(text: object, field: str) -> str:
    """A time of day, ``23:00``; a daemon takes anything, and is then never quiet.

    Raises:
        InvalidCronError: no time from 00:00 to 23:59.
    """
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise InvalidCronError(f"{field} is {text!r:.60}; give a time from '00:00' to '23:59'", field=field)
    return text


def _values(schedule: str, text: str, name: str, least: int, most: int) -> list[int]:
    values: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _invalid(schedule, f"{part!r} is no {name}; give {least} to {most}, *, a range a-b or steps */n")
        everything, first, last, step = match.groups()
        start = least if everything else _number(schedule, first, name, least, most)
        without = most if everything or step else start
        end = without if last is None else _number(schedule, last, name, least, most)
        if name == "day of week" and last is not None and end < start and end == 0:
            end = 7  # FRI-SUN
        if end < start:
            raise _invalid(schedule, f"the {name} {part!r} ends before it begins")
        if step is not None and not 1 <= int(step) <= most:
            raise _invalid(schedule, f"the {name} {part!r} has steps of {int(step)}; they must be from 1 to {most}")
        if name == "day of week" and last is None and end == 7 and start < 7:
            end = 6  # * and n/2 count a week once
        values += range(start, end + 1, int(step or 1))
    return values


def _number(schedule: str, text: str, name: str, least: int, most: int) -> int:
    names = {"month": _MONTHS, "day of week": _DAYS}.get(name, ())
    if text.upper() in names:
        return names.index(text.upper()) + least
    if not text.isdigit() or not least <= int(text) <= most:
        raise _invalid(schedule, f"{text!r} is no {name}; it must be from {least} to {most}")
    return int(text)


def _invalid(schedule: str, reason: str) -> InvalidCronError:
    return InvalidCronError(f"the schedule {schedule!r:.100}: {reason}", field="schedule")
