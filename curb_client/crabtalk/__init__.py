"""A client of CrabTalk daemons, and a gateway that lets callers in a room talk to one.

::

    from curb_client.crabtalk import CrabTalkClient

    async with CrabTalkClient() as client:
        answer = await client.send("hello", sender="me")

Needs ``pip install 'curb-client[crabtalk]'``. The messages are in :mod:`curb_client.crabtalk.crabtalk_pb2`.
"""

from typing import TYPE_CHECKING, Final

from curb_client._lazy import lazy_names

if TYPE_CHECKING:
    from curb_client.crabtalk.addresses import PortFile, TcpAddress, UnixAddress
    from curb_client.crabtalk.client import CrabTalkClient
    from curb_client.crabtalk.crabtalk_pb2 import ClientMessage, ServerMessage
    from curb_client.crabtalk.errors import (
        AgentRunError,
        CrabDaemonError,
        CrabTalkError,
        CutFrameError,
        DaemonClosedError,
        DaemonNotFoundError,
        DaemonRefusedError,
        DaemonTimeoutError,
        DaemonUnreachableError,
        FrameError,
        FrameTooLargeError,
        InvalidCronError,
        MalformedMessageError,
        PackageError,
        RoomLostError,
    )
    from curb_client.crabtalk.events import (
        AgentEvent,
        AskUser,
        PackageEvent,
        Question,
        QuestionOption,
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
    )
    from curb_client.crabtalk.frames import FrameDecoder, encode_frame
    from curb_client.crabtalk.gateway.caller import GatewayAnswer, ask_crab
    from curb_client.crabtalk.gateway.gateway import CrabGateway
    from curb_client.crabtalk.replies import AgentEvents, PackageProgress
    from curb_client.crabtalk.run_stream import AgentRun

__all__ = [
    "AgentEvent",
    "AgentEvents",
    "AgentRun",
    "AgentRunError",
    "AskUser",
    "ClientMessage",
    "CrabDaemonError",
    "CrabGateway",
    "CrabTalkClient",
    "CrabTalkError",
    "CutFrameError",
    "DaemonClosedError",
    "DaemonNotFoundError",
    "DaemonRefusedError",
    "DaemonTimeoutError",
    "DaemonUnreachableError",
    "FrameDecoder",
    "FrameError",
    "FrameTooLargeError",
    "GatewayAnswer",
    "InvalidCronError",
    "MalformedMessageError",
    "PackageError",
    "PackageEvent",
    "PackageProgress",
    "PortFile",
    "Question",
    "QuestionOption",
    "RoomLostError",
    "RunEvent",
    "ServerMessage",
    "StreamChunk",
    "StreamEnd",
    "StreamStart",
    "StreamThinking",
    "TcpAddress",
    "ToolCall",
    "ToolResult",
    "ToolStart",
    "ToolsAnnounced",
    "ToolsComplete",
    "UnixAddress",
    "UnknownEvent",
    "ask_crab",
    "encode_frame",
]

_HOMES: Final = {
    "AgentEvent": "curb_client.crabtalk.events",
    "AgentEvents": "curb_client.crabtalk.replies",
    "AgentRun": "curb_client.crabtalk.run_stream",
    "AgentRunError": "curb_client.crabtalk.errors",
    "AskUser": "curb_client.crabtalk.events",
    "ClientMessage": "curb_client.crabtalk.crabtalk_pb2",
    "CrabDaemonError": "curb_client.crabtalk.errors",
    "CrabGateway": "curb_client.crabtalk.gateway.gateway",
    "CrabTalkClient": "curb_client.crabtalk.client",
    "CrabTalkError": "curb_client.crabtalk.errors",
    "CutFrameError": "curb_client.crabtalk.errors",
    "DaemonClosedError": "curb_client.crabtalk.errors",
    "DaemonNotFoundError": "curb_client.crabtalk.errors",
    "DaemonRefusedError": "curb_client.crabtalk.errors",
    "DaemonTimeoutError": "curb_client.crabtalk.errors",
    "DaemonUnreachableError": "curb_client.crabtalk.errors",
    "FrameDecoder": "curb_client.crabtalk.frames",
    "FrameError": "curb_client.crabtalk.errors",
    "FrameTooLargeError": "curb_client.crabtalk.errors",
    "GatewayAnswer": "curb_client.crabtalk.gateway.caller",
    "InvalidCronError": "curb_client.crabtalk.errors",
    "MalformedMessageError": "curb_client.crabtalk.errors",
    "PackageError": "curb_client.crabtalk.errors",
    "PackageEvent": "curb_client.crabtalk.events",
    "PackageProgress": "curb_client.crabtalk.replies",
    "PortFile": "curb_client.crabtalk.addresses",
    "Question": "curb_client.crabtalk.events",
    "QuestionOption": "curb_client.crabtalk.events",
    "RoomLostError": "curb_client.crabtalk.errors",
    "RunEvent": "curb_client.crabtalk.events",
    "ServerMessage": "curb_client.crabtalk.crabtalk_pb2",
    "StreamChunk": "curb_client.crabtalk.events",
    "StreamEnd": "curb_client.crabtalk.events",
    "StreamStart": "curb_client.crabtalk.events",
    "StreamThinking": "curb_client.crabtalk.events",
    "TcpAddress": "curb_client.crabtalk.addresses",
    "ToolCall": "curb_client.crabtalk.events",
    "ToolResult": "curb_client.crabtalk.events",
    "ToolStart": "curb_client.crabtalk.events",
    "ToolsAnnounced": "curb_client.crabtalk.events",
    "ToolsComplete": "curb_client.crabtalk.events",
    "UnixAddress": "curb_client.crabtalk.addresses",
    "UnknownEvent": "curb_client.crabtalk.events",
    "ask_crab": "curb_client.crabtalk.gateway.caller",
    "encode_frame": "curb_client.crabtalk.frames",
}

__getattr__, __dir__ = lazy_names(__name__, globals(), _HOMES)
