"""The host protocol (HTTP) from both ends: RunnerClient for hosts, Runner for Python agents."""

from typing import TYPE_CHECKING, Final

from curb_client._lazy import lazy_names

if TYPE_CHECKING:
    from curb_client.host.asks import Ask
    from curb_client.host.backoff import Backoff
    from curb_client.host.client import RunnerClient
    from curb_client.host.cursors import CursorStore, FileCursorStore, MemoryCursorStore
    from curb_client.host.events import EventStream, StreamCounts
    from curb_client.host.follower import Follower
    from curb_client.host.pool import PoolItem, RunnerPool
    from curb_client.host.pool_members import RunnerLost
    from curb_client.host.pool_placing import PlacedCall
    from curb_client.host.process import RunnerProcess
    from curb_client.host.runner.context import CallContext
    from curb_client.host.runner.hosted_agent import AgentFunction, HostedAgent
    from curb_client.host.runner.options import RunnerMode, RunnerOptions
    from curb_client.host.runner.server import Runner
    from curb_client.host.runner.transfer import TransferOutcome
    from curb_client.host.stream_items import CallCut, CallItem, StreamItem
    from curb_client.host.transfers import Transfer, TransferFailedError
    from curb_client.host.transport import AiohttpTransport, ByteStream, Transport
    from curb_client.host.views import ItemView
    from curb_client.protocol.cursor import Gap, LostRecords, Restarted
    from curb_client.protocol.experiments import assign_experiments
    from curb_client.protocol.records import EventBody, HostBody, JournalRecord, TurnBody

__all__ = [
    "AgentFunction",
    "AiohttpTransport",
    "Ask",
    "Backoff",
    "ByteStream",
    "CallContext",
    "CallCut",
    "CallItem",
    "CursorStore",
    "EventBody",
    "EventStream",
    "FileCursorStore",
    "Follower",
    "Gap",
    "HostBody",
    "HostedAgent",
    "ItemView",
    "JournalRecord",
    "LostRecords",
    "MemoryCursorStore",
    "PlacedCall",
    "PoolItem",
    "Restarted",
    "Runner",
    "RunnerClient",
    "RunnerLost",
    "RunnerMode",
    "RunnerOptions",
    "RunnerPool",
    "RunnerProcess",
    "StreamCounts",
    "StreamItem",
    "Transfer",
    "TransferFailedError",
    "TransferOutcome",
    "Transport",
    "TurnBody",
    "assign_experiments",
]

_HOMES: Final = {
    "AgentFunction": "curb_client.host.runner.hosted_agent",
    "AiohttpTransport": "curb_client.host.transport",
    "Ask": "curb_client.host.asks",
    "Backoff": "curb_client.host.backoff",
    "ByteStream": "curb_client.host.transport",
    "CallContext": "curb_client.host.runner.context",
    "CallCut": "curb_client.host.stream_items",
    "CallItem": "curb_client.host.stream_items",
    "CursorStore": "curb_client.host.cursors",
    "EventBody": "curb_client.protocol.records",
    "EventStream": "curb_client.host.events",
    "FileCursorStore": "curb_client.host.cursors",
    "Follower": "curb_client.host.follower",
    "Gap": "curb_client.protocol.cursor",
    "HostBody": "curb_client.protocol.records",
    "HostedAgent": "curb_client.host.runner.hosted_agent",
    "ItemView": "curb_client.host.views",
    "JournalRecord": "curb_client.protocol.records",
    "LostRecords": "curb_client.protocol.cursor",
    "MemoryCursorStore": "curb_client.host.cursors",
    "PlacedCall": "curb_client.host.pool_placing",
    "PoolItem": "curb_client.host.pool",
    "Restarted": "curb_client.protocol.cursor",
    "Runner": "curb_client.host.runner.server",
    "RunnerClient": "curb_client.host.client",
    "RunnerLost": "curb_client.host.pool_members",
    "RunnerMode": "curb_client.host.runner.options",
    "RunnerOptions": "curb_client.host.runner.options",
    "RunnerPool": "curb_client.host.pool",
    "RunnerProcess": "curb_client.host.process",
    "StreamCounts": "curb_client.host.events",
    "StreamItem": "curb_client.host.stream_items",
    "Transfer": "curb_client.host.transfers",
    "TransferFailedError": "curb_client.host.transfers",
    "TransferOutcome": "curb_client.host.runner.transfer",
    "Transport": "curb_client.host.transport",
    "TurnBody": "curb_client.protocol.records",
    "assign_experiments": "curb_client.protocol.experiments",
}

__getattr__, __dir__ = lazy_names(__name__, globals(), _HOMES)
