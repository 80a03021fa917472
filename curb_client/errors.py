"""Every exception that curb_client raises on purpose.

::

    CurbError
    ├── UsageError (ValueError)          your call was wrong: nothing was sent
    │   ├── InvalidKeyError              a key that is empty, too long or not text
    │   ├── InvalidPayloadError          a payload that is not JSON; ``path`` leads to the value
    │   ├── InvalidTimeoutError          a time-out that is negative, NaN or not a number
    │   ├── AuthoringError               a message handler registered wrongly (agent's side)
    │   ├── RoomInUseError               a second client (or agent) on one room
    │   └── ClosedError                  the client or the call was closed before
    ├── AgentRefusedError                the agent answered no; ``code`` says why
    ├── AgentUnavailableError            no agent to talk to in time; ``state`` names the missing step
    ├── InvalidReplyError                the reply, or a message, does not fit the type you asked for
    ├── MessageTimeoutError (TimeoutError)   no such message from the agent in time
    ├── ConnectFailedError               the room could not be joined
    ├── HostUnavailableError             ask_host: no host is connected, or the call ended meanwhile
    ├── HostTimeoutError (TimeoutError)  ask_host: the host did not answer in time
    ├── RunnerError                      a host's trouble with a runner
    │   ├── RunnerRefusedError           the runner answered no; ``code`` says why: a class for each
    │   │   ├── RunnerUnauthorizedError, RunnerNotFoundError, RunnerInvalidRequestError,
    │   │   │   RunnerSessionNotFoundError, RunnerAtCapacityError, RunnerGenerationMismatchError,
    │   │   │   RunnerDrainingError, RunnerStartFailedError, RunnerTakesNoCallsError, RunnerCursorTooOldError,
    │   │   │   RunnerNoJournalError, RunnerInternalError, RunnerNoHandlerError, RunnerInvalidPayloadError,
    │   │   │   RunnerHandlerFailedError, RunnerNotAdjustableError, RunnerInvalidSettingsError
    │   │   └── ProtocolVersionError     it speaks another version of the protocol
    │   │       └── RunnerUnknownVersionError    and says so
    │   ├── RunnerUnreachableError       no answer; ``maybe_taken`` says whether the request may have arrived
    │   │   └── RunnerTimeoutError (TimeoutError)    not in time
    │   ├── RunnerAnswerError            an answer that is not what the protocol says
    │   ├── EventStreamError             a stream of events that cannot go on; ``cut`` names the calls
    │   ├── RunnerProcessError           the runner's process ended, or is not ready in time
    │   └── NoRunnerError                no runner of the pool takes the call; ``reasons`` has each one's
    ├── RunnerStartError                 a Runner here could not start: its address, or what it warms up
    ├── LiveKitServerError               the test kit could not get, start or reach a LiveKit server
    ├── AgentProcessError                the process of an agent under test ended, or does not answer
    ├── ExpectationError (AssertionError)    what a test expected of the agent did not come
    ├── TurnError                        a model gave no answer to what was said
    ├── UnmatchedRequestError (AssertionError)   a scripted model was sent what no rule of its script fits
    └── UnexpectedRequestError (AssertionError)  a scripted agent was sent what it was not scripted for

What is not in the tree is not ours: a request that LiveKit could not carry (a time-out of the exchange,
a peer that left) raises LiveKit's own ``livekit.rtc.RpcError``, unchanged (host protocol, Client side).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curb_client.protocol.host_types import ErrorBody
    from curb_client.protocol.types import Issue
    from curb_client.testing.scripted import ReceivedRequest

__all__ = [
    "AgentProcessError",
    "AgentRefusedError",
    "AgentUnavailableError",
    "AuthoringError",
    "ClosedError",
    "ConnectFailedError",
    "CurbError",
    "EventStreamError",
    "ExpectationError",
    "HostTimeoutError",
    "HostUnavailableError",
    "InvalidKeyError",
    "InvalidPayloadError",
    "InvalidReplyError",
    "InvalidTimeoutError",
    "LiveKitServerError",
    "MessageTimeoutError",
    "NoRunnerError",
    "ProtocolVersionError",
    "RoomInUseError",
    "RunnerAnswerError",
    "RunnerAtCapacityError",
    "RunnerCursorTooOldError",
    "RunnerDrainingError",
    "RunnerError",
    "RunnerGenerationMismatchError",
    "RunnerHandlerFailedError",
    "RunnerInternalError",
    "RunnerInvalidPayloadError",
    "RunnerInvalidRequestError",
    "RunnerInvalidSettingsError",
    "RunnerNoHandlerError",
    "RunnerNoJournalError",
    "RunnerNotAdjustableError",
    "RunnerNotFoundError",
    "RunnerProcessError",
    "RunnerRefusedError",
    "RunnerSessionNotFoundError",
    "RunnerStartError",
    "RunnerStartFailedError",
    "RunnerTakesNoCallsError",
    "RunnerTimeoutError",
    "RunnerUnauthorizedError",
    "RunnerUnknownVersionError",
    "RunnerUnreachableError",
    "TurnError",
    "UnexpectedRequestError",
    "UnmatchedRequestError",
    "UsageError",
]


class CurbError(Exception):
    """The root of the tree."""


class UsageError(CurbError, ValueError):
    """The call itself was wrong; nothing was sent and nothing changed."""


class InvalidKeyError(UsageError):
    """A message key must be text of 1 to 256 UTF-16 units without lone surrogates."""


class InvalidPayloadError(UsageError):
    """A payload cannot be written as JSON.

    Attributes:
        path: the way to the offending value, property names and list indexes.
    """

    def __init__(self, message: str, path: Sequence[str | int] = ()) -> None:
        super().__init__(message)
        self.path: tuple[str | int, ...] = tuple(path)


class InvalidTimeoutError(UsageError):
    """A time-out must be a number of seconds, zero or more."""


class AuthoringError(UsageError):
    """A message handler was registered with an invalid key or sender (host protocol, App messages).

    Attributes:
        code: always ``AGENT_INVALID_AUTHORING_PROP``.
    """

    code = "AGENT_INVALID_AUTHORING_PROP"


class RoomInUseError(UsageError):
    """LiveKit takes one handler per topic, so a room takes one client and one agent's side at a time."""


class ClosedError(UsageError):
    """The client or call was closed; make a new one."""


class AgentRefusedError(CurbError):
    """The agent refused the request (host protocol, Client side).

    Attributes:
        code: ``no_handler``, ``invalid_payload``, ``handler_failed``, ``not_adjustable``, ``invalid_settings``,
            ``payload_too_large``, or a code that a newer agent made up.
        issues: what is wrong with the payload or the settings, each with ``path`` and ``message``; may be empty.
        path: the first setting that may not be changed, dotted (``tts.voice``), with ``not_adjustable``.
        size: UTF-8 bytes of the request, with a ``payload_too_large`` refused here.
        limit: the most bytes it may have, likewise.
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        issues: Sequence[Issue] = (),
        path: str | None = None,
        size: int | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(message or code)
        self.code = code
        self.issues: tuple[Issue, ...] = tuple(issues)
        self.path = path
        self.size = size
        self.limit = limit


class AgentUnavailableError(CurbError):
    """No agent took the request in time (host protocol, curb/client).

    Attributes:
        state: how far things were, a value of :class:`curb_client.AgentState`: ``unconnected``, ``absent``,
            ``joined``, ``active`` or ``lost``.
        waited: seconds waited.
    """

    def __init__(self, message: str, *, state: str, waited: float) -> None:
        super().__init__(message)
        self.state = state
        self.waited = waited


class InvalidReplyError(CurbError):
    """The agent's reply (or message) is not JSON or does not fit the ``reply_type`` asked for.

    Attributes:
        reply: what came, decoded if it could be.
        issues: where it does not fit, each with ``path`` and ``message``; may be empty.
    """

    def __init__(self, message: str, reply: object = None, issues: Sequence[Issue] = ()) -> None:
        super().__init__(message)
        self.reply = reply
        self.issues: tuple[Issue, ...] = tuple(issues)


class MessageTimeoutError(CurbError, TimeoutError):
    """``wait_for`` saw no such message in time."""


class ConnectFailedError(CurbError):
    """The room could not be joined; the message carries LiveKit's reason."""


class HostUnavailableError(CurbError):
    """``ask_host``: no host is connected to this call, or the call ended while it waited."""


class HostTimeoutError(CurbError, TimeoutError):
    """``ask_host``: the host sent no reply in time; a late one is handled like any other message."""


class RunnerError(CurbError):
    """A host's trouble with a runner: the root of what :mod:`curb_client.host` raises besides UsageError."""


class RunnerRefusedError(RunnerError):
    """The runner answered no (host protocol, Error codes). This class itself is for codes of newer runners.

    Attributes:
        code: ``error`` of the answer; classify by it, or by the class, and never by the text.
        status: of HTTP.
        body: the whole answer, with ``detail``, ``issues``, ``path``, ``versions``, ``requested``, ``oldest_retained``.
    """

    def __init__(self, message: str, *, status: int, body: ErrorBody) -> None:
        super().__init__(message)
        self.code = body.error
        self.status = status
        self.body = body
        self.issues: tuple[Issue, ...] = tuple(body.issues or ())
        self.path = body.path


class RunnerUnauthorizedError(RunnerRefusedError):
    """``unauthorized``: the token is not the runner's ``CURB_MANAGEMENT_TOKEN``."""


class RunnerNotFoundError(RunnerRefusedError):
    """``not_found``: no such route."""


class RunnerInvalidRequestError(RunnerRefusedError):
    """``invalid_request``: the request does not fit; ``detail`` or ``issues`` say where."""


class RunnerSessionNotFoundError(RunnerRefusedError):
    """``session_not_found``: the runner holds no such call, or it has ended."""


class RunnerAtCapacityError(RunnerRefusedError):
    """``runner_at_capacity``: no more calls, or no more messages held for a call that is starting."""


class RunnerGenerationMismatchError(RunnerRefusedError):
    """``generation_mismatch``: another deployment or configuration than the request names."""


class RunnerDrainingError(RunnerRefusedError):
    """``runner_draining``: place the call on another runner."""


class RunnerStartFailedError(RunnerRefusedError):
    """``start_failed``: the runner could not start the call."""


class RunnerTakesNoCallsError(RunnerRefusedError):
    """``runner_takes_no_calls``: a runner of a mode without this route."""


class RunnerCursorTooOldError(RunnerRefusedError):
    """``cursor_too_old``: the runner no longer holds the records after this cursor."""


class RunnerNoJournalError(RunnerRefusedError):
    """``no_journal``: the runner keeps no record to follow."""


class RunnerInternalError(RunnerRefusedError):
    """``internal``: the runner failed; its log says how."""


class RunnerNoHandlerError(RunnerRefusedError):
    """``no_handler``: the call's agent does not listen for this key from its host."""


class RunnerInvalidPayloadError(RunnerRefusedError):
    """``invalid_payload``: the payload does not fit the agent's schema; see ``issues``. No handler ran."""


class RunnerHandlerFailedError(RunnerRefusedError):
    """``handler_failed``: a handler of the agent's raised; the others ran."""


class RunnerNotAdjustableError(RunnerRefusedError):
    """``not_adjustable``: ``path`` names the first setting that a host may not change."""


class RunnerInvalidSettingsError(RunnerRefusedError):
    """``invalid_settings``: a value that does not fit, in ``issues``; nothing changed."""


class ProtocolVersionError(RunnerRefusedError):
    """The runner speaks another version of the protocol: it has no such route to start a call."""


class RunnerUnknownVersionError(ProtocolVersionError):
    """``unknown_version``: ``body.versions`` has what the runner speaks."""


class RunnerUnreachableError(RunnerError):
    """The runner did not answer, on any try.

    Attributes:
        maybe_taken: the request may have reached the runner. Repeat it there, with the same id, to know.
        refused: nothing listens at the runner's address.
    """

    def __init__(self, message: str, *, maybe_taken: bool, refused: bool = False) -> None:
        super().__init__(message)
        self.maybe_taken = maybe_taken
        self.refused = refused


class RunnerTimeoutError(RunnerUnreachableError, TimeoutError):
    """The runner did not answer in time."""


class RunnerAnswerError(RunnerError):
    """What came is no answer of a runner of this protocol: not JSON, too large, or not of the type of its route.

    Attributes:
        status: of HTTP.
        excerpt: the beginning of the body.
    """

    def __init__(self, message: str, *, status: int, excerpt: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.excerpt = excerpt


class EventStreamError(RunnerError):
    """The stream of a runner's events cannot go on.

    Attributes:
        cut: the calls whose records broke off (host protocol, Truncation rule).
    """

    def __init__(self, message: str, *, cut: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.cut: tuple[str, ...] = tuple(cut)


class RunnerProcessError(RunnerError):
    """The runner's process ended, or is not ready in time; the message ends with its last output.

    Attributes:
        exit_status: of the process, None if it still runs.
    """

    def __init__(self, message: str, *, exit_status: int | None) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class NoRunnerError(RunnerError):
    """No runner of the pool takes the call.

    Attributes:
        reasons: by the name of each runner that was thought of, why not.
    """

    def __init__(self, message: str, *, reasons: Mapping[str, str]) -> None:
        super().__init__(message)
        self.reasons = dict(reasons)


class RunnerStartError(CurbError):
    """A runner in this process could not start: its address is taken, or warming up failed or took too long."""


class LiveKitServerError(CurbError):
    """The test kit could not get, start or reach a LiveKit server; the message ends with its last output."""


class ExpectationError(CurbError, AssertionError):
    """What a test expected of the agent did not come, or what it did not expect came."""


class AgentProcessError(CurbError):
    """The agent's process ended, or does not answer; the message ends with its last output.

    Attributes:
        exit_status: of the process, None if it still runs.
    """

    def __init__(self, message: str, *, exit_status: int | None) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class TurnError(CurbError):
    """The model gave no answer to a turn; the message says why. What the person said stays in the transcript."""


class UnmatchedRequestError(CurbError, AssertionError):
    """A scripted model got requests that no rule of its script fits; the message shows them."""


class UnexpectedRequestError(CurbError, AssertionError):
    """The app sent what no rule of the scripted agent answers.

    Attributes:
        requests: what came, in order.
    """

    def __init__(self, message: str, requests: Sequence[ReceivedRequest]) -> None:
        super().__init__(message)
        self.requests: tuple[ReceivedRequest, ...] = tuple(requests)
