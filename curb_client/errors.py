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
    ├── LiveKitServerError               the test kit could not get, start or reach a LiveKit server
    ├── AgentProcessError                the process of an agent under test ended, or does not answer
    ├── ExpectationError (AssertionError)    what a test expected of the agent did not come
    └── UnexpectedRequestError (AssertionError)  a scripted agent was sent what it was not scripted for

What is not in the tree is not ours: a request that LiveKit could not carry (a time-out of the exchange,
a peer that left) raises LiveKit's own ``livekit.rtc.RpcError``, unchanged (host protocol, Client side).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    "ExpectationError",
    "HostTimeoutError",
    "HostUnavailableError",
    "InvalidKeyError",
    "InvalidPayloadError",
    "InvalidReplyError",
    "InvalidTimeoutError",
    "LiveKitServerError",
    "MessageTimeoutError",
    "RoomInUseError",
    "UnexpectedRequestError",
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
    """

    def __init__(self, message: str, reply: object = None) -> None:
        super().__init__(message)
        self.reply = reply


class MessageTimeoutError(CurbError, TimeoutError):
    """``wait_for`` saw no such message in time."""


class ConnectFailedError(CurbError):
    """The room could not be joined; the message carries LiveKit's reason."""


class HostUnavailableError(CurbError):
    """``ask_host``: no host is connected to this call, or the call ended while it waited."""


class HostTimeoutError(CurbError, TimeoutError):
    """``ask_host``: the host sent no reply in time; a late one is handled like any other message."""


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


class UnexpectedRequestError(CurbError, AssertionError):
    """The app sent what no rule of the scripted agent answers.

    Attributes:
        requests: what came, in order.
    """

    def __init__(self, message: str, requests: Sequence[ReceivedRequest]) -> None:
        super().__init__(message)
        self.requests: tuple[ReceivedRequest, ...] = tuple(requests)
