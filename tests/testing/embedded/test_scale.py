"""Many rooms at once on one server."""

from __future__ import annotations

import asyncio
import contextlib

from curb_client import AgentCall, connect_room, join
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.raw_peer import RawPeer
from tests.testing.embedded.conftest import ask, is_active, serve_echo, until

SDK_ROOMS = 10
RAW_ROOMS = 50
ASKS = 5
WITHIN = 120.0
"""Seconds, of a machine that has other things to do."""


class Meeting:
    """Lets nobody go on before all are there."""

    def __init__(self, parties: int) -> None:
        self._missing = parties
        self._everybody = asyncio.Event()

    async def wait(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._everybody.set()
        await asyncio.wait_for(self._everybody.wait(), WITHIN)


async def test_ten_rooms_of_three_at_once() -> None:
    """Each with a client, an agent and a third by the bare SDK, all of whom ask and are asked."""
    meeting = Meeting(SDK_ROOMS)

    async def one(server: EmbeddedServer, room: str) -> None:
        async with (
            join(server.url, server.token("caller", room), timeout=WITHIN) as call,
            connect_room(server.url, server.token("agent", room, kind="agent"), timeout=WITHIN) as agents,
            connect_room(server.url, server.token("third", room), timeout=WITHIN) as third,
            AgentCall(agents) as agent,
        ):
            agent.on_message("where", lambda payload, meta: f"{room}: {payload}")
            await agent.ready()
            serve_echo(third)
            await until(lambda: is_active(agents, "third") and is_active(third, "agent"), within=WITHIN)
            await meeting.wait()
            for number in range(ASKS):
                asked = tuple(
                    await asyncio.gather(
                        call.agent.ask("where", number, timeout=WITHIN),
                        ask(agents, "third", f"{room}: {number}", response_timeout=WITHIN),
                        ask(call.room, "third", f"{room}: {number}", response_timeout=WITHIN),
                    )
                )
                assert asked == (f"{room}: {number}", f"agent:{room}: {number}", f"caller:{room}: {number}")

    with EmbeddedServer() as server:
        await asyncio.gather(*(one(server, f"room-{number}") for number in range(SDK_ROOMS)))
        await until(
            lambda: server.call(lambda node: not any(room.participants for room in node.rooms.all())), within=WITHIN
        )


async def test_fifty_rooms_of_three_at_once(server: EmbeddedServer) -> None:
    meeting = Meeting(RAW_ROOMS)
    joining_at_once = asyncio.Semaphore(5)  # both ends of every handshake are in this one loop, and each has a timer

    async def one(room: str) -> None:
        async with contextlib.AsyncExitStack() as stack:
            names = ("a", "b", "c")
            async with joining_at_once:
                joining = [RawPeer.join(server.url, server.token(name, room), within=WITHIN) for name in names]
                peers = [await stack.enter_async_context(peer) for peer in joining]
                for peer in peers:
                    await peer.sees_active(*(name for name in names if name != peer.identity), within=WITHIN)
            await meeting.wait()
            for peer in peers:
                peer.send_text(f"{peer.identity} in {room}")
            for peer in peers:
                heard = {bytes((await peer.receive(WITHIN)).user.payload).decode() for _ in range(2)}
                assert heard == {f"{name} in {room}" for name in names if name != peer.identity}

    await asyncio.gather(*(one(f"room-{number}") for number in range(RAW_ROOMS)))
    await until(lambda: not any(room.participants for room in server.node.rooms.all()), within=WITHIN)
