"""The command that runs a server, as a process."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from curb_client import connect_room
from curb_client.cli.commands import cli
from curb_client.testing import LiveKitAddress


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize("choice", [[], ["--livekit=server"]], ids=["embedded", "server"])
async def test_it_serves_until_it_is_told_to_end(choice: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "curb_client.cli", "server", f"--port={port}", *choice]
    process = start(command)
    try:
        assert process.stdout is not None
        told = dict(process.stdout.readline().strip().split("=", 1) for _ in range(3))
        assert told["LIVEKIT_URL"] == f"ws://127.0.0.1:{port}"
        address = LiveKitAddress(told["LIVEKIT_URL"], told["LIVEKIT_API_KEY"], told["LIVEKIT_API_SECRET"])
        async with connect_room(address.url, address.token("caller", "my-room")) as room:
            assert room.isconnected()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        with process:  # which closes the pipe and waits
            pass


def test_one_that_runs_already_cannot_be_started() -> None:
    usage = " ".join(CliRunner().invoke(cli, ["server", "--help"]).output.split())
    assert "--livekit embedded|server 'embedded' is a server inside this program" in usage
    result = CliRunner().invoke(cli, ["server", "--livekit=ws://127.0.0.1:1"])
    assert result.exit_code == 2
    assert "give 'embedded' or 'server', a server to be started" in " ".join(result.output.split())


def test_a_port_that_is_taken_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURB_LIVEKIT_URL", "ws://127.0.0.1:1")  # it starts one all the same
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(cli, ["server", f"--port={taken.getsockname()[1]}"])
    assert result.exit_code == 1
    assert "could not listen" in result.output
