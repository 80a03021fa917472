"""The agent core: state in, requests out, tools run; no input or output of its own (What the model receives).

The transcript only grows, and the context is rendered anew for each request and never stored, so that all before it
stays the same.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any, Final, Generic, TypeVar

from curb_client.errors import UsageError
from curb_client.model.builder.harmless import made_harmless
from curb_client.model.builder.prose import Prose
from curb_client.model.builder.rendering import date_line, labelled_lines, line, text_lines
from curb_client.model.builder.running import run_tool
from curb_client.model.builder.skill import Rendered, Skill, Tool
from curb_client.model.changes import Change
from curb_client.model.context import AvailableSkill, ContextLine, CurrentContext
from curb_client.model.contract import (
    ACTIVE_SKILL,
    AVAILABLE_SKILL,
    CONTEXT_CHANGED,
    END_CALL,
    MAX_CHANGED_LINE,
    READ_SKILL,
    SKIP_TURN,
    TOOL,
)
from curb_client.model.message import ContextEvent, ToolCall
from curb_client.protocol.json_text import without_lone_surrogates

__all__ = ["AgentCore"]

StateT = TypeVar("StateT")

logger: Final = logging.getLogger("curb_client.model")


class AgentCore(Generic[StateT]):
    """An agent without a model and without a room: what it knows, and what of that a request holds.

    Args:
        system_prompt: what the agent is.
        state: read by the renders, changed by tools and handlers, in place.
        skills: what it can do.
        render: what the context holds besides, whichever skills were read.
        is_voice: on a voice call there are rules for spoken replies, and the tool ``end_call``.
        prose: the runtime's own texts.
        clock: the time now, with a time zone.

    Raises:
        UsageError: two skills with one path, or a system prompt without text.
    """

    def __init__(
        self,
        system_prompt: str,
        state: StateT,
        skills: Sequence[Skill[StateT]] = (),
        *,
        render: Callable[[StateT], Rendered] = lambda _: (),
        is_voice: bool = False,
        prose: Prose | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        if not system_prompt.strip():
            raise UsageError("system_prompt is empty; say what the agent is")
        if len({skill.path for skill in skills}) < len(skills):
            raise UsageError(f"two skills have one path: {', '.join(sorted(skill.path for skill in skills))}")
        self.state = state
        self.transcript: list[dict[str, Any]] = []
        """The messages so far, in the form of chat completions, without system text and context."""
        self.is_over = False
        """Whether the model ended the call."""
        self._system_prompt = without_lone_surrogates(system_prompt)
        self._skills = {skill.path: skill for skill in skills}
        self._read: list[str] = []
        self._render = render
        self._is_voice = is_voice
        self._prose = prose or Prose()
        self._clock = clock
        self._told: list[str] | None = None  # the lines that the model knows of; None before the first request
        self._offered: frozenset[str] | None = None  # the tools of the newest request; None before the first

    # The request

    @property
    def system_text(self) -> str:
        """Prompt, rules for spoken replies on a voice call, and the note."""
        spoken = [self._prose.spoken_replies] if self._is_voice else []
        return "\n\n".join([self._system_prompt, *spoken, self._prose.note])

    def request(self) -> dict[str, Any]:
        """Messages and tools of the next request; what changed without a tool is noticed in it."""
        context, tools = self._rendered()
        self._notice_changes(context)
        self._told = labelled_lines(context)
        self._offered = frozenset(tool.name for tool in tools)
        messages = [
            {"role": "system", "content": self.system_text},
            *self.transcript,
            {"role": "user", "content": context.render()},
        ]
        return {"messages": messages, "tools": [_offered(tool) for tool in tools]}

    def context(self) -> CurrentContext:
        """The context as it is now."""
        return self._rendered()[0]

    # What happens

    def user_said(self, text: str) -> None:
        """The person's words, in which no block can be; what changed before them is noticed before them."""
        self._notice_changes(self.context())
        self.transcript.append({"role": "user", "content": made_harmless(text)})

    def assistant_said(self, text: str) -> None:
        """The model's reply."""
        self.transcript.append({"role": "assistant", "content": without_lone_surrogates(text)})

    def talked_over(self, heard: str) -> None:
        """The person spoke while the last reply was read out; ``heard`` is what came before that."""
        self._notice(f"{self._prose.talked_over}\n{made_harmless(heard)}")

    def unload_skill(self, path: str) -> None:
        """Take what a skill brings out of the context; the model may read it again.

        Raises:
            UsageError: it was not read.
        """
        if path not in self._read:
            raise UsageError(f"path is {path!r}; the skills that were read are {', '.join(self._read) or 'none'}")
        self._read.remove(path)

    async def run_tools(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Run what the model called, in order, and put calls and results into the transcript.

        A tool that is not rendered is refused, and does not run; so is one that the newest request did not offer, as
        the model called it before it could know of it. One that raises fails, and is logged. If this is cancelled, or a
        render raises, what ran by then is in the transcript, and the calls without a result are ``interrupted``.

        Args:
            text: what the model said along with it; may be empty.
        """
        self._notice_changes(self.context())
        calls = [ToolCall(*map(without_lone_surrogates, call)) for call in calls]
        results: list[dict[str, Any]] = []
        try:
            for call in calls:
                await self._run(call, results)
        finally:
            results += [{"ok": False, "error": "interrupted"}] * (len(calls) - len(results))
            said = without_lone_surrogates(text) or None
            self.transcript.append({"role": "assistant", "content": said, "tool_calls": list(map(_called, calls))})
            self.transcript += map(_answered, calls, results)

    async def _run(self, call: ToolCall, results: list[dict[str, Any]]) -> None:
        """Adds the result at once, so that it is not lost where the render after it fails."""
        context, tools = self._rendered()
        tool = next((tool for tool in tools if tool.name == call.name), None)
        if tool is None or (self._offered is not None and tool.name not in self._offered):
            logger.warning("the model called %r, which is not offered; it did not run", call.name)
            result = {"ok": False, "error": "not_offered", "message": self._refusal(call.name, tools)}
        else:
            result = await run_tool(tool, call)
        result.pop(CONTEXT_CHANGED, None)  # the runtime's word, not the tool's
        results.append(result)
        self._told = labelled_lines(self.context())
        change = Change.between(labelled_lines(context), self._told)
        if change.joined:
            result[CONTEXT_CHANGED] = [text[:MAX_CHANGED_LINE] for text in change.joined]

    def _refusal(self, name: str, tools: list[Tool]) -> str:
        if any(tool.name == name for tool in tools):
            return f"The tool {name} is offered from now on, and was not when you called it."
        offered = ", ".join(tool.name for tool in tools if self._offered is None or tool.name in self._offered)
        return made_harmless(f"There is no tool {name!r}, only {offered}.")

    # Skills and tools

    def _active(self) -> list[Skill[StateT]]:
        return [skill for path in self._read if (skill := self._skills[path]).is_available(self.state)]

    def _available(self) -> list[Skill[StateT]]:
        return [skill for skill in self._skills.values() if skill.is_available(self.state)]

    def _rendered(self) -> tuple[CurrentContext, list[Tool]]:
        """The context and the tools in it; each skill is rendered once."""
        active = self._active()
        lines = [ContextLine("", date_line(self._clock()))]
        tools = {tool.name: tool for tool in self._runtime_tools()}
        for title, rendered in [*((skill.name, skill.render) for skill in active), (None, self._render)]:
            items = list(rendered(self.state))
            lines += [] if title is None else [line(ACTIVE_SKILL, title)]
            lines += text_lines(items)
            for tool in items:
                if isinstance(tool, Tool) and tools.setdefault(tool.name, tool) != tool:
                    logger.warning("two rendered tools are named %r; the first one counts", tool.name)
        lines += [
            line(AVAILABLE_SKILL, AvailableSkill(skill.name, skill.description).render()) for skill in self._available()
        ]
        lines += [line(TOOL, tool.in_context.render()) for tool in tools.values()]
        skill = made_harmless(active[-1].name) if active else None
        return CurrentContext(skill, tuple(lines)), list(tools.values())

    def _runtime_tools(self) -> Iterator[Tool]:
        yield Tool(SKIP_TURN, self._prose.skip_turn, lambda _: {"ok": True}, origin="runtime")
        if self._skills:
            schema = {"type": "object", "properties": {"skill": {"type": "string"}}, "required": ["skill"]}
            yield Tool(READ_SKILL, self._prose.read_skill, self._read_skill, schema, origin="runtime")
        if self._is_voice:
            yield Tool(END_CALL, self._prose.end_call, self._end_call, origin="runtime")

    def _read_skill(self, arguments: dict[str, Any]) -> dict[str, Any]:
        path = arguments.get("skill")
        found = next((skill for skill in self._available() if path in (skill.path, skill.name)), None)
        if found is None:
            paths = ", ".join(skill.path for skill in self._available())
            return {"ok": False, "error": "unknown_skill", "message": f"There is no skill {path!r}, only {paths}."}
        if found.path in self._read:  # read again, it is the newest
            self._read.remove(found.path)
        self._read.append(found.path)
        return {"ok": True, "note": self._prose.skill_read}

    def _end_call(self, _: dict[str, Any]) -> dict[str, Any]:
        self.is_over = True
        return {"ok": True}

    # Notices

    def _notice_changes(self, context: CurrentContext) -> None:
        """Notice what is not as the model was told; before the first request it was told nothing."""
        if self._told is None:
            return
        before, self._told = self._told, labelled_lines(context)
        change = Change.between(before, self._told)
        if change.joined:
            joined = (text[:MAX_CHANGED_LINE] for text in change.joined)
            self._notice("\n".join([self._prose.state_changed, *joined]))
        elif change.left:
            self._notice(self._prose.state_left)

    def _notice(self, text: str) -> None:
        self.transcript.append({"role": "user", "content": ContextEvent.of_text(text).render()})


def _offered(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.json_schema}
    return {"type": "function", "function": without_lone_surrogates(function)}


def _called(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _answered(call: ToolCall, result: dict[str, Any]) -> dict[str, Any]:
    content = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return {"role": "tool", "tool_call_id": call.id, "content": content}
