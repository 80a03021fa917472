"""Talk to a Curb voice agent in a LiveKit room.

The caller's app joins with :func:`join`, or hands its own room to :func:`connect_agent`. An agent in Python is an
:class:`AgentCall`. To test either against a real server: :mod:`curb_client.testing`.
"""

from typing import TYPE_CHECKING, Final

from curb_client._lazy import lazy_names

if TYPE_CHECKING:
    from curb_client.errors import (
        AgentProcessError,
        AgentRefusedError,
        AgentUnavailableError,
        AuthoringError,
        ClosedError,
        ConnectFailedError,
        CurbError,
        ExpectationError,
        HostTimeoutError,
        HostUnavailableError,
        InvalidKeyError,
        InvalidPayloadError,
        InvalidReplyError,
        InvalidTimeoutError,
        LiveKitServerError,
        MessageTimeoutError,
        RoomInUseError,
        UnexpectedRequestError,
        UsageError,
    )
    from curb_client.protocol.settings import ProviderRules
    from curb_client.protocol.states import AgentState
    from curb_client.protocol.types import EffectiveSettings, Issue, SessionUpdate
    from curb_client.room.agent import AgentCall
    from curb_client.room.client import AgentClient, connect_agent
    from curb_client.room.handlers import RequestMeta
    from curb_client.room.host_link import HostLink, HostRecord
    from curb_client.room.join import Call, connect_room, join
    from curb_client.room.presence import AgentPresence
    from curb_client.room.subscriptions import MessageMeta
    from curb_client.room.trace import Trace, TraceEvent

__version__ = "0.1.0"

__all__ = [
    "AgentCall",
    "AgentClient",
    "AgentPresence",
    "AgentProcessError",
    "AgentRefusedError",
    "AgentState",
    "AgentUnavailableError",
    "AuthoringError",
    "Call",
    "ClosedError",
    "ConnectFailedError",
    "CurbError",
    "EffectiveSettings",
    "ExpectationError",
    "HostLink",
    "HostRecord",
    "HostTimeoutError",
    "HostUnavailableError",
    "InvalidKeyError",
    "InvalidPayloadError",
    "InvalidReplyError",
    "InvalidTimeoutError",
    "Issue",
    "LiveKitServerError",
    "MessageMeta",
    "MessageTimeoutError",
    "ProviderRules",
    "RequestMeta",
    "RoomInUseError",
    "SessionUpdate",
    "Trace",
    "TraceEvent",
    "UnexpectedRequestError",
    "UsageError",
    "connect_agent",
    "connect_room",
    "join",
]

# Loaded when first used, so that `import curb_client.protocol` does without LiveKit's SDK, and a test run that uses
# no room does not load it.
_HOMES: Final = {
    "AgentProcessError": "curb_client.errors",
    "AgentRefusedError": "curb_client.errors",
    "AgentUnavailableError": "curb_client.errors",
    "AuthoringError": "curb_client.errors",
    "ClosedError": "curb_client.errors",
    "ConnectFailedError": "curb_client.errors",
    "CurbError": "curb_client.errors",
    "ExpectationError": "curb_client.errors",
    "HostTimeoutError": "curb_client.errors",
    "HostUnavailableError": "curb_client.errors",
    "InvalidKeyError": "curb_client.errors",
    "InvalidPayloadError": "curb_client.errors",
    "InvalidReplyError": "curb_client.errors",
    "InvalidTimeoutError": "curb_client.errors",
    "LiveKitServerError": "curb_client.errors",
    "MessageTimeoutError": "curb_client.errors",
    "RoomInUseError": "curb_client.errors",
    "UnexpectedRequestError": "curb_client.errors",
    "UsageError": "curb_client.errors",
    "ProviderRules": "curb_client.protocol.settings",
    "AgentState": "curb_client.protocol.states",
    "EffectiveSettings": "curb_client.protocol.types",
    "Issue": "curb_client.protocol.types",
    "SessionUpdate": "curb_client.protocol.types",
    "AgentCall": "curb_client.room.agent",
    "AgentClient": "curb_client.room.client",
    "MessageMeta": "curb_client.room.subscriptions",
    "connect_agent": "curb_client.room.client",
    "RequestMeta": "curb_client.room.handlers",
    "HostLink": "curb_client.room.host_link",
    "HostRecord": "curb_client.room.host_link",
    "Call": "curb_client.room.join",
    "connect_room": "curb_client.room.join",
    "join": "curb_client.room.join",
    "AgentPresence": "curb_client.room.presence",
    "Trace": "curb_client.room.trace",
    "TraceEvent": "curb_client.room.trace",
}

__getattr__, __dir__ = lazy_names(__name__, globals(), _HOMES)
