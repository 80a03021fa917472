"""The hook through which the client, the agent's side and the test kit report each step of a call.

Give any of them ``trace=`` an object with a ``record`` method. It sees what passes and changes nothing; without one
nothing is made up or kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from livekit import rtc

from curb_client.errors import AgentRefusedError
from curb_client.protocol.contract import Sender
from curb_client.protocol.envelope import Refusal
from curb_client.protocol.json_text import decode_json
from curb_client.room.arguments import NO_PAYLOAD
from curb_client.room.callbacks import call_safely

__all__ = ["NOTHING", "Trace", "TraceEvent", "TraceSide", "TraceStep", "Tracer", "describe_failure"]

TraceSide = Literal["client", "agent", "kit"]

TraceStep = Literal[
    "ask",  # client: a request is made, which waits for the agent if need be
    "answer",  # client: what came of it, or the error
    "message",  # client: the agent's message is handed out; the error says that nothing took it
    "presence",  # client: the agent's state, in `detail`
    "request",  # agent: a request, or the host's message, has come
    "reply",  # agent: how it was answered, or how the host answered
    "send",  # agent: a message to the client is sent; the error says why it was not
    "to-host",  # agent: a message or question to the host
    "note",  # kit: who joined or left, in `detail`
    "expect",  # kit: what a test waits for
    "expected",  # kit: it came; the error says why not
]


_RPC_ERRORS: Final[Mapping[int, str]] = {
    rtc.RpcError.ErrorCode.UNSUPPORTED_METHOD: "the agent has not registered the method",
    rtc.RpcError.ErrorCode.CONNECTION_TIMEOUT: "the agent could not be reached",
    rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT: "the agent did not answer in time",
    rtc.RpcError.ErrorCode.RECIPIENT_DISCONNECTED: "the agent left before it answered",
}


class _Nothing:
    """Where None is a payload like any other."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


@dataclass(frozen=True)
class TraceEvent:
    """One step of a call, as one side saw it.

    Attributes:
        at: ``time.monotonic()`` seconds.
        side: who reports it.
        identity: its participant, or ``""`` before it has joined.
        step: what happened.
        key: the message's; ``curb.update`` for a change of settings; ``""`` where there is none.
        id: joins the steps of one exchange.
        payload: the payload or the reply as it is, not a copy, or ``NOTHING``.
        peer: the other participant, where there is one.
        sender: whose request has come or is answered (agent); a participant may be called ``host`` too.
        error: a refusal's code, or what failed; None after a success.
        detail: more words, such as a refusal's issues.
        ms: milliseconds that the step ends.
    """

    at: float
    side: TraceSide
    identity: str
    step: TraceStep
    key: str = ""
    id: str = ""
    payload: object = NOTHING
    peer: str = ""
    error: str | None = None
    detail: str = ""
    ms: float | None = None
    sender: Sender | None = None


class Trace(Protocol):
    """Takes the steps, on the loop and in their order. What it raises goes to the loop's exception handler."""

    def record(self, event: TraceEvent) -> None:
        """Returns at once."""


class Tracer:
    """One side's way to its trace, which may be None."""

    def __init__(self, trace: Trace | None, side: TraceSide, identity: Callable[[], str]) -> None:
        self._trace = trace
        self._side = side
        self._identity = identity

    def step(self, step: TraceStep, started: float | None = None, **what: Any) -> None:
        """Report a step with the attributes of :class:`TraceEvent`; ``started`` is the ``monotonic`` time it began."""
        if self._trace is None:
            return
        now = time.monotonic()
        if started is not None:
            what["ms"] = (now - started) * 1000
        if what.get("payload") is NO_PAYLOAD:
            what["payload"] = {}
        call_safely(self._trace.record, TraceEvent(now, self._side, self._identity(), step, **what))

    def failed(self, step: TraceStep, error: BaseException, started: float | None = None, **what: Any) -> None:
        """Report a step that failed."""
        if self._trace is not None:
            reason, detail = describe_failure(error)
            self.step(step, started, error=reason, detail=detail, **what)

    @contextlib.contextmanager
    def exchange(self, first: TraceStep, last: TraceStep, **what: Any) -> Iterator[TracedAnswer]:
        """Report a request, and at the end of the block what came of it."""
        answer = TracedAnswer()
        if self._trace is None:
            yield answer
            return
        started = time.monotonic()
        self.step(first, **what)
        what = {name: value for name, value in what.items() if name not in ("payload", "detail")}
        try:
            yield answer
        except BaseException as error:
            self.failed(last, error, started, **what)
            raise
        self.step(last, started, payload=answer.payload(), **what)


class TracedAnswer:
    """An exchange's answer: its text, decoded only when somebody wants to see it, or the reply itself."""

    text = ""
    reply: Any = NOTHING

    def payload(self) -> object:
        """The reply, or the settings; the text itself where it is not JSON."""
        if self.reply is not NOTHING or not self.text:
            return self.reply
        try:
            body = decode_json(self.text)
        except ValueError:
            return self.text
        return body["reply"] if isinstance(body, dict) and set(body) == {"reply"} else body


def describe_failure(error: BaseException) -> tuple[str, str]:
    """A refusal's code and its particulars, or the name of an error and its text."""
    if isinstance(error, (AgentRefusedError, Refusal)):
        code = error.code if isinstance(error, AgentRefusedError) else error.code.value
        particulars = [f"path {error.path}"] if error.path else []
        particulars += [f"{'.'.join(map(str, issue.path)) or '(root)'}: {issue.message}" for issue in error.issues]
        return code, "; ".join(particulars)
    if isinstance(error, rtc.RpcError):
        return f"RpcError {error.code}", _RPC_ERRORS.get(error.code, error.message)
    if isinstance(error, asyncio.CancelledError):
        return "given up by whoever asked", ""
    return type(error).__name__, str(error)
