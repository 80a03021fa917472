"""What all parts of one running server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from livekit.protocol import models

from curb_client.testing.embedded.fault_table import FaultTable
from curb_client.testing.embedded.ice import UdpSocket
from curb_client.testing.embedded.joins import ApiKey
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.options import LIVEKIT_VERSION, Options

__all__ = ["SERVER_INFO", "Context", "Timers"]

SERVER_INFO: Final = models.ServerInfo(
    version=LIVEKIT_VERSION, protocol=17, agent_protocol=1, node_id="ND_embedded", region=""
)


@dataclass
class Context:
    """One run of a server."""

    options: Options
    journal: Journal
    key: ApiKey
    udp: UdpSocket
    faults: FaultTable = field(default_factory=FaultTable)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Lets something end by itself, before the server does."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Timers:
    """Calls to come, by name: a name that is set again replaces its call."""

    def __init__(self) -> None:
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def set(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        self.cancel(name)
        self._handles[name] = asyncio.get_running_loop().call_later(seconds, self._fire, name, call)

    def _fire(self, name: str, call: Callable[[], None]) -> None:
        del self._handles[name]
        call()

    def cancel(self, name: str) -> None:
        if name in self._handles:
            self._handles.pop(name).cancel()

    def cancel_all(self) -> None:
        for name in list(self._handles):
            self.cancel(name)
