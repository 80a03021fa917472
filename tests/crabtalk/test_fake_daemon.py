"""What agents do wrong, and how a fake daemon takes it: as the real one does, where that has such a thing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from curb_client.crabtalk import CrabTalkClient, DaemonNotFoundError, DaemonRefusedError, ToolResult
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.model import Call
from curb_client.testing.crab_daemon import CrabDaemon
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from curb_client.testing.fake_daemon.state import State
from tests.crabtalk.conftest import script

SECONDS = 10.0


async def output_of(client: CrabTalkClient, content: str) -> str:
    """What the only tool of a run gave."""
    events = [event async for event in client.stream(content, new_chat=True, timeout=SECONDS)]
    (output,) = (event.output for event in events if isinstance(event, ToolResult))
    return output


@pytest.mark.parametrize(
    ("command", "status", "stdout"),
    [
        ("echo 'a;b'; echo c", 0, "a;b\nc\n"),
        ("echo it's", 2, ""),
        ("sleep; echo on", 0, "on\n"),
        ("sleep", 1, ""),
        ("sleep soon", 1, ""),
        ("nowhere-to-be-found", 127, ""),
        ("", 0, ""),
    ],
)
async def test_commands(client: CrabTalkClient, daemon: CrabDaemon, command: str, status: int, stdout: str) -> None:
    daemon.script.on("run it", calls=[Call("bash", {"command": command})])
    told = json.loads(await output_of(client, "run it"))
    assert (told["exit_code"], told["stdout"], bool(told["stderr"])) == (status, stdout, status != 0 or "on" in stdout)


async def test_arguments_that_a_tool_does_not_take(client: CrabTalkClient, daemon: CrabDaemon) -> None:
    for name, tool, arguments in (
        ("no command", "bash", {"order": "echo"}),
        ("no header", "ask_user", {"questions": [{"question": "x"}]}),
        ("no list", "ask_user", {"question": "x"}),
    ):
        daemon.script.on(name, calls=[Call(tool, arguments)])
        assert (await output_of(client, name)).startswith("invalid arguments: missing field `")
    assert (await client.send("no header", new_chat=True)).content == "thank you"


@pytest.mark.parametrize(
    "config",
    [
        {"max_iterations": "x"},
        {"max_iterations": -1},
        {"members": 5},
        {"members": "abc"},
        {"thinking": "yes"},
        {"description": None},
        {"compact_threshold": []},
    ],
)
async def test_a_config_that_is_none_is_not_kept(client: CrabTalkClient, daemon: CrabDaemon, config: Any) -> None:
    (daemon.home / ".crabtalk" / "local" / "agents" / "scout.md").write_text("You scout.")
    with pytest.raises(DaemonRefusedError, match="invalid AgentConfig JSON"):
        await client.create_agent("scout", json.dumps(config), timeout=SECONDS)
    assert (await client.create_agent("scout", {"model": None, "compact_threshold": None})).name == "scout"
    with pytest.raises(DaemonRefusedError, match="invalid AgentConfig JSON"):
        await client.update_agent("scout", json.dumps(config), timeout=SECONDS)


async def test_tools_that_fail(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: Any) -> str:
        raise ValueError("a bug")

    async def fails_later(_: Any) -> str:
        raise KeyError("another")

    own = script()
    for name in ("plain", "later", "number"):
        own.on(f"use {name}", calls=[Call(name, {})])
        own.on(after=name, text="I see.")
    tools: dict[str, Any] = {"plain": fails, "later": fails_later, "number": lambda _: 5}
    with FakeDaemon(own, tools=tools) as daemon:
        async with CrabTalkClient(daemon.address) as client:
            assert await output_of(client, "use plain") == "the tool failed: ValueError: a bug"
            assert await output_of(client, "use later") == "the tool failed: KeyError: 'another'"
            assert "the tool failed: TypeError" in await output_of(client, "use number")
            assert (await client.send("use plain", new_chat=True)).content == "I see."
            assert (await client.stats()).active_sessions == 0
    assert [record.getMessage() for record in caplog.records][:2] == [
        "the tool plain of a fake daemon failed",
        "the tool later of a fake daemon failed",
    ]


async def test_a_fake_daemon_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> pb.AgentInfo:
        raise ZeroDivisionError("a bug of its own")

    with FakeDaemon(script()) as daemon:
        async with CrabTalkClient(daemon.address) as client:
            with monkeypatch.context() as patched:
                patched.setattr(State, "agent_info", fails)
                for attempt in (client.agent("crab"), client.stream("hello").text()):
                    with pytest.raises(
                        DaemonRefusedError, match="500, the fake daemon failed: ZeroDivisionError: a bug"
                    ):
                        await attempt
            with pytest.raises(DaemonNotFoundError):
                await client.agent("nobody")
