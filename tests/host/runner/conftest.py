"""A runner in this process, a host that speaks plain HTTP to it, and rooms on the server that was chosen."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import jsonschema
import pytest

import curb_client
from curb_client.host import Runner, RunnerOptions
from curb_client.protocol.schema import protocol_schema
from curb_client.testing import LiveKitServerHandle
from tests.e2e.conftest import until

TOKEN = "management-token-of-a-test"
_SCHEMA = protocol_schema()

__all__ = ["TOKEN", "Host", "RunnerFactory", "Stream", "check_type", "until"]

_numbers = itertools.count(1)


@functools.cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _SCHEMA["$defs"]})


def check_type(value: Any, name: str) -> None:
    """The value is of this type of the protocol."""
    _validator(name).validate(value)


@dataclass
class Stream:
    """A reader of the event stream: every line so far, decoded."""

    records: list[dict[str, Any]] = field(default_factory=list)
    pings: int = 0
    ended: str = ""
    """How it ended: ``eof`` or the error."""

    def of(self, producer: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["producer"] == producer]

    def names(self, producer: str) -> list[str]:
        """What each record of a call says, in short."""
        return [record["body"].get("name") or record["body"]["type"] for record in self.of(producer)]

    async def until_ended(self, producer: str) -> None:
        """Returns when the call's last record is there."""
        await until(lambda: "curb.ended" in self.names(producer), within=30, what=f"the end of {producer}")

    def event(self, producer: str, name: str) -> Any:
        """The payload of the only such event of the call."""
        (payload,) = self.events(producer, name)
        return payload

    def events(self, producer: str, name: str) -> list[Any]:
        bodies = [record["body"] for record in self.of(producer)]
        return [body.get("payload", {}) for body in bodies if body["type"] == "event" and body["name"] == name]


@dataclass
class Host:
    """A host, by hand."""

    url: str
    http: aiohttp.ClientSession
    livekit: LiveKitServerHandle
    runner: Runner

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Status and body of an answer."""
        if body is not None:
            options["data"] = json.dumps(body)
        headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
        async with self.http.request(method, self.url + path, headers=headers, **options) as response:
            return response.status, await response.json()

    async def start(self, session_id: str, **more: Any) -> tuple[int, Any]:
        """Start a call in a room of its own, which has the call's name."""
        body = {
            "sessionId": session_id,
            "realtimeUrl": self.livekit.url,
            "realtimeToken": self.livekit.token("agent", session_id, kind="agent"),
            **more,
        }
        return await self.ask("POST", "/v1/sessions", body)

    async def state(self, session_id: str) -> str:
        status, body = await self.ask("GET", f"/v1/sessions/{session_id}")
        return str(body["state"] if status == 200 else body["error"])

    async def until_state(self, session_id: str, *states: str) -> None:
        given_up = time.monotonic() + 30
        while (state := await self.state(session_id)) not in states:
            assert time.monotonic() < given_up, f"the call is {state}, not {' or '.join(states)}"
            await asyncio.sleep(0.02)

    async def connected(self, **more: Any) -> str:
        """A new call whose agent is ready."""
        session_id = f"call-{os.getpid()}-{next(_numbers)}"
        status, body = await self.start(session_id, **more)
        assert (status, body) == (201, {"sessionId": session_id, "accepted": True})
        await self.until_state(session_id, "connected")
        return session_id

    @asynccontextmanager
    async def caller(self, session_id: str, identity: str = "caller") -> AsyncIterator[curb_client.Call]:
        """The caller's app, in a call that goes on: the agent has seen it when the block begins."""
        token = self.livekit.token(identity, session_id)
        async with curb_client.join(self.livekit.url, token) as caller:
            # LiveKit tells at once of whoever has attributes, and of others three seconds later.
            await caller.room.local_participant.set_attributes({"seen": "1"})
            seen = self.runner.calls.going_on(session_id)._room
            await until(lambda: identity in seen.remote_participants, what=f"{identity} in sight of the agent")
            yield caller

    @asynccontextmanager
    async def stream(self, from_: int | None = 0) -> AsyncIterator[Stream]:
        """Follow the event stream; each line is checked against the schema."""
        stream = Stream()
        query = "" if from_ is None else f"?from={from_}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        response = await self.http.get(f"{self.url}/v1/runner/events{query}", headers=headers)
        assert response.status == 200
        assert response.content_type == "application/x-ndjson"

        async def read() -> None:
            try:
                async for line in response.content:
                    value = json.loads(line)
                    check_type(value, "PingLine" if "ping" in value else "JournalRecord")
                    if "ping" in value:
                        stream.pings += 1
                    else:
                        stream.records.append(value)
                stream.ended = "eof"
            except aiohttp.ClientError as error:
                stream.ended = type(error).__name__

        reading = asyncio.ensure_future(read())
        try:
            yield stream
        finally:
            reading.cancel()
            response.close()
            await asyncio.wait({reading})
            if not reading.cancelled():
                reading.result()


@dataclass
class Running:
    """A runner and its host."""

    runner: Runner
    host: Host
    lines: list[str]


RunnerFactory = Callable[..., Any]


@pytest.fixture
def running(curb_livekit: LiveKitServerHandle) -> RunnerFactory:
    """``async with running(agent, max_sessions=2) as (runner, host): ...``"""

    @asynccontextmanager
    async def run(agent: Any, **options: Any) -> AsyncIterator[Running]:
        lines: list[str] = []
        given = RunnerOptions(**{"token": TOKEN, "address": "127.0.0.1:0", "max_sessions": 4, **options})
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http,
            Runner(agent, given, print_line=lines.append) as runner,
        ):
            yield Running(runner, Host(runner.url, http, curb_livekit, runner), lines)

    return run
