"""What an agent is written with: skills that render instructions, contents and tools from the state."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from curb_client.errors import UsageError
from curb_client.model.context import ContextTool, ToolArgument
from curb_client.model.contract import END_CALL, READ_SKILL, SKIP_TURN, Origin

__all__ = ["Content", "Instruction", "Rendered", "Skill", "Tool"]

StateT = TypeVar("StateT")

_UNLISTED: Final = re.compile(r"[(),*\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Instruction:
    """What the agent is to do now."""

    text: str


@dataclass(frozen=True)
class Content:
    """What the agent is to know now."""

    text: str


@dataclass(frozen=True)
class Tool:
    """A tool that the model can call while it is rendered.

    Attributes:
        name: letters, digits, ``_`` and ``-``, up to 64.
        description: what it is for.
        on_submit: called with the arguments, plain or async; what it returns is the result: a mapping, or any JSON
            value, which becomes ``result``.
        schema: a pydantic model, of which ``on_submit`` gets an instance, or a JSON Schema, for a dict; without one the
            tool takes nothing, and ``on_submit`` an empty dict.
        origin: ``page`` for the author's tools.
    """

    name: str
    description: str
    on_submit: Callable[[Any], Any | Awaitable[Any]]
    schema: type[BaseModel] | Mapping[str, Any] | None = None
    origin: Origin = "page"

    def __post_init__(self) -> None:
        allowed = self.name.replace("_", "").replace("-", "")
        if not (allowed.isascii() and allowed.isalnum() and len(self.name) <= 64):
            raise UsageError(f"name is {self.name!r}; give letters, digits, _ and -, up to 64 ({len(self.name)} now)")
        if self.origin == "page" and self.name in (SKIP_TURN, READ_SKILL, END_CALL):
            raise UsageError(f"name is {self.name!r}, which is one of the runtime's own tools")
        for name in self.json_schema.get("properties", {}):
            if not name or name != name.strip() or _UNLISTED.search(name):
                raise UsageError(
                    f"the tool {self.name!r} takes {name!r}, which a context cannot list; "
                    "name it without ( ) , * and line breaks, and without blanks around it"
                )

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        if self.schema is None:
            return {"type": "object", "properties": {}}
        return _with_properties(self.schema.model_json_schema() if isinstance(self.schema, type) else dict(self.schema))

    @property
    def in_context(self) -> ContextTool:
        """How the context lists it."""
        schema = self.json_schema
        required = schema.get("required", ())
        arguments = (ToolArgument(name, name in required) for name in schema.get("properties", {}))
        return ContextTool(self.name, tuple(arguments), self.origin)


Rendered = Iterable[Instruction | Content | Tool | str]
"""What a function of the state gives; plain text is a content."""


@dataclass(frozen=True)
class Skill(Generic[StateT]):
    """Something that the agent can do, which the model knows by name and description until it reads it.

    Attributes:
        path: what ``read_skill`` is called with, ``/report-claim``.
        name: for people. description: when to use it.
        render: a function of the state.
        is_available: whether the model may read it now; without it always.
    """

    path: str
    name: str
    description: str
    render: Callable[[StateT], Rendered]
    is_available: Callable[[StateT], bool] = field(default=lambda _: True)

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise UsageError(f"path is {self.path!r}; begin it with a slash")
        for what in ("path", "name", "description"):
            value = getattr(self, what)
            if value.splitlines() != [value]:
                raise UsageError(f"{what} of the skill {self.path!r} is {value!r}; give one line of text")


def _with_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what its root refers to in place: a model that contains itself is among its definitions."""
    definitions = schema.get("$defs", {})
    for _ in definitions:
        kind, _, name = str(schema.get("$ref", "")).rpartition("/")
        if kind != "#/$defs" or name not in definitions:
            break
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**definitions[name], **rest}
    return schema
