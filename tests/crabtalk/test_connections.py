"""Addresses, connections that are used again, and daemons that go and come."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from curb_client import ClosedError, UsageError
from curb_client.crabtalk import (
    AskUser,
    CrabTalkClient,
    CrabTalkError,
    DaemonClosedError,
    DaemonTimeoutError,
    DaemonUnreachableError,
    PortFile,
    TcpAddress,
    UnixAddress,
    asking,
    encode_frame,
)
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.crabtalk.addresses import as_address, default_address
from curb_client.testing.crab_daemon import CrabDaemon
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from tests.crabtalk.conftest import script
from tests.crabtalk.hostile import event, read_request, served_by

SECONDS = 30.0


async def test_no_daemon(tmp_path: Path) -> None:
    async def told(address: object) -> str:
        async with CrabTalkClient(address) as client:  # type: ignore[arg-type]
            with pytest.raises(DaemonUnreachableError) as unreachable:
                await client.ping()
        return str(unreachable.value)

    assert "there is no socket" in await told(tmp_path / "none.sock")
    assert "no port in" in await told(tmp_path / "none.port")
    for text in ("66666", "9" * 5000):
        (tmp_path / "bad.port").write_text(text)
        assert f"but '{text[:40]}'" in await told(tmp_path / "bad.port")
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "left.sock"))
    left.close()
    assert "was killed" in await told(tmp_path / "left.sock")
    assert "too long" in await told(tmp_path / ("x" * 200))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert "no connection to tcp://127.0.0.1" in await told(TcpAddress("127.0.0.1", taken.getsockname()[1]))


def test_addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_address() == UnixAddress(tmp_path / ".crabtalk" / "run" / "crabtalk.sock")
    assert as_address(None) == default_address()
    assert as_address("tcp://[::1]:6688") == TcpAddress("::1", 6688)
    assert as_address("run/crabtalk.port") == PortFile(Path("run/crabtalk.port"))
    for wrong in (
        "",
        "tcp://host",
        "tcp://:1",
        "tcp://h:70000",
        "tcp://h:\u0663",
        f"tcp://h:{'9' * 5000}",
        "http://h:1",
    ):
        with pytest.raises(UsageError, match="the daemon's address is"):
            as_address(wrong)


async def test_an_idle_connection_that_the_daemon_closed_is_replaced() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(encode_frame(pb.ServerMessage(pong=pb.Pong())))

    async with served_by(serve) as client:
        for _ in range(3):
            await client.ping()
            while client._at_once._idle and client._at_once._idle[0].is_idle:  # noqa: ASYNC110 - it has just been closed
                await asyncio.sleep(0.01)
    assert connections == 3


async def test_the_daemon_goes_and_comes(daemon: CrabDaemon) -> None:
    async with CrabTalkClient(daemon.address) as client:
        await client.ping()
        run = client.stream("ask me", new_chat=True)
        async for one in run:
            if isinstance(one, AskUser):
                await asyncio.to_thread(daemon.stop)
                break
        with pytest.raises(DaemonUnreachableError, match="there is no socket"):
            await client.ping()
        await asyncio.to_thread(daemon.start)
        await client.ping()
        assert (await client.send("hello")).session == 1  # a new daemon counts from one
        await asyncio.to_thread(daemon.stop, kill=True)
        with pytest.raises(DaemonUnreachableError, match="was killed"):
            await client.ping()
        await asyncio.to_thread(daemon.start)
        await client.ping()


async def test_a_run_that_loses_its_daemon(daemon: CrabDaemon) -> None:
    async with CrabTalkClient(daemon.address) as client:
        run = client.stream("ask me", new_chat=True)
        stopping: asyncio.Task[None] | None = None

        async def read() -> None:
            nonlocal stopping
            async for one in run:
                if isinstance(one, AskUser):
                    stopping = asyncio.ensure_future(asyncio.to_thread(daemon.stop))

        with pytest.raises(DaemonClosedError, match="stream: the daemon closed"):
            await asyncio.wait_for(read(), SECONDS)
        assert stopping is not None
        await stopping


async def test_exchanges_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_RUNS", 2)
    with FakeDaemon(script()) as daemon:
        async with CrabTalkClient(daemon.address) as client:
            async with client.stream("ask me", new_chat=True) as one, client.stream("ask me", new_chat=True) as two:
                for run in (one, two):
                    await run.__anext__()
                with pytest.raises(DaemonTimeoutError, match=r"not begun within 0\.1 s, because 2 exchanges"):
                    await client.send("hello", new_chat=True, timeout=0.1)
                await client.ping()
                waiting = asyncio.ensure_future(client.send("hello", new_chat=True))
                given_up = asyncio.ensure_future(client.send("hello", new_chat=True))
                await asyncio.sleep(0.05)
                given_up.cancel()
                await one.aclose()
                assert (await asyncio.wait_for(waiting, SECONDS)).content == "Hello, world"
            assert client._others._free == 2
            assert not client._others._turns


async def test_a_forgotten_stream_gives_its_connection_back() -> None:
    with FakeDaemon(script()) as daemon:
        async with CrabTalkClient(daemon.address) as client:
            run = client.stream("long")
            await run.__anext__()
            assert len(client._others._used) == 1
            del run
            gc.collect()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not client._others._used


async def test_a_stream_that_was_closed_asks_nothing() -> None:
    async with CrabTalkClient("/nowhere.sock") as client:
        run = client.stream("x")
        await run.aclose()
        assert [one async for one in run] == []


async def test_two_readers_of_one_run() -> None:
    with FakeDaemon(script()) as daemon:
        async with CrabTalkClient(daemon.address) as client:
            run = client.stream("slow")
            await run.__anext__()
            first = asyncio.ensure_future(run.__anext__())
            await asyncio.sleep(0.05)
            with pytest.raises(UsageError, match="two tasks wait"):
                await run.__anext__()
            with pytest.raises((ClosedError, CrabTalkError, StopAsyncIteration)):
                await asyncio.wait_for(first, SECONDS)


async def test_a_fast_daemon_is_held_back() -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        frame = encode_frame(event(chunk=pb.StreamChunk(content="x" * 100_000)))
        while sent < 400:
            writer.write(frame)
            await writer.drain()
            sent += 1
        writer.write(encode_frame(event(end=pb.StreamEnd())))
        await reader.read()

    async with served_by(serve) as client:
        run = client.stream("x")
        await run.__anext__()
        await asyncio.sleep(0.5)
        assert sent < 300
        assert len(await run.text()) == 399 * 100_000
