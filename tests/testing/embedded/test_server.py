"""How an embedded server starts and ends, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from livekit import rtc

import curb_client
from curb_client.errors import LiveKitServerError, UsageError
from curb_client.testing import CurbCall, LiveKitServerHandle
from curb_client.testing.embedded import EmbeddedServer
from tests.testing.embedded.conftest import ask, events, is_active, serve_echo, stage_on, until
from tests.testing.processes import REPOSITORY

NAME = "curb-embedded-livekit"


@pytest.fixture(autouse=True)
def threads_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of the whole run are not looked at."""
    others = [thread for thread in threading.enumerate() if thread.name == NAME]
    monkeypatch.setattr(sys.modules[__name__], "OTHERS", others)


OTHERS: list[threading.Thread] = []


def server_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME and thread not in OTHERS]


def answers(server: EmbeddedServer) -> bool:
    host, _, port = server.url.removeprefix("ws://").partition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except ConnectionRefusedError:
        return False
    return True


async def test_in_the_loop_that_runs(problems: list[Any]) -> None:
    tasks, threads = asyncio.all_tasks(), threading.active_count()
    async with EmbeddedServer() as server:
        assert isinstance(server, LiveKitServerHandle)
        assert server.version == "1.13.5"
        assert len(server.api_secret.encode()) >= 32
        assert server.url.startswith("ws://127.0.0.1:")
        assert answers(server)
        assert (server_threads(), threading.active_count()) == ([], threads)
        assert server.call(lambda node: threading.current_thread()) is threading.current_thread()
        caller = await asyncio.to_thread(server.call, lambda node: threading.current_thread())
        assert caller is threading.current_thread(), "also where it is called in another one"
        with pytest.raises(LiveKitServerError, match="leave the block"):
            server.stop()
        with pytest.raises(LiveKitServerError, match="runs already"):
            server.start()
    assert not answers(server)
    assert asyncio.all_tasks() == tasks
    server.stop()


def test_in_a_thread_of_its_own() -> None:
    with EmbeddedServer() as server:
        assert len(server_threads()) == 1
        assert answers(server)
        assert server.call(lambda node: threading.current_thread()) in server_threads()
        with pytest.raises(LiveKitServerError, match="runs already"):
            server.start()
    assert (server_threads(), answers(server)) == ([], False)
    server.stop()
    with pytest.raises(LiveKitServerError, match="does not run"):
        server.call(lambda node: None)


def test_before_the_first_start() -> None:
    server = EmbeddedServer()
    with pytest.raises(LiveKitServerError, match="no port yet"):
        _ = server.url
    with pytest.raises(LiveKitServerError, match="does not run"):
        _ = server.node
    assert server.log_tail() == ""
    server.prepare()
    server.stop()


def test_each_has_its_own_key() -> None:
    with EmbeddedServer() as one, EmbeddedServer() as other:
        assert one.address != other.address
        assert one.api_secret != other.api_secret
        assert one.api_secret not in repr(one.address)


def test_a_key_and_a_port_of_ones_own() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with EmbeddedServer(api_key="devkey", api_secret="secret", port=port) as server:
        assert (server.url, server.api_key, server.api_secret) == (f"ws://127.0.0.1:{port}", "devkey", "secret")


def test_a_port_that_is_taken() -> None:
    with EmbeddedServer() as server:
        port = int(server.url.rpartition(":")[2])
        second = EmbeddedServer(port=port)
        with pytest.raises(LiveKitServerError, match=f"could not listen at 127.0.0.1:{port}"):
            second.start()
        assert len(server_threads()) == 1
    second.start()
    second.stop()


@pytest.mark.parametrize("options", [{"state_batch": -1}, {"resume_within": float("nan")}, {"empty_timeout": "5"}])
def test_an_option_that_is_no_time(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(options))} of an embedded server is"):
        EmbeddedServer(**options)


def test_a_port_of_its_own_that_is_taken_for_a_while() -> None:
    server = EmbeddedServer()
    with server:
        address = server.address
    with socket.socket() as taking:
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taking.bind(("127.0.0.1", int(address.url.rpartition(":")[2])))
        taking.listen()
        threading.Timer(0.2, taking.close).start()
        server.start()
    assert server.address == address
    server.stop()


def test_a_port_that_is_none() -> None:
    with pytest.raises(UsageError, match="the port of an embedded server is 70000"):
        EmbeddedServer(port=70000)


def test_it_starts_in_milliseconds() -> None:
    EmbeddedServer().prepare()
    began = time.perf_counter()
    for _ in range(5):
        with EmbeddedServer():
            pass
    assert time.perf_counter() - began < 5  # some 20 ms; the rest is for machines with much else to do


def python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=REPOSITORY, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_it_needs_is_loaded_when_it_starts() -> None:
    printed = python(
        "import sys; from curb_client.testing.embedded import EmbeddedServer; server = EmbeddedServer()\n"
        "print('aiortc' in sys.modules, 'aiohttp' in sys.modules)"
    )
    assert printed == "False False\n"


def test_a_package_that_is_missing_is_named() -> None:
    printed = python(
        "import sys; sys.modules['aiortc'] = None\n"
        "from curb_client.testing.embedded import EmbeddedServer\n"
        "try: EmbeddedServer().start()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    assert printed.startswith("LiveKitServerError The embedded LiveKit server needs packages")
    assert "pip install 'curb-client[testing]'" in printed


def test_it_ends_with_the_process() -> None:
    printed = python(
        "from curb_client.testing.embedded import EmbeddedServer\n"
        "server = EmbeddedServer(); server.start(); print(server.url)"
    )
    assert printed.startswith("ws://")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_leaves_it_alone() -> None:
    printed = python(
        "import os, warnings; warnings.simplefilter('ignore')\n"
        "from curb_client.testing.embedded import EmbeddedServer\n"
        "with EmbeddedServer() as server:\n"
        "    if os.fork() == 0:\n"
        "        server.stop(); os._exit(0)\n"
        "    os.wait(); print(server.call(lambda node: 'still there'))"
    )
    assert printed == "still there\n"


# With participants


@pytest.fixture
def threaded() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@pytest.fixture(params=["its own thread", "the test's loop"])
async def either(request: pytest.FixtureRequest, problems: list[Any]) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer()
    if request.param == "the test's loop":
        async with server:
            yield server
    else:
        server.start()
        yield server
        await asyncio.to_thread(server.stop)


async def test_a_call_through_either(either: EmbeddedServer) -> None:
    async with CurbCall(either) as call:
        call.agent.on_message("quote", lambda payload, meta: {"price": 7})
        assert await call.client.ask("quote") == {"price": 7}


async def test_whoever_is_inside_is_told_of_the_end(problems: list[Any]) -> None:
    server = EmbeddedServer()
    async with server, curb_client.connect_room(server.url, server.token("a", "r")) as room:
        gone = events(room, "disconnected", "reconnecting")
        await until(lambda: server.node.rooms.all()[0].participants["a"].is_active)
        began = time.monotonic()
        await server.__aexit__(None, None, None)
        assert time.monotonic() - began < 3
        await until(lambda: gone == [("disconnected", rtc.DisconnectReason.SERVER_SHUTDOWN)])
    assert "left: SERVER_SHUTDOWN" in server.log_tail()


async def test_it_is_the_same_after_a_restart(threaded: EmbeddedServer) -> None:
    address = threaded.address
    async with stage_on(threaded) as stage:
        room = await stage.join("a")
        gone = events(room, "disconnected")
        await asyncio.to_thread(threaded.stop)
        await until(lambda: gone)
        await asyncio.to_thread(threaded.start)
        assert threaded.address == address
        again = await stage.join("a")
        assert again.isconnected()
    assert threaded.log_tail(100).count("listens at") == 2


async def test_who_saw_it_killed_comes_back(threaded: EmbeddedServer) -> None:
    async with stage_on(threaded) as stage:
        caller, agent = await stage.join("caller"), await stage.join("agent", kind="agent")
        serve_echo(agent)
        await until(lambda: is_active(caller, "agent"))
        told = [events(room, "reconnecting", "reconnected", "disconnected") for room in (caller, agent)]
        await asyncio.to_thread(threaded.kill)
        await asyncio.to_thread(threaded.start)
        back = [("reconnecting",), ("reconnected",)]
        await until(lambda: told == [back, back], within=20)
        await until(lambda: is_active(caller, "agent"))
        assert await ask(caller, "agent") == "caller:hello"
