"""From what a skill renders to the lines of a context."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from curb_client.model.builder.harmless import made_harmless
from curb_client.model.builder.skill import Content, Instruction, Rendered, Tool
from curb_client.model.context import ContextLine, CurrentContext
from curb_client.model.contract import CONTENT, DATE_PREFIX, INSTRUCTION

__all__ = ["date_line", "labelled_lines", "line", "text_lines"]

_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

# Whatever a reader may take for the end of a line, as str.splitlines does.
_LINE_BREAKS: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def date_line(now: datetime) -> str:
    """Date, time and the seven days after them, in English whatever the locale."""
    days = "; ".join(_day(now + timedelta(days=days)) for days in range(1, 8))
    return f"{DATE_PREFIX}{_day(now)} {now.year}, {now:%H:%M} ({now.tzname() or 'UTC'}). The next days: {days}"


def line(label: str, text: str) -> ContextLine:
    """A line of a context. State may hold what the person said, so it may have neither tags nor lines of its own."""
    return ContextLine.of_text(label, _LINE_BREAKS.sub("\n", made_harmless(text)))


def text_lines(rendered: Rendered) -> Iterator[ContextLine]:
    """The instructions and contents of what was rendered."""
    for item in rendered:
        if isinstance(item, Instruction):
            yield line(INSTRUCTION, item.text)
        elif not isinstance(item, Tool):
            yield line(CONTENT, item.text if isinstance(item, Content) else item)


def labelled_lines(context: CurrentContext) -> list[str]:
    """The lines whose change the model is told of: all but the date."""
    return [each.render() for each in context.lines if each.label]


def _day(date: datetime) -> str:
    return f"{_WEEKDAYS[date.weekday()]}, {date.day} {_MONTHS[date.month - 1]}"
