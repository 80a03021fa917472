"""What changed from one request to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from curb_client.model.context import ContextLine, CurrentContext
from curb_client.model.contract import ACTIVE_SKILL, AVAILABLE_SKILL, CONTENT, INSTRUCTION, TOOL
from curb_client.model.request import ModelRequest

__all__ = ["Change", "RequestDiff", "diff"]


@dataclass(frozen=True)
class Change:
    """What joined and what left, each in the order of its request."""

    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.joined or self.left)

    @classmethod
    def between(cls, before: Iterable[str], after: Iterable[str]) -> Change:
        """By how often each is there: the same text twice is two."""
        before, after = list(before), list(after)
        return cls(tuple(_more(after, before)), tuple(_more(before, after)))


@dataclass(frozen=True)
class RequestDiff:
    """What joined and left between two requests. The date is not compared.

    Attributes:
        skills: names of the skills that were read. available: lines of those that could be.
        instructions, contents: texts of the context. tools: names of those offered, and the lines that list them.
        others: lines of the context with another label or none.
        system_changed: whether the system text is another one.
        redefined: names of tools offered in both, with another description or schema.
    """

    skills: Change
    available: Change
    instructions: Change
    contents: Change
    tools: Change
    others: Change
    system_changed: bool
    redefined: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.system_changed or bool(self.redefined) or any(change for _, change in self._labelled())

    def render(self) -> str:
        """A line for each change, ``+`` for what joined and ``-`` for what left."""
        lines = ["~ the system text changed"] if self.system_changed else []
        for label, change in self._labelled():
            prefix = f"{label}: " if label else ""
            lines += [_marked("-", prefix + text) for text in change.left]
            lines += [_marked("+", prefix + text) for text in change.joined]
        lines += [f"~ the tool {name} has another description or schema" for name in self.redefined]
        return "\n".join(lines)

    def _labelled(self) -> list[tuple[str, Change]]:
        return [
            (ACTIVE_SKILL, self.skills),
            (INSTRUCTION, self.instructions),
            (CONTENT, self.contents),
            (AVAILABLE_SKILL, self.available),
            (TOOL, self.tools),
            ("", self.others),
        ]


def diff(before: ModelRequest, after: ModelRequest) -> RequestDiff:
    """What changed from ``before`` to ``after``."""
    lines = [_texts_by_label(request.context) for request in (before, after)]
    changes = {
        label: Change.between(*(texts.get(label, []) for texts in lines))
        for label in (ACTIVE_SKILL, AVAILABLE_SKILL, INSTRUCTION, CONTENT, "")
    }
    return RequestDiff(
        changes[ACTIVE_SKILL],
        changes[AVAILABLE_SKILL],
        changes[INSTRUCTION],
        changes[CONTENT],
        Change.between(_tools(before), _tools(after)),
        changes[""],
        before.system != after.system,
        tuple(tool.name for tool in after.tools if (was := before.tool(tool.name)) is not None and was != tool),
    )


def _texts_by_label(context: CurrentContext | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines: tuple[ContextLine, ...] = () if context is None else context.lines
    date = None if context is None else context.date_line
    for line in lines:
        if line.label or line.value != date:
            found.setdefault(line.label, []).append(line.text)
    return found


def _tools(request: ModelRequest) -> list[str]:
    """As the context lists them, where it does."""
    listed = {} if request.context is None else {tool.name: tool.render() for tool in request.context.tools}
    return [listed.get(tool.name, tool.name) for tool in request.tools]


def _more(these: list[str], those: list[str]) -> list[str]:
    left = Counter(those)
    more = []
    for text in these:
        if left[text]:
            left[text] -= 1
        else:
            more.append(text)
    return more


def _marked(mark: str, text: str) -> str:
    return "\n".join(f"{mark if number == 0 else ' '} {line}" for number, line in enumerate(text.split("\n")))
