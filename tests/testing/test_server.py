"""A livekit-server of one's own, started, used and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from curb_client.errors import LiveKitServerError
from curb_client.testing import LIVEKIT_SERVER_VERSION, LiveKitServer
from tests.testing.processes import answers, fake_server, is_running

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals and scripts of POSIX"),
]


def test_it_is_ready_and_says_what_it_is(binary: Path) -> None:
    server = LiveKitServer(binary)
    with server:
        assert answers(server)
        assert server.url == f"ws://127.0.0.1:{server.ports.signal}"
        assert len(server.api_secret) >= 32
        assert server.version == LIVEKIT_SERVER_VERSION
        assert "starting LiveKit server" in server.log_tail()
        assert server.pid is not None
        assert is_running(server.pid)
        pid = server.pid
    assert not is_running(pid)
    assert server.pid is None
    assert "exit requested" in server.log_tail()
    assert not answers(server)
    server.stop()


def test_the_program_is_asked_for_its_version_once(tmp_path: Path) -> None:
    server = LiveKitServer(fake_server(tmp_path, f"echo $1 >> {tmp_path}/runs; echo livekit-server version 1.13.5"))
    assert [server.version, server.version] == ["1.13.5", "1.13.5"]
    assert (tmp_path / "runs").read_text() == "--version\n"


def test_two_at_once_share_no_port(binary: Path, running: LiveKitServer) -> None:
    with LiveKitServer(binary) as other:
        assert not {*running.ports} & {*other.ports}
        assert running.api_key != other.api_key
        assert len(set(other.ports)) == 3


def test_only_loopback_is_told_to_clients(running: LiveKitServer) -> None:
    assert '"bindAddresses": ["127.0.0.1"]' in running.log_tail()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, pytest.raises(OSError, match="in use"):
        probe.bind(("127.0.0.1", running.ports.rtc_udp))


def test_started_again_it_keeps_address_and_key(binary: Path) -> None:
    server = LiveKitServer(binary)
    with server:
        before = server.address
        with pytest.raises(LiveKitServerError, match="runs already"):
            server.start()
    with server:
        assert server.address == before


def test_what_is_not_started_has_no_address() -> None:
    with pytest.raises(LiveKitServerError, match="call start"):
        _ = LiveKitServer().url


def test_settings_in_the_environment_do_not_reach_it(binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEKIT_CONFIG", "port: 1")
    monkeypatch.setenv("LIVEKIT_KEYS", "mine: 0123456789abcdef0123456789abcdef")
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1:1")
    with LiveKitServer(binary) as server:
        assert server.ports.signal != 1


def test_its_private_directory_goes_with_it(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with LiveKitServer(binary):
        (directory,) = tmp_path.iterdir()
        assert directory.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_the_block_stops_it(binary: Path) -> None:
    server = LiveKitServer(binary)
    pids: list[int | None] = []

    def interrupted_block() -> None:
        with server:
            pids.append(server.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_block()
    assert pids[0] is not None
    assert not is_running(pids[0])


async def test_async_with_leaves_the_loop_free(binary: Path) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    async with LiveKitServer(binary) as server:
        pid = server.pid
        assert pid is not None
        await asyncio.sleep(0.3)  # the thread that started it is idle or gone by now, and the server lives on
        assert is_running(pid)
    ticking.cancel()
    assert ticks > 20
    assert not is_running(pid)


async def test_cancelling_the_start_leaves_no_server(tmp_path: Path) -> None:
    server = LiveKitServer(fake_server(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60"))
    entering = asyncio.create_task(server.__aenter__())
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert not is_running(int((tmp_path / "pid").read_text()))
    assert server.pid is None


PARTICIPANT = """
import asyncio, os, sys
from livekit import rtc

async def main(url, token):
    room = rtc.Room()
    await room.connect(url, token)
    print("joined", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)

asyncio.run(main(*sys.argv[1:]))
"""


def test_it_stops_with_a_participant_inside(binary: Path) -> None:
    server = LiveKitServer(binary)
    server.start()
    command = [sys.executable, "-c", PARTICIPANT, server.url, server.token("alice", "a-room")]
    participant = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert participant.stdout is not None
        assert participant.stdout.readline() == "joined\n"
        pid = server.pid
        assert pid is not None
        began = time.monotonic()
        server.stop()
        took = time.monotonic() - began
    finally:
        participant.communicate("", timeout=20)
    assert not is_running(pid)
    assert took < 3
    assert '"force": true' in server.log_tail(100)  # the first request did not do


def test_a_server_that_ignores_requests_is_killed(tmp_path: Path, binary: Path) -> None:
    stubborn = fake_server(
        tmp_path, f"trap '' TERM; {binary} \"$@\" & echo $! > {tmp_path}/real; while :; do sleep 0.1; done"
    )
    server = LiveKitServer(stubborn)
    server.start()
    pid = server.pid
    assert pid is not None
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 3
    assert not is_running(pid)
    os.kill(int((tmp_path / "real").read_text()), signal.SIGKILL)
