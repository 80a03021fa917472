"""Everybody in the host demo: a runner in a process of its own, its host, and a caller in each of two calls."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from curb_client import AgentClient, Call, join
from curb_client.errors import CurbError, UsageError
from curb_client.host import (
    AiohttpTransport,
    Ask,
    EventBody,
    FileCursorStore,
    Follower,
    Gap,
    HostBody,
    JournalRecord,
    LostRecords,
    Restarted,
    RunnerClient,
    RunnerProcess,
)
from curb_client.protocol.records import LifecycleDraining, LifecycleEnded, LifecycleReady
from curb_client.testing import LiveKitServerHandle
from curb_client.testing.checked_transport import CheckedTransport

__all__ = ["Stage", "stage_with"]

WAIT_SECONDS: Final = 15.0


class Stage:
    """Who takes part, and what the host has received.

    Attributes:
        runner: the host's client. checks: what carries its requests.
        items: what the host was handed, over all its streams, in this order.
        asks: what agents asked. shown: the notices that each caller's app got, by call.
    """

    def __init__(self, server: LiveKitServerHandle, process: RunnerProcess, cursor: Path) -> None:
        self.process = process
        self.checks = CheckedTransport(AiohttpTransport(process.address))
        self.runner = RunnerClient(process.address, process.token, transport=self.checks)
        self.items: list[object] = []
        self.asks: list[Ask] = []
        self.shown: dict[str, list[Any]] = {}
        self.callers: dict[str, Call] = {}
        self._server = server
        self._cursor = cursor
        self._prefix = f"host-demo-{uuid.uuid4().hex[:8]}"
        self._host: Follower | None = None
        self._reading: asyncio.Task[None] | None = None

    # Calls

    async def place(self, call: str, **more: Any) -> bool:
        """Give the runner a call in a room of its own; whether it was new to it."""
        token = self._server.token("agent", self._room(call), kind="agent")
        answer = await self.runner.start_call(
            session_id=call, realtime_url=self._server.url, realtime_token=token, **more
        )
        return answer.accepted

    async def caller_joins(self, call: str) -> None:
        """The caller's app, in the call's room."""
        caller = join(self._server.url, self._server.token("app", self._room(call)))
        await caller.__aenter__()
        self.callers[call] = caller
        shown = self.shown.setdefault(call, [])
        caller.agent.on("show-notice", lambda payload, _: shown.append(payload))

    def agent(self, call: str) -> AgentClient:
        """The agent, as the caller's app talks to it."""
        if call not in self.callers:
            raise UsageError(f"no app is in {call}: it could not join")
        return self.callers[call].agent

    async def caller_leaves(self, call: str) -> None:
        """The caller hangs up."""
        await self.callers.pop(call).__aexit__(None, None, None)

    def _room(self, call: str) -> str:
        return f"{self._prefix}-{call}"

    # The host

    @property
    def host(self) -> Follower:
        """What follows the runner."""
        assert self._host is not None
        return self._host

    async def host_comes(self) -> None:
        """Follow the runner from where the stored cursor says, and answer its agents."""
        host = self._host = self.runner.follow(FileCursorStore(self._cursor))
        view = host.items()

        @host.on_ask("human.requested")
        def decide(ask: Ask) -> Mapping[str, Any]:
            self.asks.append(ask)
            return {"disposition": "allowed"}

        async def read() -> None:
            async for item in view:
                self.items.append(item)

        await host.__aenter__()
        self._reading = asyncio.ensure_future(read())

    async def host_goes(self) -> None:
        """Stop following; the cursor is stored."""
        host, self._host = self._host, None
        if host is not None:
            await host.aclose()
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=WAIT_SECONDS)

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Returns once it is so; TimeoutError, with ``what``, after 15 seconds."""
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while not is_so():
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"not within {WAIT_SECONDS:g} s: {what}")
            await asyncio.sleep(0.02)

    # What came

    @property
    def records(self) -> list[JournalRecord]:
        """The records among the items."""
        return [item for item in self.items if isinstance(item, JournalRecord)]

    @property
    def lifecycle(self) -> list[str]:
        """What the runner said of itself."""
        events = (LifecycleReady, LifecycleDraining, LifecycleEnded)
        return [record.body.event for record in self.records if isinstance(record.body, events)]

    def scores(self) -> list[Any]:
        """Of the leads that agents told the host to have taken."""
        bodies = [record.body for record in self.records]
        return [body.payload["score"] for body in bodies if isinstance(body, HostBody) and body.name == "lead.taken"]

    def end_of(self, call: str) -> str | None:
        """The reason in the call's last record; None where that has not come."""
        own = [record for record in self.records if record.producer == call]
        if not own or not own[-1].ends_call:
            return None
        body = own[-1].body
        return str(body.payload["reason"]) if isinstance(body, EventBody) else None

    def losses(self) -> str:
        """Whether every record came once, from the first on."""
        holes = [item for item in self.items if isinstance(item, (Gap, LostRecords, Restarted))]
        envelopes = [record.envelope for record in self.records]
        missing = sorted(set(range(1, max(envelopes, default=0) + 1)) - set(envelopes))
        twice = sorted({envelope for envelope in envelopes if envelopes.count(envelope) > 1})
        if holes or missing or twice or envelopes != sorted(envelopes):
            return f"holes {holes}, missing {missing}, twice {twice}"
        return "nothing lost, nothing twice"

    async def aclose(self) -> None:
        """Everybody goes."""
        for call in list(self.callers):
            with contextlib.suppress(CurbError):
                await self.caller_leaves(call)
        await self.host_goes()
        await self.runner.aclose()


@contextlib.asynccontextmanager
async def stage_with(server: LiveKitServerHandle, process: RunnerProcess, cursor: Path) -> AsyncIterator[Stage]:
    """The stage of a runner that is ready, with its host; everybody has gone at the end of the block."""
    stage = Stage(server, process, cursor)
    try:
        await stage.host_comes()
        yield stage
    finally:
        await stage.aclose()
