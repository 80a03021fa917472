"""Rooms on the LiveKit server that was chosen: one server for the run, one room a test."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from livekit import rtc

import curb_client
from curb_client import AgentCall, AgentClient, AgentRefusedError, RequestMeta
from curb_client.protocol.envelope import Refusal
from curb_client.testing import LiveKitServerHandle

SETTINGS = {
    "tts": {"provider": "kugelaudio", "voice": 1072},
    "stt": {"provider": "azure", "language": "en"},
    "llm": {"provider": "openai-compatible", "model": "large", "baseURL": "http://llm.internal/v1"},
}

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def livekit(curb_livekit: LiveKitServerHandle) -> LiveKitServerHandle:
    """The server that ``--livekit`` chose."""
    return curb_livekit


@dataclass(frozen=True)
class Stage:
    """A room of its own, and who may come in."""

    server: LiveKitServerHandle
    room_name: str

    @property
    def url(self) -> str:
        return self.server.url

    def token(self, identity: str, **options: Any) -> str:
        return self.server.token(identity, self.room_name, **options)

    @asynccontextmanager
    async def client(
        self, identity: str = "caller", *, token: dict[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[curb_client.Call]:
        """A caller's app that joined; options are those of join()."""
        async with curb_client.join(self.url, self.token(identity, **(token or {})), **options) as call:
            yield call

    @asynccontextmanager
    async def room(self, identity: str, **token: Any) -> AsyncIterator[rtc.Room]:
        """A participant without anything of ours."""
        async with curb_client.connect_room(self.url, self.token(identity, **token)) as room:
            yield room

    @asynccontextmanager
    async def agent(
        self, identity: str = "agent", *, ready: bool = True, token: dict[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[AgentCall]:
        """An agent that joined; options are those of AgentCall."""
        async with self.room(identity, kind="agent", **(token or {})) as room, AgentCall(room, **options) as call:
            if ready:
                await call.ready()
            yield call


@dataclass(frozen=True)
class Pair:
    """A caller's client and the agent that it talks to."""

    stage: Stage
    call: curb_client.Call
    agent: AgentCall

    @property
    def client(self) -> AgentClient:
        return self.call.agent


@pytest.fixture
def stage(livekit: LiveKitServerHandle) -> Stage:
    return Stage(livekit, f"test-{os.getpid()}-{next(_numbers)}")


@pytest.fixture
async def pair(stage: Stage) -> AsyncIterator[Pair]:
    async with stage.client() as call, stage.agent(settings=SETTINGS) as agent:
        yield Pair(stage, call, agent)


async def until(condition: Any, *, within: float = 10.0, what: str = "the condition") -> None:
    """Wait until ``condition()`` is true."""
    loop = asyncio.get_running_loop()
    given_up = loop.time() + within
    while not condition():
        assert loop.time() < given_up, f"{what} was not true within {within:g} s"
        await asyncio.sleep(0.01)


def filling_bytes(count: int) -> str:
    """ASCII text of so many bytes that LiveKit's compression cannot shrink much."""
    return os.urandom(count)[: (count + 1) // 2].hex()[:count]


async def code_of(request: Awaitable[object]) -> str:
    """The code with which a request is refused, whichever end of it this is."""
    try:
        await request
    except AgentRefusedError as refused:
        return refused.code
    except Refusal as refused:
        return refused.code.value
    pytest.fail("it was not refused")


def echo(payload: Any, meta: RequestMeta) -> Any:
    return payload


class LongJob:
    """``job.run`` is a handler that begins and does not end by itself."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()

    async def run(self, payload: Any, meta: RequestMeta) -> None:
        self._begun.set()
        await asyncio.sleep(60)

    async def begun(self) -> None:
        """Returns once it has begun."""
        await asyncio.wait_for(self._begun.wait(), 10)
