"""Server and clients after many calls, each measured in a process of its own: nothing of a call stays."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.testing.processes import REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FEW = 40
MANY = 500
LINE_WITHIN = 120.0
SETTLED_WITHIN = 40.0
WARM_AFTER = 50
"""Cycles until every cache is full."""
OBJECTS_A_CYCLE = 0.5
SERVER_KB_A_CYCLE = 4.0
CLIENT_KB_A_CYCLE = 40.0
"""Over what the SDK alone leaves behind."""

PICTURE = """
import asyncio, functools, gc, json, os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))  # the SDK keeps those of a room for seconds

def picture(**more):
    for each in gc.get_objects():
        if type(each) is functools._lru_cache_wrapper and each.cache_parameters()["maxsize"] is not None:
            each.cache_clear()  # of the last URLs, say: they have a bound
    gc.collect()
    with open("/proc/self/status") as file:
        kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    print(json.dumps({"tasks": len(asyncio.all_tasks()), "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")), "objects": len(gc.get_objects()), "kB": kilobytes, **more}),
        flush=True)
"""

SERVER = """
from curb_client.testing.embedded import EmbeddedServer

def look(node):
    picture(rooms=len(node.rooms.all()), endings=len(node.context.tasks), users=len(node.context.udp._by_ufrag),
        addresses=len(node.context.udp._by_address))

with EmbeddedServer(departure_timeout=0.5) as server:
    print(*server.address.__dict__.values(), flush=True)
    for line in sys.stdin:
        server.call(look)
"""

CLIENT = """
import logging
from livekit import rtc
import curb_client
from curb_client.testing import LiveKitAddress

way, cycles, *address = sys.argv[1:]
server = LiveKitAddress(*address)
logging.getLogger("livekit").setLevel(logging.CRITICAL)

async def curb(room):
    async with curb_client.join(server.url, server.token("caller", room)) as call:
        agents = curb_client.connect_room(server.url, server.token("agent", room, kind="agent"))
        async with agents as connected, curb_client.AgentCall(connected) as agent:
            agent.on_message("echo", lambda payload, meta: payload)
            await agent.ready()
            assert await call.agent.ask("echo", room) == room

async def sdk(room):
    caller, agent, active = rtc.Room(), rtc.Room(), asyncio.Event()
    caller.on("participant_active", lambda participant: active.set())
    async def echo(data):
        return data.payload
    await caller.connect(server.url, server.token("caller", room))
    await agent.connect(server.url, server.token("agent", room, kind="agent"))
    agent.local_participant.register_rpc_method("echo", echo)
    others = caller.remote_participants.values()
    if not any(each.state == rtc.ParticipantState.PARTICIPANT_STATE_ACTIVE for each in others):
        await asyncio.wait_for(active.wait(), 30)
    answer = await caller.local_participant.perform_rpc(
        destination_identity="agent", method="echo", payload=room, response_timeout=30)
    assert answer == room
    agent.local_participant.unregister_rpc_method("echo")  # else LiveKit keeps the room: 400 kB
    await agent.disconnect()
    await caller.disconnect()

async def main():
    for number in range(int(cycles) + 1):
        if number % 10 == 0:
            picture(cycle=number)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        await {"curb": curb, "sdk": sdk}[way](f"room-{number}")
    while True:  # until nobody asks any more
        picture(cycle=int(cycles) + 1)
        if not await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
            return

asyncio.run(main())
"""

Picture = dict[str, int]


class Watched:
    """A process that answers every line with a picture of itself."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), LINE_WITHIN)
        assert line, "the process has ended"
        return line.decode()

    async def picture(self) -> Picture:
        picture: Picture = json.loads(await self.line())
        return picture

    def ask(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def asked(self) -> Picture:
        self.ask()
        return await self.picture()


@asynccontextmanager
async def watched(script: str, *arguments: str) -> AsyncIterator[Watched]:
    """The script in a process, which ends when nobody asks it any more."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PICTURE + script, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=REPOSITORY,
    )
    try:
        yield Watched(process)
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), LINE_WITHIN) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def settled(process: Watched, *names: str) -> Picture:
    """What is there once nothing of it changes any more, or the time is over."""
    loop = asyncio.get_running_loop()
    given_up = loop.time() + SETTLED_WITHIN
    last, same = await process.asked(), 0
    while same < 4 and loop.time() < given_up:
        await asyncio.sleep(0.3)
        now = await process.asked()
        same = same + 1 if all(now[name] == last[name] for name in names) else 0
        last = now
    return last


@dataclass
class Run:
    """Pictures of both sides: every ten cycles, and of the server before and after, in peace."""

    server: list[Picture] = field(default_factory=list)
    client: list[Picture] = field(default_factory=list)
    before: Picture = field(default_factory=dict)
    after: Picture = field(default_factory=dict)

    def slope(self, side: str, what: str) -> float:
        """How much more of it there is with each cycle, from the fiftieth on."""
        cycles = [picture["cycle"] for picture in self.client]
        values = [picture[what] for picture in getattr(self, side)]
        late = [(cycle, value) for cycle, value in zip(cycles, values, strict=True) if cycle >= WARM_AFTER]
        return statistics.linear_regression(*zip(*late, strict=True)).slope


async def run(way: str, cycles: int) -> Run:
    """So many calls, after ten others that fill the caches."""
    result = Run()
    counted = ("rooms", "endings", "users", "addresses", "tasks", "descriptors", "threads")
    async with watched(SERVER) as server:
        address = (await server.line()).split()
        async with watched(CLIENT, way, str(cycles + 10), *address) as client:
            for number in range(0, cycles + 11, 10):
                result.client.append(await client.picture())
                result.server.append(await server.asked())
                if number == 10:
                    result.before = await settled(server, *counted)
                client.ask()
            await client.picture()
            result.after = await settled(server, *counted)
    return result


def check_server(result: Run, cycles: int) -> None:
    for name in ("rooms", "endings", "users", "addresses", "tasks", "descriptors", "threads"):
        assert result.after[name] == result.before[name], (name, result.before, result.after)
    assert result.after["rooms"] == 0
    assert result.after["objects"] - result.before["objects"] <= OBJECTS_A_CYCLE * cycles, result


async def test_forty_calls_leave_nothing_on_the_server() -> None:
    check_server(await run("curb", FEW), FEW)


@pytest.mark.skipif(not os.environ.get("CURB_LONG"), reason="takes minutes; set CURB_LONG=1")
async def test_five_hundred_calls_leave_nothing(record_property: Callable[[str, object], None]) -> None:
    """Of the clients' process, what the SDK alone leaves is measured with the same calls by the bare SDK."""
    ours, bare = await run("curb", MANY), await run("sdk", MANY)
    check_server(ours, MANY)
    figures = {
        "server kB a cycle": ours.slope("server", "kB"),
        "server objects a cycle": ours.slope("server", "objects"),
        "client kB a cycle": ours.slope("client", "kB"),
        "client objects a cycle": ours.slope("client", "objects"),
        "SDK alone kB a cycle": bare.slope("client", "kB"),
        "SDK alone objects a cycle": bare.slope("client", "objects"),
    }
    for name, value in figures.items():
        record_property(name, round(value, 2))
        print(f"{name}: {value:.2f}")
    assert figures["server kB a cycle"] <= SERVER_KB_A_CYCLE, figures
    assert figures["client kB a cycle"] <= max(0, figures["SDK alone kB a cycle"]) + CLIENT_KB_A_CYCLE, figures
    assert ours.slope("client", "tasks") <= 0.01, [picture["tasks"] for picture in ours.client]
