"""An agent's run: what its model is asked, the tools that it calls, and the events of that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.questions import ASK_TOOL, questions_in
from curb_client.model.endpoint.answering import Answering
from curb_client.model.endpoint.script import Answer, Call, ModelScript
from curb_client.model.request import ModelRequest
from curb_client.testing.fake_daemon.shell import harmless_bash
from curb_client.testing.fake_daemon.state import MODEL, logger

if TYPE_CHECKING:
    from curb_client.crabtalk.events import Question
    from curb_client.testing.fake_daemon.state import Session, State

__all__ = ["PROVIDER", "Runs", "ToolFunction"]

PROVIDER: Final = "fake"
ASK_SECONDS: Final = 300.0
_NO_ASK: Final = "ask_user is only available in streaming mode"
_CANCELLED: Final = "ask_user cancelled: reply channel closed"

ToolFunction = Callable[[Mapping[str, Any]], str | Awaitable[str]]
"""A tool: gets the arguments, plain or async, and returns what the model is told."""

RunEvents = AsyncGenerator[pb.StreamEvent, None]


class Runs:
    """The runs of a daemon.

    Attributes:
        unmatched: requests that no rule of the script fitted.
    """

    def __init__(self, state: State, script: ModelScript, tools: Mapping[str, ToolFunction]) -> None:
        self.state = state
        self.script = script
        self.tools: dict[str, ToolFunction] = {"bash": harmless_bash, **tools}
        self.requests: list[ModelRequest] = []
        self.unmatched: list[ModelRequest] = []

    async def run(self, session: Session, content: str, *, agent: str, can_ask: bool) -> RunEvents:
        """The events from after the start to the end, which is the last."""
        async with session.running:
            session.is_active = True  # and stays so where the client leaves: a daemon's quirk
            session.history.append({"role": "user", "content": content})
            usage = pb.TokenUsage()
            error = ""
            async for event in self._steps(session, usage, can_ask=can_ask):
                if event.HasField("end"):
                    error = event.end.error
                else:
                    yield event
            session.is_active = False
            shown = f"{MODEL} {usage.prompt_tokens} in / {usage.completion_tokens} out"
            self.state.tell(session, pb.DONE, "" if error and not usage.total_tokens else shown)
        end = pb.StreamEnd(agent=agent, error=error, provider=PROVIDER, model=MODEL, usage=usage)
        yield pb.StreamEvent(end=end)

    async def _steps(self, session: Session, usage: pb.TokenUsage, *, can_ask: bool) -> RunEvents:
        for _ in range(self.state.agent_info(session.agent).max_iterations):
            answering = self._asked(session)
            answer = answering.answer
            await asyncio.sleep(answer.delay)
            if answer.status != 200:
                error = f"provider error (HTTP {answer.status}): {answer.error}"
                yield pb.StreamEvent(end=pb.StreamEnd(error=error))
                return
            async for event in self._said(session, answer):
                yield event
                if event.HasField("end"):
                    return
            _add(usage, answering)
            session.history.append(_message(answering))
            if not answer.calls:
                return
            async for event in self._called(session, answering, can_ask=can_ask):
                yield event

    def _asked(self, session: Session) -> Answering:
        names = [*self.tools, ASK_TOOL]
        tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names]
        system = {"role": "system", "content": f"You are the agent {session.agent}."}
        request = ModelRequest.parse({"model": MODEL, "messages": [system, *session.history], "tools": tools})
        self.requests.append(request)
        answer = self.script.answer(request)
        if answer is None:
            self.unmatched.append(request)
            answer = Answer(status=400, error=f"no rule of the script fits this request:\n{request.render()}")
        return Answering(answer, len(self.requests), int(time.time()), MODEL, request.render())

    async def _said(self, session: Session, answer: Answer) -> RunEvents:
        for thought in answer.thoughts():
            self.state.tell(session, pb.THINKING_DELTA)
            yield pb.StreamEvent(thinking=pb.StreamThinking(content=thought))
            await asyncio.sleep(0)
        for number, piece in enumerate(answer.pieces()):
            if answer.cut_after is not None and number >= answer.cut_after - 1:  # one piece before the text is the role
                error = "internal error: stream error: error decoding response body"
                yield pb.StreamEvent(end=pb.StreamEnd(error=error))
                return
            self.state.tell(session, pb.TEXT_DELTA)
            yield pb.StreamEvent(chunk=pb.StreamChunk(content=piece))
            await asyncio.sleep(0)

    async def _called(self, session: Session, answering: Answering, *, can_ask: bool) -> RunEvents:
        calls = [pb.ToolCallInfo(name=call.tool, arguments=text) for _, call, text in answering.calls]
        early = [pb.ToolCallInfo(name=calls[0].name)]
        yield pb.StreamEvent(tool_start=pb.ToolStartEvent(calls=early))
        labels = ", ".join(_label(call) for call in answering.answer.calls)
        self.state.tell(session, pb.TOOL_START, labels)
        yield pb.StreamEvent(tool_start=pb.ToolStartEvent(calls=calls))
        if questions := [one for call in calls for one in _questions(call)]:
            yield pb.StreamEvent(ask_user=pb.AskUserEvent(questions=questions))
        for call_id, call, text in answering.calls:
            began = time.monotonic()
            output = await self._output(session, call, text, can_ask=can_ask)
            took = int((time.monotonic() - began) * 1000)
            session.history.append({"role": "tool", "tool_call_id": call_id, "name": call.tool, "content": output})
            self.state.tell(session, pb.TOOL_RESULT, f"{took}ms")
            result = pb.ToolResultEvent(call_id=call_id, output=output, duration_ms=took)
            yield pb.StreamEvent(tool_result=result)
        self.state.tell(session, pb.TOOLS_COMPLETE)
        yield pb.StreamEvent(tools_complete=pb.ToolsCompleteEvent())

    async def _output(self, session: Session, call: Call, arguments: str, *, can_ask: bool) -> str:
        if call.tool == ASK_TOOL:
            try:
                questions = questions_in(arguments)
            except ValueError as error:
                return f"invalid arguments: {error}"
            return await self._answer_of_user(session, questions) if can_ask else _NO_ASK
        if call.tool not in self.tools:
            return f"tool not available: {call.tool}"
        try:
            output = self.tools[call.tool](call.arguments)
            told: object = output if isinstance(output, str) else await output
            return told if isinstance(told, str) else f"the tool gave {told!r:.80}, which is no text"
        except Exception as error:
            logger.exception("the tool %s of a fake daemon failed", call.tool)
            return f"the tool failed: {type(error).__name__}: {error}"

    async def _answer_of_user(self, session: Session, questions: tuple[Question, ...]) -> str:
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.state.asks[session.id] = waiting
        try:
            await asyncio.wait({waiting}, timeout=ASK_SECONDS)
        finally:
            if self.state.asks.get(session.id) is waiting:
                del self.state.asks[session.id]
        if waiting.cancelled():
            return _CANCELLED
        if waiting.done():
            return waiting.result()
        headers = "; ".join(one.header for one in questions)
        return f"ask_user timed out after {ASK_SECONDS:.0f}s: no reply received for: {headers}"


def _label(call: Call) -> str:
    command = call.arguments.get("command")
    lines = command.splitlines() if call.tool == "bash" and isinstance(command, str) else None
    return call.tool if lines is None else f"bash({lines[0] if lines else ''})"


def _questions(call: pb.ToolCallInfo) -> list[pb.AskQuestion]:
    """None, of a call that is not taken."""
    try:
        questions = questions_in(call.arguments) if call.name == ASK_TOOL else ()
    except ValueError:
        return []
    return [
        pb.AskQuestion(
            question=one.question,
            header=one.header,
            options=[pb.AskOption(label=option.label, description=option.description) for option in one.options],
            multi_select=one.is_multiple,
        )
        for one in questions
    ]


def _message(answering: Answering) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answering.answer.text or None}
    if answering.calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}
            for call_id, call, arguments in answering.calls
        ]
    return message


def _add(usage: pb.TokenUsage, answering: Answering) -> None:
    usage.prompt_tokens += answering.prompt_tokens
    usage.completion_tokens += answering.answer_tokens
    usage.total_tokens += answering.prompt_tokens + answering.answer_tokens
