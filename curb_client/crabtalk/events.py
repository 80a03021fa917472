"""What an agent's run, a subscription and a package's installation tell, one value each."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from curb_client.crabtalk import crabtalk_pb2 as pb

if TYPE_CHECKING:
    from curb_client.crabtalk.crabtalk_pb2 import AgentEventMsg, TokenUsage

__all__ = [
    "AgentEvent",
    "AskUser",
    "EventKind",
    "PackageEvent",
    "Question",
    "QuestionOption",
    "RunEvent",
    "StreamChunk",
    "StreamEnd",
    "StreamStart",
    "StreamThinking",
    "ToolCall",
    "ToolResult",
    "ToolStart",
    "ToolsAnnounced",
    "ToolsComplete",
    "UnknownEvent",
]


@dataclass(frozen=True)
class StreamStart:
    """The run began.

    Attributes:
        session: the one it is in, to be given with the next message.
    """

    agent: str
    session: int


@dataclass(frozen=True)
class StreamChunk:
    """More of the answer's text."""

    content: str


@dataclass(frozen=True)
class StreamThinking:
    """More of what the model thinks; comes of agents with ``thinking = false`` too, where the model tells."""

    content: str


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        arguments: JSON text, as the model wrote it.
    """

    name: str
    arguments: str


@dataclass(frozen=True)
class ToolsAnnounced:
    """The model has begun to call tools: the names so far, while the arguments are still being written."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class ToolStart:
    """A batch of tools is called; their results come next, in this order."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class ToolResult:
    """What a tool gave.

    Attributes:
        call: what was called; None where the daemon gave more results than calls.
        call_id: the model's. duration_ms: milliseconds.
    """

    call: ToolCall | None
    call_id: str
    output: str
    duration_ms: int


@dataclass(frozen=True)
class ToolsComplete:
    """All tools of the batch gave their results."""


@dataclass(frozen=True)
class QuestionOption:
    """A choice that a question offers."""

    label: str
    description: str


@dataclass(frozen=True)
class Question:
    """A question to the person.

    Attributes:
        header: a short name for it. is_multiple: several options may be chosen.
    """

    question: str
    header: str
    options: tuple[QuestionOption, ...]
    is_multiple: bool


@dataclass(frozen=True)
class AskUser:
    """The agent waits, five minutes at most, for :meth:`curb_client.crabtalk.CrabTalkClient.reply_to_ask`.

    Attributes:
        questions: of the call of ``ask_user`` that runs now; others of the same batch have a turn of their own.
        session: the one to reply to.
    """

    questions: tuple[Question, ...]
    session: int


@dataclass(frozen=True)
class StreamEnd:
    """The run ended well; the last event.

    Attributes:
        provider, model: who answered. usage: of tokens; None where nothing was asked of a model.
    """

    agent: str
    provider: str
    model: str
    usage: TokenUsage | None


@dataclass(frozen=True)
class UnknownEvent:
    """An event of a newer daemon's.

    Attributes:
        message: as it came, with the fields that are not known here.
    """

    message: pb.StreamEvent


RunEvent = (
    StreamStart
    | StreamChunk
    | StreamThinking
    | ToolsAnnounced
    | ToolStart
    | ToolResult
    | ToolsComplete
    | AskUser
    | StreamEnd
    | UnknownEvent
)
"""What a stream gives."""


def asked_questions(event: pb.AskUserEvent, session: int) -> AskUser:
    """The questions of an event."""
    questions = (
        Question(
            one.question,
            one.header,
            tuple(QuestionOption(option.label, option.description) for option in one.options),
            one.multi_select,
        )
        for one in event.questions
    )
    return AskUser(tuple(questions), session)


# Subscriptions

EventKind = Literal["text_delta", "thinking_delta", "tool_start", "tool_result", "tools_complete", "done", "unknown"]
"""What an agent did."""

_KINDS: Final[Mapping[int, EventKind]] = {
    pb.TEXT_DELTA: "text_delta",
    pb.THINKING_DELTA: "thinking_delta",
    pb.TOOL_START: "tool_start",
    pb.TOOL_RESULT: "tool_result",
    pb.TOOLS_COMPLETE: "tools_complete",
    pb.DONE: "done",
}
_NANOSECONDS: Final = re.compile(r"(\.\d{6})\d+")


@dataclass(frozen=True)
class AgentEvent:
    """What an agent did, in any session, whoever asked for it.

    Attributes:
        content: for people: of ``tool_start`` like ``bash(echo hi)``, of ``tool_result`` how long it took, of ``done``
            model and tokens; empty of deltas.
        timestamp: RFC 3339, as it came.
    """

    agent: str
    session: int
    kind: EventKind
    content: str
    timestamp: str

    @classmethod
    def of(cls, message: AgentEventMsg) -> AgentEvent:
        """The event in a message."""
        kind = _KINDS.get(message.kind, "unknown")
        return cls(message.agent, message.session, kind, message.content, message.timestamp)

    @property
    def at(self) -> dt.datetime | None:
        """The time, to the microsecond; None where it is not RFC 3339."""
        try:
            return dt.datetime.fromisoformat(_NANOSECONDS.sub(r"\1", self.timestamp).replace("Z", "+00:00"))
        except ValueError:
            return None


@dataclass(frozen=True)
class PackageEvent:
    """How installing or removing a package goes on.

    Attributes:
        kind: a ``step``, a ``warning``, or ``output`` of the package's own setup.
    """

    kind: Literal["step", "warning", "output"]
    text: str


def to_json(event: RunEvent | AgentEvent | PackageEvent) -> dict[str, Any]:
    """For a program that reads along: ``event`` names it, the other properties are the event's."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    return {"event": name, **{key: _plain(value) for key, value in vars(event).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, (ToolCall, Question, QuestionOption)):
        return {key: _plain(each) for key, each in vars(value).items()}
    if isinstance(value, pb.TokenUsage):
        return {field.name: getattr(value, field.name) for field in value.DESCRIPTOR.fields}
    return str(value).strip() if isinstance(value, pb.StreamEvent) else value
