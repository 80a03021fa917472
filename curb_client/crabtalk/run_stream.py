"""A run of an agent, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.errors import AgentRunError
from curb_client.crabtalk.events import (
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
from curb_client.crabtalk.replies import Replies

if TYPE_CHECKING:
    from curb_client.crabtalk.pool import Pool

__all__ = ["AgentRun"]


class AgentRun(Replies[RunEvent]):
    """The events of a run: ``async for event in client.stream("hello"): ...``.

    The last one is a StreamEnd. A run that is left early is ended by the daemon at its next event; its session counts
    as active there until it is used again.

    Attributes:
        session: of the run, once it began.
        end: its last event, once it came.

    Raises, besides what all requests do:
        AgentRunError: the run ended with an error, the provider's or the daemon's.
    """

    def __init__(self, pool: Pool, message: pb.StreamMsg, seconds: float) -> None:
        super().__init__(pool, message, seconds)
        self.session: int | None = message.session or None
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
                result = event.tool_result
                call = self._calls.pop(0) if self._calls else None
                return ToolResult(call, result.call_id, result.output, result.duration_ms)
            case "tools_complete":
                self._is_announced = False
                return ToolsComplete()
            case "ask_user":
                return asked_questions(event.ask_user, self.session or 0)
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
        return ToolStart(tuple(self._calls))

    def _ended(self, event: pb.StreamEnd) -> StreamEnd:
        self._finish()
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
