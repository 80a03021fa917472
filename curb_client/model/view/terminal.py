"""A recording as text, with marks for what changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from curb_client.model.request import ModelRequest
from curb_client.model.view.sections import Mark, sections

__all__ = ["StyledLine", "printable", "shown"]

# What a terminal would act on, and what no output can carry: control characters but tab and line break, and lone
# surrogates.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class StyledLine(NamedTuple):
    """A line of output, and what it is."""

    text: str
    kind: Mark | str
    """``heading``, ``section``, or the mark of a line."""


def shown(requests: Sequence[ModelRequest], *, only_changes: bool = False) -> Iterator[StyledLine]:
    """The lines of a recording.

    Args:
        only_changes: leaves out what was in the request before too.
    """
    for number, request in enumerate(requests):
        before = requests[number - 1] if number else None
        said = " ".join(request.last_user_text.split()) or "(nothing said)"
        yield StyledLine(f"=== {number + 1}. {printable(said)}", "heading")
        for section in sections(request, before):
            if only_changes and before is not None and not section.has_changed:
                continue
            tokens = f" (~{section.tokens} tokens)" if section.tokens else ""
            yield StyledLine(f"{section.name}{tokens}", "section")
            for line in section.lines:
                if only_changes and before is not None and line.mark == "same":
                    continue
                sign = {"new": "+ ", "gone": "- "}.get(line.mark, "  ")
                for at, text in enumerate(line.text.split("\n")):
                    yield StyledLine((sign if at == 0 else "  ") + printable(text), line.mark)


def printable(text: str) -> str:
    """The text with what a terminal must not get written as an escape, ``\\x1b`` say."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)
