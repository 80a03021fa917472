"""A request as a model received it, read from the JSON that an agent sent (What the model receives).

Both forms of OpenAI's interface are read: chat completions (``messages``) and responses (``instructions``, ``input``).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from typing_extensions import Self

from curb_client.model import body_forms
from curb_client.model.context import CurrentContext, Problem
from curb_client.model.contract import CONTEXT_TAG
from curb_client.model.message import ContextEvent, Message, ToolCall, ToolResult
from curb_client.model.system_text import SystemText

__all__ = ["ModelRequest", "OfferedTool"]

_SYSTEM_ROLES: Final = ("system", "developer")


@dataclass(frozen=True)
class OfferedTool:
    """A tool that the request offers.

    Attributes:
        name: as the model calls it.
        description: what it is for.
        schema: JSON Schema of its arguments.
    """

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)

    @property
    def required(self) -> list[str]:
        """The arguments that must be given."""
        names = self.schema.get("required")
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


@dataclass(frozen=True)
class ModelRequest:
    """What a model received for one answer.

    Attributes:
        model: its name; empty where the request names none.
        system: the system text; its parts are empty where there is none.
        tools: those offered, in order.
        transcript: what was said, called and answered, without the context.
        context: the context, from the end of the newest user message; None where there is none.
        body: the JSON that was read.
        reading_problems: what the JSON lacks or has too much.
    """

    model: str
    system: SystemText
    tools: tuple[OfferedTool, ...]
    transcript: tuple[Message, ...]
    context: CurrentContext | None
    body: Any = field(repr=False, compare=False, default=None)
    reading_problems: tuple[Problem, ...] = ()

    @classmethod
    def parse(cls, body: Any) -> Self:
        """Read a request: the JSON value, or its text as str or bytes.

        Never raises: what could not be read is in :attr:`problems`.
        """
        problems: list[Problem] = []
        value = _decoded(body, problems)
        messages, tools = body_forms.read(value, problems)
        is_first_system = bool(messages) and messages[0].role in _SYSTEM_ROLES
        system = SystemText.parse(messages[0].render()) if is_first_system else SystemText("")
        transcript, context = _split(messages[1:] if is_first_system else messages)
        model = value.get("model") if isinstance(value, Mapping) else None
        offered = tuple(OfferedTool(*tool) for tool in tools)
        name = model if isinstance(model, str) else ""
        return cls(name, system, offered, tuple(transcript), context, value, tuple(problems))

    @property
    def events(self) -> list[ContextEvent]:
        """The notices in the transcript."""
        return [event for message in self.transcript for event in message.events]

    @property
    def calls(self) -> list[ToolCall]:
        """The tools called so far."""
        return [call for message in self.transcript for call in message.calls]

    @property
    def results(self) -> list[ToolResult]:
        """What they answered."""
        return [
            ToolResult(message.call_id, name, message.render())
            for message, name in _with_tools(self.transcript)
            if message.role == "tool"
        ]

    @property
    def last_user_text(self) -> str:
        """What the person said last; empty where nothing was said."""
        said = (message.text for message in reversed(self.transcript) if message.role == "user")
        return next((text for text in said if text), "")

    def tool(self, name: str) -> OfferedTool | None:
        """The offered tool of this name."""
        return next((tool for tool in self.tools if tool.name == name), None)

    @cached_property
    def problems(self) -> list[Problem]:
        """Everything that does not fit: in the JSON, in the context, and between the two."""
        return [*self.reading_problems, *self._context_problems()]

    def render(self) -> str:
        """The request in a form for people: system, tools by name, messages."""
        lines = [line for message, tool in _with_tools(self.transcript) for line in _printed(message, tool)]
        if self.context is not None:
            lines.append(f"user: {self.context.render()}")
        tools = ", ".join(tool.name for tool in self.tools)
        return "\n".join(["=== system ===", self.system.render(), "=== tools ===", tools, "=== messages ===", *lines])

    def _context_problems(self) -> Iterator[Problem]:
        if self.context is None:
            yield Problem(1, f"no <{CONTEXT_TAG}> ends the newest user message", "messages")
            return
        for problem in self.context.problems:
            yield problem._replace(where=CONTEXT_TAG)
        offered, listed = {tool.name for tool in self.tools}, {tool.name for tool in self.context.tools}
        for name in sorted(listed - offered):
            yield Problem(1, f"the context lists the tool {name!r}, which the request does not offer", "tools")
        for name in sorted(offered - listed):
            yield Problem(1, f"the tool {name!r} is offered, and the context does not list it", "tools")
        for number, message in enumerate(self.transcript):
            if message.context is not None:
                yield Problem(1, f"a <{CONTEXT_TAG}> is stored in the transcript", f"transcript[{number}]")


def _decoded(body: Any, problems: list[Problem]) -> Any:
    if not isinstance(body, (str, bytes, bytearray)):
        return body
    try:
        return json.loads(body)
    except UnicodeDecodeError as error:
        problems.append(Problem(1, f"the request is not UTF-8: {error}"))
    except json.JSONDecodeError as error:
        problems.append(Problem(error.lineno, f"the request is not JSON: {error.msg} at column {error.colno}"))
    except RecursionError:
        problems.append(Problem(1, "the request is nested too deeply"))
    except ValueError as error:  # a number of thousands of digits
        problems.append(Problem(1, f"the request cannot be read: {error}"))
    return None


def _split(messages: list[Message]) -> tuple[list[Message], CurrentContext | None]:
    """The transcript, and the context where the newest user message ends with it."""
    newest = max((i for i, message in enumerate(messages) if message.role == "user"), default=None)
    if newest is None or (context := messages[newest].context) is None:
        return messages, None
    left = messages[newest].without_context()
    return [*messages[:newest], *([left] if left else []), *messages[newest + 1 :]], context


def _with_tools(transcript: Iterable[Message]) -> Iterator[tuple[Message, str]]:
    """The messages, each result with its tool's name: of the oldest call with its id that has no result yet, as some
    models give the same ids in every answer. Empty where there is no such call."""
    waiting: dict[str, deque[str]] = {}
    for message in transcript:
        for call in message.calls:
            waiting.setdefault(call.id, deque()).append(call.name)
        names = waiting.get(message.call_id) if message.role == "tool" else None
        yield message, names.popleft() if names else ""


def _printed(message: Message, tool: str) -> Iterator[str]:
    if message.role == "tool":
        yield f"tool: result {tool or message.call_id}: {message.render()}"
        return
    if message.texts:
        yield f"{message.role}: {message.render()}"
    for call in message.calls:
        yield f"{message.role}: call {call.name}({call.arguments})"
