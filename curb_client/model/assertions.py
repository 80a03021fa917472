"""Assertions on requests; a failure shows what the model had instead."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from curb_client.model.context import ContextLine, CurrentContext
from curb_client.model.contract import CONTEXT_TAG, DATE_PREFIX
from curb_client.model.prefix import PrefixStep, prefix_steps
from curb_client.model.request import ModelRequest

__all__ = [
    "assert_instruction",
    "assert_not_offered",
    "assert_prefix_stable",
    "assert_snapshot",
    "assert_tool_offered",
]

WRITE_SNAPSHOTS: Final = "CURB_WRITE_SNAPSHOTS"


def assert_tool_offered(request: ModelRequest, name: str) -> None:
    """The model can call this tool: the request offers it, and the context lists it.

    Raises:
        AssertionError: with the tools that are there.
    """
    __tracebackhide__ = True
    if request.tool(name) is None:
        raise AssertionError(f"the tool {name!r} is not offered; {_tools(request)}")
    if request.context is not None and request.context.tool(name) is None:
        raise AssertionError(f"the tool {name!r} is offered, and the context does not list it:\n{_context(request)}")


def assert_not_offered(request: ModelRequest, name: str) -> None:
    """The model cannot call this tool, and does not read of it in the context's list.

    Raises:
        AssertionError: with the context.
    """
    __tracebackhide__ = True
    if request.tool(name) is not None:
        raise AssertionError(f"the tool {name!r} is offered; the context is\n{_context(request)}")
    if request.context is not None and request.context.tool(name) is not None:
        raise AssertionError(f"the tool {name!r} is not offered, and the context lists it:\n{_context(request)}")


def assert_instruction(request: ModelRequest, text: str) -> None:
    """An instruction of the context is this text.

    Raises:
        AssertionError: with the instructions that are there.
    """
    __tracebackhide__ = True
    instructions = [] if request.context is None else request.context.instructions
    if text not in instructions:
        there = "\n".join(f"  {instruction}" for instruction in instructions) or "  none"
        raise AssertionError(f"no instruction is {text!r}; there are\n{there}")


def assert_prefix_stable(requests: Iterable[ModelRequest]) -> list[PrefixStep]:
    """What comes before the context is the same from each request to the next, and only grows.

    Returns:
        a step for each request but the first, with what a prompt cache can give; see there for changes of the tools.

    Raises:
        AssertionError: with the first request that begins otherwise, and where.
    """
    __tracebackhide__ = True
    steps = prefix_steps(list(requests))
    for number, step in enumerate(steps, start=2):
        if step.broken_at is not None:
            raise AssertionError(f"request {number} begins otherwise than the one before: {step.broken_at}")
    return steps


def assert_snapshot(request: ModelRequest, path: str | Path) -> None:
    """The request, rendered for people and without the date, is what the file holds.

    With ``CURB_WRITE_SNAPSHOTS=1`` in the environment the file is written instead.

    Raises:
        AssertionError: it is not, or there is no such file.
    """
    __tracebackhide__ = True
    path, text = Path(path), _without_date(request).render() + "\n"
    if os.environ.get(WRITE_SNAPSHOTS):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))  # as text, line breaks would become others
        return
    if not path.exists():
        raise AssertionError(f"no snapshot {path}; set {WRITE_SNAPSHOTS}=1 to write it")
    expected = path.read_bytes().decode("utf-8", "surrogatepass")
    assert text == expected, f"the request is not as in {path}; set {WRITE_SNAPSHOTS}=1 to take it as it is"


def _without_date(request: ModelRequest) -> ModelRequest:
    context = request.context
    if context is None:
        return request
    masked = ContextLine("", f"{DATE_PREFIX}…")
    is_date = [not line.label and line.value == context.date_line for line in context.lines]
    lines = [masked if date else line for date, line in zip(is_date, context.lines, strict=True)]
    return replace(request, context=CurrentContext(context.skill, tuple(lines)))


def _tools(request: ModelRequest) -> str:
    names = ", ".join(tool.name for tool in request.tools)
    return f"there are {names}" if names else "there are none"


def _context(request: ModelRequest) -> str:
    return f"no <{CONTEXT_TAG}>" if request.context is None else request.context.render()
