"""What goes between callers and a gateway: keys, payloads, refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field

from curb_client.crabtalk.errors import (
    AgentRunError,
    CutFrameError,
    DaemonClosedError,
    DaemonRefusedError,
    DaemonTimeoutError,
    DaemonUnreachableError,
    FrameError,
)
from curb_client.errors import CurbError
from curb_client.protocol.contract import MAX_MESSAGE_BYTES
from curb_client.protocol.json_text import encode_json, utf8_size
from curb_client.protocol.types import Issue
from curb_client.room.handlers import HandlerRefusal

if TYPE_CHECKING:
    from curb_client.crabtalk.crabtalk_pb2 import TokenUsage
    from curb_client.crabtalk.events import AskUser, ToolCall
    from curb_client.protocol.contract import RefusalCode

__all__ = [
    "ANSWER",
    "ASK",
    "KILL",
    "PART_BYTES",
    "SESSIONS",
    "STREAM",
    "AnswerRequest",
    "GatewayCode",
    "GatewayRefusal",
    "NoRequest",
    "SayRequest",
    "as_refusal",
    "calls_json",
    "pieces",
    "question_json",
    "usage_json",
]

# A caller's requests.
ASK: Final = "crab.ask"
STREAM: Final = "crab.stream"
ANSWER: Final = "crab.answer"
SESSIONS: Final = "crab.sessions"
KILL: Final = "crab.kill"

# Messages to that caller alone.
PART: Final = "crab.part"
STARTED: Final = "crab.started"
CHUNK: Final = "crab.chunk"
THINKING: Final = "crab.thinking"
TOOLS: Final = "crab.tools"
RESULT: Final = "crab.result"
QUESTION: Final = "crab.question"
END: Final = "crab.end"

PART_BYTES: Final = 12 * 1024
"""Of a text as JSON, in a reply or a message: a reply takes 15,360 bytes with all else in it."""
_CALLS_BYTES: Final = MAX_MESSAGE_BYTES - 4096


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SayRequest(_Request):
    """What ``crab.ask`` and ``crab.stream`` take."""

    content: str = Field(min_length=1)


class AnswerRequest(_Request):
    """What ``crab.answer`` takes: by the text of each question, the chosen labels; or any text."""

    answer: dict[str, str] | str


class NoRequest(_Request):
    """What ``crab.sessions`` and ``crab.kill`` take: nothing."""


class GatewayCode(str, Enum):
    """Why a gateway says no, besides the codes of the protocol."""

    DAEMON_UNAVAILABLE = "daemon_unavailable"
    DAEMON_TIMEOUT = "daemon_timeout"
    DAEMON_REFUSED = "daemon_refused"
    RUN_FAILED = "run_failed"
    CALLER_BUSY = "caller_busy"
    NO_QUESTION = "no_question"
    NO_SESSION = "no_session"


class GatewayRefusal(HandlerRefusal):
    """A refusal with a code of the gateway's; the caller finds the reason as the only one of the ``issues``."""

    def __init__(self, code: GatewayCode, reason: str) -> None:
        # a client hands on codes that it does not know
        super().__init__(cast("RefusalCode", code), issues=[Issue(path=[], message=reason)])
        self.reason = reason


_CODES: Final = (
    (DaemonUnreachableError, GatewayCode.DAEMON_UNAVAILABLE),
    (DaemonClosedError, GatewayCode.DAEMON_UNAVAILABLE),
    (CutFrameError, GatewayCode.DAEMON_UNAVAILABLE),
    (DaemonTimeoutError, GatewayCode.DAEMON_TIMEOUT),
    (DaemonRefusedError, GatewayCode.DAEMON_REFUSED),
    (FrameError, GatewayCode.DAEMON_REFUSED),  # it would refuse what is too large, and did not do it where this says so
    (AgentRunError, GatewayCode.RUN_FAILED),
)


def as_refusal(error: CurbError) -> GatewayRefusal:
    """What a caller is told of an error."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), GatewayCode.RUN_FAILED)
    return GatewayRefusal(code, str(error))


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most :data:`PART_BYTES` of JSON; at least one, which may be empty."""
    if utf8_size(encode_json(text)) <= PART_BYTES:
        yield text
        return
    middle = len(text) // 2
    yield from pieces(text[:middle])
    yield from pieces(text[middle:])


def calls_json(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """The calls of a batch, whole where they fit into one message; otherwise cut, and ``more`` says which are."""
    whole = [{"tool": call.name, "arguments": call.arguments, "more": False} for call in calls]
    if utf8_size(encode_json(whole)) <= _CALLS_BYTES:
        return whole
    cut = [(call, next(pieces(call.arguments))) for call in calls]
    return [{"tool": call.name, "arguments": text, "more": text != call.arguments} for call, text in cut]


def question_json(event: AskUser) -> dict[str, Any]:
    """What a question asks, for a caller."""
    questions = [
        {
            "question": one.question,
            "header": one.header,
            "options": [{"label": option.label, "description": option.description} for option in one.options],
            "multiple": one.is_multiple,
        }
        for one in event.questions
    ]
    return {"session": event.session, "questions": questions}


def usage_json(usage: TokenUsage | None) -> Mapping[str, Any]:
    """Tokens used."""
    if usage is None:
        return {"prompt": 0, "completion": 0, "total": 0}
    return {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens, "total": usage.total_tokens}
