"""A conversation step by step: what was said, which tools were called, and what the model then had to go by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curb_client.model.context import read_tool
from curb_client.model.contract import CONTENT, INSTRUCTION, TOOL
from curb_client.model.request import ModelRequest

__all__ = ["Step", "ledger", "render_ledger"]


@dataclass(frozen=True)
class Step:
    """One request.

    Attributes:
        said: by the person, last.
        called: names of the tools called since the request before it.
        state: the agent's, where it is known.
        lines: what the skills that were read bring: instructions, contents, and tools of the page.
    """

    said: str
    called: tuple[str, ...]
    state: Mapping[str, Any] | None
    lines: tuple[str, ...]

    def render(self) -> str:
        """The heading in one line, the state, the lines."""
        said = " ".join(self.said.split())
        heading = f"=== {said}: {', '.join(self.called)}" if self.called else f"=== {said}"
        state = [f"state: {name} = {_json(value)}" for name, value in (self.state or {}).items()]
        return "\n".join([heading, *state, *self.lines])


def ledger(requests: Iterable[ModelRequest], states: Sequence[Mapping[str, Any]] = ()) -> list[Step]:
    """The steps of a conversation.

    Args:
        requests: in order.
        states: the agent's state at each, where it is known; a request has none of it.
    """
    steps: list[Step] = []
    calls_before = 0
    for number, request in enumerate(requests):
        names = [call.name for call in request.calls]
        if len(names) < calls_before:  # another conversation, or one that was cut
            calls_before = 0
        state = states[number] if number < len(states) else None
        steps.append(Step(request.last_user_text, tuple(names[calls_before:]), state, tuple(_lines(request))))
        calls_before = len(names)
    return steps


def render_ledger(steps: Iterable[Step]) -> str:
    """The steps as text, one after the other."""
    return "\n".join(step.render() for step in steps)


def _lines(request: ModelRequest) -> list[str]:
    lines = [] if request.context is None else request.context.lines
    return [
        line.render()
        for line in lines
        if line.label in (INSTRUCTION, CONTENT)
        or (line.label == TOOL and (tool := read_tool(line.value)) is not None and tool.origin == "page")
    ]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
