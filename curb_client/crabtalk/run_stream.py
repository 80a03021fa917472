"""A run of an agent, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.errors import AgentRunError
from curb_client.crabtalk.events import (
    AskUser,
    Question,
    RunEvent,
    StreamChunk,
    StreamEnd,
    StreamStart,
    StreamThinking,
    ToolCall,
    ToolResult,
    ToolsAnnounced,
    ToolsComplete,
    ToolStart,
    UnknownEvent,
    asked_questions,
)
from curb_client.crabtalk.operations import answer_of
from curb_client.crabtalk.questions import ASK_TOOL, questions_in
from curb_client.crabtalk.replies import Replies

if TYPE_CHECKING:
    from curb_client.crabtalk.pool import Pool

__all__ = ["AgentRun"]


class AgentRun(Replies[RunEvent]):
    """The events of a run: ``async for event in client.stream("hello"): ...``.

    The last one is a StreamEnd. A run that is left early is ended by the daemon at its next event; its session counts
    as active there until it is used again. One that is left at a question has that event five minutes later, and until
    then the daemon keeps everybody waiting who lists its sessions, or says something without a session or a new one:
    answer the question, or ``await client.kill(run.question.session)``. A killed session is still on disk.

    Attributes:
        session: of the run, once it began.
        question: the one that the daemon waits with; None once its tool gave a result.
        end: its last event, once it came.

    Raises, besides what all requests do:
        AgentRunError: the run ended with an error, the provider's or the daemon's.
    """

    def __init__(self, pool: Pool, message: pb.StreamMsg, seconds: float) -> None:
        super().__init__(pool, message, seconds)
        self.session: int | None = message.session or None
        self.question: AskUser | None = None
        self.end: StreamEnd | None = None
        self._is_announced = False
        self._calls: list[ToolCall] = []

    async def text(self) -> str:
        """The whole answer, once the run has ended."""
        return "".join([event.content async for event in self if isinstance(event, StreamChunk)])

    def _take(self, message: pb.ServerMessage) -> RunEvent | None:
        event = message.stream if message.HasField("stream") else answer_of(message, self._doing, pb.StreamEvent)
        match event.WhichOneof("event"):
            case "chunk":
                return StreamChunk(event.chunk.content)
            case "thinking":
                return StreamThinking(event.thinking.content)
            case "start":
                self.session = event.start.session
                return StreamStart(event.start.agent, event.start.session)
            case "tool_start":
                return self._tools(event.tool_start)
            case "tool_result":
                return self._result(event.tool_result)
            case "tools_complete":
                self._is_announced = False
                return ToolsComplete()
            case "ask_user":
                return self._asked(event.ask_user)
            case "end":
                return self._ended(event.end)
        return UnknownEvent(event)

    def _tools(self, event: pb.ToolStartEvent) -> ToolsAnnounced | ToolStart:
        """A daemon tells of each batch twice: with the names as soon as there is one, and when all of it is known.

        Calls have no id, but a daemon runs them one after the other, so that results come in the order of the calls.
        """
        if not self._is_announced and not any(call.arguments for call in event.calls):
            self._is_announced = True
            return ToolsAnnounced(tuple(call.name for call in event.calls))
        self._is_announced = True
        self._calls = [ToolCall(call.name, call.arguments) for call in event.calls]
        start = ToolStart(tuple(self._calls))
        self._ask()
        return start

    def _result(self, result: pb.ToolResultEvent) -> ToolResult:
        call = self._calls.pop(0) if self._calls else None
        self.question = None
        self._ask()
        return ToolResult(call, result.call_id, result.output, result.duration_ms)

    def _ask(self) -> None:
        """A daemon tells all questions of a batch before its first tool runs, but can take the answers to one call
        alone, the one that runs: they are asked when it is its turn.
        """
        if self._calls and self._calls[0].name == ASK_TOOL and (questions := _questions(self._calls[0])) is not None:
            self.question = AskUser(questions, self.session or 0)
            self._more.append(self.question)

    def _asked(self, event: pb.AskUserEvent) -> AskUser | None:
        if any(call.name == ASK_TOOL and _questions(call) is not None for call in self._calls):
            return None
        self.question = asked_questions(event, self.session or 0)  # of calls that only a newer daemon understands
        return self.question

    def _ended(self, event: pb.StreamEnd) -> StreamEnd:
        self._finish()
        self.question = None
        if event.error:
            raise AgentRunError(
                f"the run of {event.agent!r} in session {self.session} failed: {event.error}",
                reason=event.error,
                agent=event.agent,
                session=self.session,
                provider=event.provider,
                model=event.model,
            )
        usage = event.usage if event.HasField("usage") else None
        self.end = StreamEnd(event.agent, event.provider, event.model, usage)
        return self.end


def _questions(call: ToolCall) -> tuple[Question, ...] | None:
    try:
        return questions_in(call.arguments)
    except ValueError:
        return None
