"""A request in sections, each line marked by what it was in the request before: what both views show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from curb_client.model.changes import Change
from curb_client.model.message import Message
from curb_client.model.prefix import estimate_tokens
from curb_client.model.request import ModelRequest, OfferedTool
from curb_client.model.written import written

__all__ = ["Line", "Section", "sections"]

Mark = Literal["same", "new", "gone"]


@dataclass(frozen=True)
class Line:
    """A text of a section.

    Attributes:
        text: of one or more lines. mark: whether it is new, or was in the request before and is gone.
    """

    text: str
    mark: Mark = "same"


@dataclass(frozen=True)
class Section:
    """A part of a request.

    Attributes:
        name: ``system``, ``tools``, ``transcript``, ``context`` or ``problems``.
        lines: in order; those that are gone first.
        tokens: estimate of what is there.
    """

    name: str
    lines: tuple[Line, ...]
    tokens: int

    @property
    def has_changed(self) -> bool:
        """Whether a line is new or gone."""
        return any(line.mark != "same" for line in self.lines)


def sections(request: ModelRequest, before: ModelRequest | None) -> list[Section]:
    """The sections of a request; without one before it nothing is marked."""
    texts_before = None if before is None else dict(_texts(before))
    made = [_section(name, texts, texts_before) for name, texts in _texts(request)]
    problems = tuple(Line(str(problem)) for problem in request.problems)
    return [*made, Section("problems", problems, 0)] if problems else made


def _section(name: str, texts: list[str], texts_before: dict[str, list[str]] | None) -> Section:
    tokens = sum(estimate_tokens(text) for text in texts)
    if texts_before is None:
        return Section(name, tuple(Line(text) for text in texts), tokens)
    before = texts_before.get(name, [])
    change = Change.between(before, texts)
    new = Counter(change.joined)
    lines = [*(Line(text, "gone") for text in change.left), *(_marked(text, new) for text in texts)]
    return Section(name, tuple(lines), tokens)


def _marked(text: str, new: Counter[str]) -> Line:
    if new[text]:
        new[text] -= 1
        return Line(text, "new")
    return Line(text)


def _texts(request: ModelRequest) -> Iterator[tuple[str, list[str]]]:
    yield "system", [request.system.render()]
    yield "tools", [_tool(tool) for tool in request.tools]
    yield "transcript", [text for message in request.transcript for text in _message(message)]
    if request.context is not None:
        skill = [] if request.context.skill is None else [f"skill: {request.context.skill}"]
        yield "context", [*skill, *(line.render() for line in request.context.lines)]


def _tool(tool: OfferedTool) -> str:
    """The name, what the tool is for, and what it takes on a line of its own."""
    description = f": {tool.description}" if tool.description else ""
    schema = f"\n{written(tool.schema)}" if tool.schema else ""
    return f"{tool.name}{description}{schema}"


def _message(message: Message) -> Iterator[str]:
    if message.texts:
        yield f"{message.role}: {message.render()}"
    for call in message.calls:
        yield f"{message.role}: call {call.name}({call.arguments})"
