"""``curb-client crab``: what each command prints, and how it fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from curb_client import blocking, connect_room
from curb_client.cli.commands import cli
from curb_client.crabtalk import CrabDaemonError
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.model import Call
from curb_client.testing import LiveKitServerHandle
from curb_client.testing.crab_build import install_daemon
from curb_client.testing.crab_daemon import cached_daemon, find_daemon
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from tests.crabtalk.conftest import script

SECONDS = 60


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with FakeDaemon(script()) as daemon:
        yield daemon


def crab(daemon: FakeDaemon, *arguments: str, status: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["crab", f"--address={daemon.address}", *arguments], input=stdin)
    assert result.exit_code == status, result.output
    return result


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs until Ctrl-C."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "curb_client.cli", "crab", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def ended(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(SECONDS)


def until_it_waits(process: subprocess.Popen[str]) -> None:
    """Python's input() swallows a Ctrl-C in the instant in which it writes its prompt."""
    state = Path(f"/proc/{process.pid}/stat")
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "S":
        time.sleep(0.01)


def test_ask(daemon: FakeDaemon) -> None:
    result = crab(daemon, "ask", "hello", "--sender=me")
    assert result.stdout == "Hello, world\n"
    assert result.stderr.startswith("session 1, fake-model, ")
    (answer,) = objects(crab(daemon, "ask", "hello", "--new", "--sender=me", "--json"))
    assert (answer["content"], answer["session"], answer["usage"]["total_tokens"] > 0) == ("Hello, world", 2, True)
    failed = crab(daemon, "ask", "bad request", status=1).stderr
    assert "provider 'fake' failed, or answered with nothing; `curb-client crab stream` tells which" in failed
    for session in (0, 2**64):
        told = crab(daemon, "ask", "x", f"--session={session}", status=2).stderr
        assert f"session is {session}; it must be a whole number from 1 to {2**64 - 1}" in told


def test_stream(daemon: FakeDaemon) -> None:
    result = crab(daemon, "stream", "two tools")
    assert result.stdout == "let me look. tool said it\n"
    assert '[bash {"command": "echo one"}]' in result.stderr
    events = objects(crab(daemon, "stream", "ask me", "--answer=SQLite", "--answer=A", "--json"))
    names = [event["event"] for event in events]
    assert names[:4] == ["stream_start", "tools_announced", "tool_start", "ask_user"]
    assert names[-1] == "stream_end"
    assert events[3]["questions"][0]["options"][0] == {"label": "SQLite", "description": "a file"}
    (output,) = (event["output"] for event in events if event["event"] == "tool_result")
    assert json.loads(output) == {"Which database?": "SQLite", "Which features?": "A"}
    assert set(events[-1]["usage"]) == set(pb.TokenUsage.DESCRIPTOR.fields_by_name)
    asked = crab(daemon, "stream", "ask me", stdin="Postgres\nA, B\n")
    assert "Which database? (SQLite, Postgres)" in asked.stderr
    assert asked.stdout.endswith("thank you\n")
    assert "no such thing" in crab(daemon, "stream", "bad request", status=1).stderr
    free = {"questions": [{"question": "Your name?", "header": "Name", "options": []}]}
    daemon.script.on("who", calls=[Call("ask_user", free)])
    assert "Your name?: " in crab(daemon, "stream", "who", stdin="me\n").stderr


def test_a_question_among_other_tools(daemon: FakeDaemon) -> None:
    for content, answers in (("look first", ["a"]), ("two questions", ["a", "b", "c"])):
        arguments = [f"--answer={answer}" for answer in answers]
        result = crab(daemon, "stream", content, "--new", "--json", *arguments)
        outputs = [event["output"] for event in objects(result) if event["event"] == "tool_result"]
        assert "".join(outputs).count('": "') == len(answers)
        assert "given up" not in result.stderr


def test_ctrl_c_at_a_question_gives_it_up(daemon: FakeDaemon) -> None:
    with command(f"--address={daemon.address}", "stream", "ask me") as asking:
        assert asking.stderr is not None
        told = ""
        while "Which database? (SQLite, Postgres)" not in told:
            read = asking.stderr.read(1)
            assert read
            told += read
        until_it_waits(asking)
        assert ended(asking) == 1
        assert "the question was given up" in asking.stderr.read()
    assert not daemon._state.asks
    assert objects(crab(daemon, "sessions", "--json")) == []


def test_sessions(daemon: FakeDaemon) -> None:
    crab(daemon, "ask", "hello", "--sender=me")
    lines = crab(daemon, "sessions").stdout.splitlines()
    assert lines[0].split() == ["id", "agent", "created_by", "message_count", "active", "title"]
    assert lines[1].split() == ["1", "crab", "me", "2", "no"]
    assert crab(daemon, "sessions", "--compact=1").stdout == "Hello, world\n"
    compacted = objects(crab(daemon, "sessions", "--compact=1", "--json"))
    assert compacted == [{"session": 1, "summary": "Hello, world"}]
    crab(daemon, "sessions", "--kill=1")
    assert objects(crab(daemon, "sessions", "--json")) == []
    assert "404" in crab(daemon, "sessions", "--kill=1", status=1).stderr


def test_agents_and_stats(daemon: FakeDaemon) -> None:
    assert crab(daemon, "agents").stdout.splitlines()[1].split() == ["crab", "fake-model", "16", "no"]
    (agent,) = objects(crab(daemon, "agents", "crab", "--json"))
    assert (agent["name"], agent["compact_threshold"], agent["skills"]) == ("crab", 100_000, [])
    assert "'nope' not found" in crab(daemon, "agents", "nope", status=1).stderr
    (stats,) = objects(crab(daemon, "stats", "--json"))
    assert (stats["registered_agents"], stats["active_model"]) == (1, "fake-model")


def test_cron(daemon: FakeDaemon) -> None:
    crab(daemon, "ask", "hello")
    added = crab(daemon, "cron", "add", "*/5 * * * 1", "greet", "--session=1", "--quiet", "23:00", "07:00")
    assert added.stdout.splitlines()[1].split() == [
        "1", "0", "*/5", "*", "*", "*", "MON", "greet", "1", "23:00", "07:00", "no",
    ]  # fmt: skip
    (job,) = objects(crab(daemon, "cron", "list", "--json"))
    assert (job["id"], job["skill"], job["once"]) == (1, "greet", False)
    crab(daemon, "cron", "delete", "1")
    assert objects(crab(daemon, "cron", "list", "--json")) == []
    assert "fields" in crab(daemon, "cron", "add", "* *", "greet", "--session=1", status=2).stderr


def test_events(daemon: FakeDaemon) -> None:
    with command(f"--address={daemon.address}", "events", "--json", "--count=2") as listening:
        assert listening.stderr is not None
        assert listening.stderr.readline() == "listening\n"
        crab(daemon, "ask", "hello", "--session=1", status=1)
        crab(daemon, "ask", "hello")
        out, _ = listening.communicate(timeout=SECONDS)
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["text_delta", "text_delta"]
    with command(f"--address={daemon.address}", "events") as listening:
        assert listening.stderr is not None
        assert listening.stdout is not None
        assert listening.stderr.readline() == "listening\n"
        crab(daemon, "ask", "hello")
        assert listening.stdout.readline().split()[1:4] == ["crab", "1", "text_delta"]
        assert ended(listening) == 130


def test_no_daemon(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["crab", "stats"], env={"HOME": str(tmp_path), "CRABTALK_ADDRESS": ""})
    assert result.exit_code == 1
    assert "no daemon runs; start one with `crabtalk --foreground`" in result.stderr
    result = CliRunner().invoke(cli, ["crab", "--address=http://x", "stats"])
    assert result.exit_code == 2


def test_the_gateway(daemon: FakeDaemon, livekit: LiveKitServerHandle) -> None:
    token = livekit.token("gateway", "crab-gateway", kind="agent")
    arguments = [f"--address={daemon.address}", "gateway", f"--url={livekit.url}", f"--token={token}"]
    with command(*arguments) as gateway:
        assert gateway.stderr is not None
        assert gateway.stderr.readline().startswith(f"the gateway to {daemon.address} is in the room crab-gateway")
        with blocking.join(livekit.url, livekit.token("caller", "crab-gateway")) as call:
            reply = call.agent.ask("crab.ask", {"content": "hello"}, timeout=SECONDS)
        assert reply["content"] == "Hello, world"
        assert ended(gateway) == 0


def test_a_gateway_whose_place_is_taken(daemon: FakeDaemon, livekit: LiveKitServerHandle) -> None:
    token = livekit.token("gateway", "crab-replaced", kind="agent")
    arguments = [f"--address={daemon.address}", "gateway", f"--url={livekit.url}", f"--token={token}"]

    async def replace() -> None:
        async with connect_room(livekit.url, token):
            await asyncio.to_thread(gateway.wait, SECONDS)

    with command(*arguments) as gateway:
        assert gateway.stderr is not None
        gateway.stderr.readline()
        asyncio.run(replace())
        told = gateway.stderr.read()
    assert gateway.returncode == 1
    assert "the gateway is no longer in its room (DUPLICATE_IDENTITY)" in told
    assert "give each gateway a token with its own" in told


def test_ctrl_c_ends_a_gateway_that_does_not_get_into_its_room(daemon: FakeDaemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        with command(f"--address={daemon.address}", "gateway", f"--url={url}", "--token=x") as gateway:
            silent.settimeout(SECONDS)
            connected, _ = silent.accept()
            with connected:
                gateway.send_signal(signal.SIGINT)
                assert gateway.wait(10) == 130


def test_a_fake_daemon_to_develop_against(tmp_path: Path) -> None:
    rules = tmp_path / "model.yaml"
    rules.write_text("rules:\n  - when: {said: hello}\n    then: {text: Good morning.}\n")
    with command("fake", f"--script={rules}") as fake:
        assert fake.stdout is not None
        name, _, address = fake.stdout.readline().strip().partition("=")
        result = CliRunner().invoke(cli, ["crab", "ask", "hello"], env={name: address})
        assert result.stdout == "Good morning.\n"
        assert ended(fake) == 0
    assert not Path(address).exists()


def test_what_is_found_and_what_is_missing_to_build_one(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)}
    assert find_daemon(env) is None
    told: list[str] = []
    with pytest.raises(CrabDaemonError, match="building crabtalk needs cargo: install Rust"):
        install_daemon(told.append, env)
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho cannot reach anything\nexit 7\n")
    cargo.chmod(0o755)
    with pytest.raises(CrabDaemonError, match="needs protoc: install the package protobuf-compiler"):
        install_daemon(told.append, env)
    with pytest.raises(CrabDaemonError, match=r"failed with status 7(.|\n)*cannot reach anything"):
        install_daemon(told.append, {**env, "PROTOC": str(cargo), "PATH": f"{tmp_path}:/bin:/usr/bin"})
    assert told == ["building crabtalk 0.0.18 with cargo"]
    program = cached_daemon(env)
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho '  --foreground  run it'\n")
    program.chmod(0o755)
    assert install_daemon(told.append, env) == find_daemon(env) == program
