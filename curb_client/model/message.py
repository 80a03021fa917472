"""A message of a request, with the blocks that the runtime put into it told from what was said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from typing_extensions import Self

from curb_client.model.context import CLOSING, OPENING, ContextLine, CurrentContext
from curb_client.model.contract import CONTEXT_CHANGED, CONTEXT_TAG, EVENT_TAG

__all__ = ["TEXT_PARTS", "ContextEvent", "Message", "Part", "ToolCall", "ToolResult", "parts_of_user_text"]

TEXT_PARTS: Final = ("text", "input_text", "output_text")
"""Types of a content's parts that are text."""

_EVENT_BEGINS: Final = re.compile(rf"^<{EVENT_TAG}>", re.MULTILINE)
_EVENT_ENDS: Final = re.compile(rf"</{EVENT_TAG}>$", re.MULTILINE)


class ContextEvent(NamedTuple):
    """The block ``<context_event>``: a notice of what happened outside of the agent's own tools."""

    inside: str
    """Between the tags, line breaks included."""

    @property
    def text(self) -> str:
        """The notice."""
        return self.inside.strip("\n")

    @classmethod
    def of_text(cls, text: str) -> ContextEvent:
        """The block as a runtime writes it, the notice on lines of its own."""
        return cls(f"\n{text}\n")

    def render(self) -> str:
        """The text of the block."""
        return f"<{EVENT_TAG}>{self.inside}</{EVENT_TAG}>"


Part = str | ContextEvent | CurrentContext
"""A piece of a message's text: what was said is plain text."""


class ToolCall(NamedTuple):
    """A tool that the model called."""

    id: str
    name: str
    arguments: str
    """JSON text, as the model wrote it."""

    @property
    def value(self) -> Any:
        """The arguments; the text itself where it is no JSON."""
        return _json_or_text(self.arguments)


@dataclass(frozen=True)
class Message:
    """One message, or one tool's call or result where the request keeps these apart.

    Attributes:
        role: ``system``, ``user``, ``assistant``, ``tool``, or another that the request has.
        texts: its texts (a message may have several), each in parts.
        calls: the tools that it calls.
        call_id: of a tool's result, the call that it answers; else empty.
        raw: the JSON object that it was read from, a context that ended it left out; None where it was none.
    """

    role: str
    texts: tuple[tuple[Part, ...], ...] = ()
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    raw: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_text(cls, role: str, text: str, **others: Any) -> Self:
        """A message with one text."""
        return cls(role, (parts_of_user_text(text) if role == "user" else (text,),), **others)

    @property
    def text(self) -> str:
        """What was said, without the runtime's blocks."""
        return "\n".join(part for text in self.texts for part in text if isinstance(part, str)).strip("\n")

    @property
    def events(self) -> list[ContextEvent]:
        """The notices in it."""
        return [part for text in self.texts for part in text if isinstance(part, ContextEvent)]

    @property
    def context(self) -> CurrentContext | None:
        """The context that ends it."""
        last = self.texts[-1][-1] if self.texts and self.texts[-1] else None
        return last if isinstance(last, CurrentContext) else None

    def without_context(self) -> Message | None:
        """What is left without the context that ends it: None where the message is nothing else."""
        if self.context is None:
            return self
        left = self.texts[-1][:-1]
        texts = tuple(text for text in (*self.texts[:-1], left) if text)
        if not texts and not self.calls:
            return None
        return Message(self.role, texts, self.calls, self.call_id, _with_last_text(self.raw, render_parts(left)))

    def render(self) -> str:
        """Its texts, as in the request."""
        return "\n".join(render_parts(text) for text in self.texts)


@dataclass(frozen=True)
class ToolResult:
    """What a tool answered.

    Attributes:
        call_id: of the call. name: of the tool; empty where no call has this id. text: the answer, whole.
    """

    call_id: str
    name: str
    text: str

    @cached_property
    def value(self) -> Any:
        """The answer; the text itself where it is no JSON."""
        return _json_or_text(self.text)

    @property
    def context_changed(self) -> list[ContextLine]:
        """The lines that joined the context by this call, each cut at 200 characters."""
        lines = self.value.get(CONTEXT_CHANGED) if isinstance(self.value, dict) else None
        texts = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
        return [line for text in texts for line in CurrentContext.lines_of(text)]


def _with_last_text(raw: Mapping[str, Any] | None, text: str) -> Mapping[str, Any] | None:
    """The message's JSON with another text for its last one; a part without text is left out."""
    if raw is None or not isinstance(content := raw.get("content"), list):
        return raw if raw is None else {**raw, "content": text}
    last = max(n for n, part in enumerate(content) if isinstance(part, Mapping) and part.get("type") in TEXT_PARTS)
    kept = [{**content[last], "text": text}] if text else []
    return {**raw, "content": [*content[:last], *kept, *content[last + 1 :]]}


def render_parts(parts: tuple[Part, ...]) -> str:
    """The text that has these parts."""
    return "".join(part if isinstance(part, str) else part.render() for part in parts)


def parts_of_user_text(text: str) -> tuple[Part, ...]:
    """A user message's text in parts: notices, and the context where the text ends with one.

    The context is the last block, so that one that somebody wrote before it is not taken for it.
    """
    start = _context_start(text)
    if start is None:
        return _parts_with_events(text)
    return (*_parts_with_events(text[:start]), CurrentContext.parse(text[start:]))


def _context_start(text: str) -> int | None:
    if not text.endswith(f"\n{CLOSING}"):
        return None
    start = len(text)
    while (start := text.rfind(f"<{CONTEXT_TAG}", 0, start)) >= 0:
        if (start == 0 or text[start - 1] == "\n") and OPENING.fullmatch(text, start, text.index("\n", start)):
            return start
    return None


def _parts_with_events(text: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    done = 0
    while (begins := _EVENT_BEGINS.search(text, done)) and (ends := _EVENT_ENDS.search(text, begins.end())):
        if begins.start() > done:
            parts.append(text[done : begins.start()])
        parts.append(ContextEvent(text[begins.end() : ends.start()]))
        done = ends.end()
    if done < len(text):
        parts.append(text[done:])
    return tuple(parts)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
