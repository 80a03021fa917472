"""The system text of a request: the agent's prompt, and the runtime's note about the blocks that it adds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from typing_extensions import Self

from curb_client.model.contract import CONTEXT_TAG

__all__ = ["SystemText"]

_HEADING: Final = re.compile(r"^##? .*$", re.MULTILINE)


@dataclass(frozen=True)
class SystemText:
    """A system text in three parts that follow each other without a gap.

    Attributes:
        before_note: the prompt; on a voice call with the rules for spoken replies.
        note: the section, from its heading on, that says what the context is; empty where none does.
        after_note: the sections behind it.
    """

    before_note: str
    note: str = ""
    after_note: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a system text; the note is known by its heading and by the tag that it explains."""
        starts = [match.start() for match in _HEADING.finditer(text)] + [len(text)]
        for start, end in pairwise(starts):
            if f"<{CONTEXT_TAG}>" in text[start:end]:
                return cls(text[:start], text[start:end], text[end:])
        return cls(text)

    @property
    def prompt(self) -> str:
        """What is before the note, without the blank lines around it."""
        return self.before_note.strip()

    def render(self) -> str:
        """The whole text."""
        return self.before_note + self.note + self.after_note
