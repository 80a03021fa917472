"""Embedded servers for the tests, and whatever goes wrong in their loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from livekit import rtc

from curb_client import connect_room
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.embedded.participant import Participant

ROOM = "a-room"


@pytest.fixture
async def problems() -> AsyncIterator[list[dict[str, Any]]]:
    """What the loop's exception handler is told; a test that expects something clears it."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    yield told
    gc.collect()  # tasks whose exceptions nobody has fetched
    assert told == []


@pytest.fixture
async def server(problems: list[dict[str, Any]]) -> AsyncIterator[EmbeddedServer]:
    """In the loop of the test."""
    async with EmbeddedServer() as server:
        yield server


class Stage:
    """Joins participants to one room, and leaves it with them at the end."""

    def __init__(self, server: EmbeddedServer, stack: contextlib.AsyncExitStack) -> None:
        self.server = server
        self._stack = stack

    async def join(self, identity: str, room: str = ROOM, **token: Any) -> rtc.Room:
        token_of_it = self.server.token(identity, room, **token)
        return await self._stack.enter_async_context(connect_room(self.server.url, token_of_it))

    def participant(self, identity: str, room: str = ROOM) -> Participant:
        """The server's side of somebody."""
        found = self.server.node.rooms.get(room)
        assert found is not None
        return found.participants[identity]


@pytest.fixture
async def stage(server: EmbeddedServer) -> AsyncIterator[Stage]:
    async with contextlib.AsyncExitStack() as stack:
        yield Stage(server, stack)


@contextlib.asynccontextmanager
async def stage_on(server: EmbeddedServer) -> AsyncIterator[Stage]:
    """For tests that set up a server of their own."""
    async with contextlib.AsyncExitStack() as stack:
        yield Stage(server, stack)


async def until(condition: Callable[[], object], *, within: float = 10.0, what: str = "the condition") -> None:
    loop = asyncio.get_running_loop()
    given_up = loop.time() + within
    while not condition():
        assert loop.time() < given_up, f"{what} was not true within {within:g} s"
        await asyncio.sleep(0.005)


def is_active(room: rtc.Room, identity: str) -> bool:
    """Whether somebody is seen, and can be asked."""
    participant = room.remote_participants.get(identity)
    return participant is not None and participant.state == rtc.ParticipantState.PARTICIPANT_STATE_ACTIVE


def events(room: rtc.Room, *names: str) -> list[tuple[Any, ...]]:
    """What a room tells from now on: the event's name, and its arguments, participants by identity."""
    told: list[tuple[Any, ...]] = []
    for name in names:

        def note(*arguments: Any, name: str = name) -> None:
            told.append((name, *(getattr(argument, "identity", argument) for argument in arguments)))

        room.on(name, note)  # type: ignore[arg-type]
    return told


def serve_echo(room: rtc.Room) -> None:
    async def echo(data: rtc.RpcInvocationData) -> str:
        return f"{data.caller_identity}:{data.payload}"

    room.local_participant.register_rpc_method("echo", echo)


async def ask(room: rtc.Room, identity: str, payload: str = "hello", method: str = "echo", **options: Any) -> str:
    return await room.local_participant.perform_rpc(
        destination_identity=identity, method=method, payload=payload, **options
    )


async def code_of(asking: Awaitable[object]) -> int:
    """The error's code."""
    with pytest.raises(rtc.RpcError) as caught:
        await asking
    return int(caught.value.code)


class Texts:
    """The text streams that come to a room."""

    def __init__(self, room: rtc.Room, topic: str = "t") -> None:
        self.arrived: list[tuple[str, str]] = []
        """From whom, and the text."""
        self._reading: set[asyncio.Task[None]] = set()
        room.register_text_stream_handler(topic, self._begin)

    def _begin(self, reader: rtc.TextStreamReader, identity: str) -> None:
        task = asyncio.ensure_future(self._read(reader, identity))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, reader: rtc.TextStreamReader, identity: str) -> None:
        self.arrived.append((identity, await reader.read_all()))


@pytest.fixture(autouse=True)
def quiet_sdk(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK logs what the tests do to it on purpose."""
    caplog.set_level(logging.CRITICAL, logger="livekit")
