"""The context block of a request: what an agent's state is rendered to for one turn (What the model receives).

A :class:`CurrentContext` is its lines, read or built; :meth:`CurrentContext.render` gives the text back, character
for character. Reading never fails: a line that fits nothing is kept, and listed among the problems where it is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from typing_extensions import Self

from curb_client.model.contract import (
    ACTIVE_SKILL,
    AVAILABLE_SKILL,
    CONTENT,
    CONTEXT_TAG,
    CONTINUATION,
    DATE_PREFIX,
    DESCRIPTION_SEPARATOR,
    INSTRUCTION,
    LABELS,
    TOOL,
)

__all__ = [
    "AvailableSkill",
    "ContextLine",
    "ContextTool",
    "CurrentContext",
    "Problem",
    "ToolArgument",
    "read_tool",
]

OPENING: Final = re.compile(rf'<{CONTEXT_TAG}(?: skill="(?P<skill>.*)")?>')
CLOSING: Final = f"</{CONTEXT_TAG}>"

_LABELS: Final = frozenset(LABELS)
_CONTINUED: Final = (INSTRUCTION, CONTENT)
_TOOL: Final = re.compile(r"(?P<name>[^\s()]+)\((?P<arguments>[^()]*)\) \[(?P<origin>[^\[\]]+)\]")


class Problem(NamedTuple):
    """Something in a text that does not fit; it was kept all the same."""

    line: int
    """Of the text that was read, from 1."""
    message: str
    where: str = ""
    """Which text of the request, ``messages[3]`` say."""

    def __str__(self) -> str:
        return f"{self.where}{', ' if self.where else ''}line {self.line}: {self.message}"


class ContextLine(NamedTuple):
    """A line of a context, with the lines that continue it."""

    label: str
    """One of the protocol's labels; empty for the date and for what has none of them."""
    value: str
    """What follows the label, with line breaks where lines continue it; without a label the line itself."""

    @classmethod
    def of_text(cls, label: str, text: str) -> ContextLine:
        """A line for a text of any number of lines: the further ones are indented, and so read as what they are."""
        return cls(label, text.replace("\n", f"\n{CONTINUATION}"))

    @property
    def text(self) -> str:
        """The value as :meth:`of_text` got it."""
        lines = self.value.split("\n")
        if all(line.startswith(CONTINUATION) for line in lines[1:]):
            lines[1:] = [line[len(CONTINUATION) :] for line in lines[1:]]
        return "\n".join(lines)

    def render(self) -> str:
        """The line as it stands in the context."""
        return f"{self.label}: {self.value}" if self.label else self.value


class ToolArgument(NamedTuple):
    """An input of a tool."""

    name: str
    is_required: bool

    def render(self) -> str:
        """``name*`` for a required one."""
        return f"{self.name}*" if self.is_required else self.name


class ContextTool(NamedTuple):
    """A tool as the context lists it."""

    name: str
    arguments: tuple[ToolArgument, ...]
    origin: str
    """``runtime`` or ``page``."""

    def render(self) -> str:
        """What follows the label: ``verify_policy(policy*) [page]``."""
        return f"{self.name}({', '.join(each.render() for each in self.arguments)}) [{self.origin}]"


class AvailableSkill(NamedTuple):
    """A skill that the model may read."""

    name: str
    description: str

    def render(self) -> str:
        """What follows the label."""
        return f"{self.name}{DESCRIPTION_SEPARATOR}{self.description}" if self.description else self.name


@dataclass(frozen=True)
class CurrentContext:
    """The block ``<current_context>``.

    Attributes:
        skill: of the opening tag; None where it names none.
        lines: in their order, the date's line too.
    """

    skill: str | None
    lines: tuple[ContextLine, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a block, from the opening tag to the closing one.

        Raises:
            ValueError: the text does not begin with the one and end with the other.
        """
        first, _, rest = text.partition("\n")
        opening = OPENING.fullmatch(first)
        if opening is None or not (rest == CLOSING or rest.endswith(f"\n{CLOSING}")):
            raise ValueError(
                f"no context: its first line is {first[:80]!r}; it begins with <{CONTEXT_TAG}> and ends with {CLOSING}"
            )
        inside = rest[: -len(CLOSING)]
        return cls(opening["skill"], tuple(_lines(inside[:-1].split("\n")) if inside else ()))

    @staticmethod
    def lines_of(text: str) -> list[ContextLine]:
        """The lines of a text that is from inside a block."""
        return _lines(text.split("\n"))

    def render(self) -> str:
        """The text of the block."""
        attribute = "" if self.skill is None else f' skill="{self.skill}"'
        return "\n".join([f"<{CONTEXT_TAG}{attribute}>", *(line.render() for line in self.lines), CLOSING])

    # What the lines say

    @property
    def date_line(self) -> str | None:
        """The line with date and time, whole."""
        return next((line.value for line in self.lines if not line.label and line.value.startswith(DATE_PREFIX)), None)

    @property
    def active_skills(self) -> list[str]:
        """Names of the skills that were read."""
        return self._values(ACTIVE_SKILL)

    @property
    def available_skills(self) -> list[AvailableSkill]:
        """Skills by name and description; a name ends where the first dash with spaces around it is."""
        parts = (value.partition(DESCRIPTION_SEPARATOR) for value in self._values(AVAILABLE_SKILL))
        return [AvailableSkill(name, description) for name, _, description in parts]

    @property
    def instructions(self) -> list[str]:
        """What the agent is told to do, one text each."""
        return self._values(INSTRUCTION)

    @property
    def contents(self) -> list[str]:
        """What the agent is told of its state, one text each."""
        return self._values(CONTENT)

    @cached_property
    def tools(self) -> list[ContextTool]:
        """The tools that are listed; a line that is none is among the problems."""
        return [tool for line in self.lines if line.label == TOOL and (tool := read_tool(line.value)) is not None]

    @property
    def other_lines(self) -> list[str]:
        """Lines without a label of the protocol, the date's aside."""
        date = self.date_line
        return [line.value for line in self.lines if not line.label and line.value != date]

    def tool(self, name: str) -> ContextTool | None:
        """The tool of this name."""
        return next((tool for tool in self.tools if tool.name == name), None)

    @cached_property
    def problems(self) -> list[Problem]:
        """What does not fit, with the number of its line in the block, from 1 for the opening tag."""
        return list(self._problems())

    def _values(self, label: str) -> list[str]:
        return [line.text for line in self.lines if line.label == label]

    def _problems(self) -> Iterator[Problem]:
        number = 2
        names: set[str] = set()
        has_date = self.date_line is not None
        for line in self.lines:
            yield from (Problem(number, message) for message in _faults(line, names, has_date))
            number += 1 + line.value.count("\n")
        if not has_date:
            yield Problem(2, f"no line begins with {DATE_PREFIX!r}, so the model knows no date")


def read_tool(value: str) -> ContextTool | None:
    """The tool of a line, by what follows its label; None where it is none."""
    match = _TOOL.fullmatch(value)
    if match is None:
        return None
    names = [name.strip() for name in match["arguments"].split(",")] if match["arguments"] else []
    arguments = tuple(ToolArgument(name.removesuffix("*"), name.endswith("*")) for name in names)
    return ContextTool(match["name"], arguments, match["origin"])


def _faults(line: ContextLine, tools_so_far: set[str], has_date: bool) -> Iterator[str]:
    if line.label == TOOL:
        tool = read_tool(line.value)
        if tool is None:
            yield f"no tool: {line.value[:80]!r}; one is written name(argument*) [page]"
        elif tool.name in tools_so_far:
            yield f"the tool {tool.name!r} is listed a second time"
        else:
            tools_so_far.add(tool.name)
    elif not line.label and not (has_date and line.value.startswith(DATE_PREFIX)):
        yield f"unknown line {line.value[:80]!r}"
    for tag in (f"<{CONTEXT_TAG}", CLOSING):
        if tag in line.value:
            yield f"{tag!r} inside the block"


def _lines(texts: Iterable[str]) -> list[ContextLine]:
    """Lines by label. One without a label continues an instruction or a content, unless it has a label of its own
    that is not known."""
    lines: list[ContextLine] = []
    label, value = "", ""
    further: list[str] = []
    is_first = True
    for text in texts:
        head, colon, rest = text.partition(": ")
        if colon and head in _LABELS:
            next_label, next_value = head, rest
        elif label in _CONTINUED and not (colon and head.islower() and head.isidentifier()):
            further.append(text)
            continue
        else:
            next_label, next_value = "", text
        if is_first:
            is_first = False
        else:
            lines.append(_line(label, value, further))
        label, value = next_label, next_value
    if not is_first:
        lines.append(_line(label, value, further))
    return lines


def _line(label: str, value: str, further: list[str]) -> ContextLine:
    """Empties ``further``."""
    if further:
        value = "\n".join([value, *further])
        further.clear()
    return tuple.__new__(ContextLine, (label, value))  # twice as fast as ContextLine(...)
