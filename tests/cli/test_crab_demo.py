"""``curb-client crab-demo``: what it prints when all is well, and that each of its steps can fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import BaseModel

from curb_client.cli import crab_demo_steps
from curb_client.cli.commands import cli
from curb_client.cli.crab_demo_steps import NAMES, conversation
from curb_client.crabtalk import CrabTalkClient, DaemonTimeoutError, client
from curb_client.crabtalk.gateway import gateway
from curb_client.crabtalk.gateway.gateway import CrabGateway
from curb_client.crabtalk.gateway.sessions import Caller, Callers
from curb_client.model import ModelScript
from curb_client.testing import LiveKitServerHandle
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from curb_client.testing.fake_daemon.state import State
from tests.cli.test_demo import failed, key_of
from tests.crabtalk.conftest import real_daemon

Patch = pytest.MonkeyPatch


def run_demo(server: LiveKitServerHandle, *options: str, **env: str) -> Result:
    arguments = ["crab-demo", f"--livekit={server.url}", *options]
    return CliRunner().invoke(cli, arguments, env={**key_of(server), **env})


def report_of(result: Result) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(result.stdout)
    assert [step["name"] for step in report["steps"]] == list(NAMES)
    assert report["ok"] == all(step["ok"] for step in report["steps"]) == (result.exit_code == 0)
    return report


@pytest.mark.parametrize("daemon", ["fake", pytest.param("real", marks=pytest.mark.real_crabtalk)])
def test_all_steps(curb_livekit: LiveKitServerHandle, daemon: str) -> None:
    if daemon == "real":
        real_daemon().close()  # or skip
    report = report_of(run_demo(curb_livekit, "--json", f"--daemon={daemon}"))
    assert failed(report) == {}
    assert (report["ok"], report["daemon"]) == (True, daemon)


def test_people_get_a_table(curb_livekit: LiveKitServerHandle) -> None:
    result = run_demo(curb_livekit, "--daemon=fake")
    assert f"{len(NAMES)} of {len(NAMES)} steps as expected.\nThe daemon was the fake one." in result.stdout


def test_without_a_real_daemon(curb_livekit: LiveKitServerHandle, tmp_path: Path) -> None:
    nowhere = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CRABTALK_BIN": ""}
    result = run_demo(curb_livekit, "--json", "--daemon=real", **nowhere)
    assert result.exit_code == 1
    assert "there is no crabtalk here: `curb-client crab install` builds one" in result.stderr
    result = run_demo(curb_livekit, "--json", "--daemon=auto", **nowhere, CURB_DEMO="x")
    assert report_of(result)["daemon"] == "fake"
    result = run_demo(curb_livekit, "--daemon=auto", CRABTALK_BIN="/bin/true")
    assert result.exit_code == 1
    assert "/bin/true has no option --foreground" in result.stderr


# Broken


def no_ping(patch: Patch) -> None:
    async def ping(_: Any) -> None:
        raise DaemonTimeoutError("no pong", doing="ping", waited=0)

    patch.setattr(CrabTalkClient, "ping", ping)


def script_with(said: str, **answer: Any) -> Callable[[Patch], None]:
    def script(script: ModelScript) -> None:
        after = answer.pop("after", None)
        script.on(said or None, after=after, **answer)
        conversation(script)

    return lambda patch: patch.setattr(crab_demo_steps.run, "__defaults__", (script,))


def the_answer_is_another(patch: Patch) -> None:
    original = CrabTalkClient.reply_to_ask

    async def reply(self: CrabTalkClient, session: int, answer: Any) -> None:
        await original(self, session, "Postgres" if answer == {"Which database?": "SQLite"} else answer)

    patch.setattr(CrabTalkClient, "reply_to_ask", reply)


def updates_change_nothing(patch: Patch) -> None:
    async def update(self: CrabTalkClient, name: str, _: Any) -> Any:
        return await self.agent(name)

    patch.setattr(CrabTalkClient, "update_agent", update)


def schedules_are_sent_as_they_are(patch: Patch) -> None:
    patch.setattr(client, "daemon_schedule", lambda schedule: schedule)


def tools_are_not_told(patch: Patch) -> None:
    tell = State.tell

    def without_tools(self: State, session: Any, kind: Any, content: str = "") -> None:
        if not content.startswith("bash"):
            tell(self, session, kind, content)

    patch.setattr(State, "tell", without_tools)


def parts_are_wrong(patch: Patch) -> None:
    patch.setattr(gateway, "pieces", lambda text: iter([text[:100], text[200:]] if len(text) > 200 else [text]))


class Anything(BaseModel):
    content: str = "nothing"


def all_is_taken(patch: Patch) -> None:
    patch.setattr(gateway, "SayRequest", Anything)


def results_are_not_told(patch: Patch) -> None:
    async def nothing(*_: Any) -> None:
        """Nothing."""

    patch.setattr(CrabGateway, "_tell_result", nothing)


def questions_are_lost(patch: Patch) -> None:
    patch.setattr(gateway, "question_json", lambda event: {"session": event.session, "questions": [{"question": "?"}]})


def the_daemon_stays(patch: Patch) -> None:
    patch.setattr(FakeDaemon, "stop", lambda self, kill=False: None)
    patch.setattr(FakeDaemon, "start", _start_once(FakeDaemon.start))


def _start_once(start: Callable[[FakeDaemon], None]) -> Callable[[FakeDaemon], None]:
    started: set[int] = set()

    def once(self: FakeDaemon) -> None:
        if id(self) not in started:
            started.add(id(self))
            start(self)

    return once


def callers_are_not_known_again(patch: Patch) -> None:
    patch.setattr(Callers, "of", lambda self, identity: Caller(identity))
    patch.setattr(Callers, "is_there", lambda *_: True)


def nobody_is_freed(patch: Patch) -> None:
    async def nothing(*_: Any) -> None:
        """Nothing."""

    patch.setattr(Callers, "free", nothing)


def nothing_is_killed(patch: Patch) -> None:
    async def nothing(*_: Any, **__: Any) -> None:
        """Nothing."""

    patch.setattr(CrabTalkClient, "kill", nothing)


BROKEN: list[dict[str, tuple[Callable[[Patch], None], str]]] = [
    {
        "ping": (no_ping, "DaemonTimeoutError: no pong"),
        "a provider fails": (script_with("break down", text="I am well."), "I am well.; I am well."),
        "a question": (the_answer_is_another, "SQLite, Postgres; Postgres"),
        "agents": (updates_change_nothing, "A scout, 3 to 3"),
        "cron": (schedules_are_sent_as_they_are, "DaemonRefusedError: create_cron"),
        "events": (tools_are_not_told, "text_delta, tool_result"),
        "a long answer": (parts_are_wrong, "whole: False"),
        "bad requests": (all_is_taken, "{'stream'"),
    },
    {
        "ask": (script_with("good morning", text="Pardon?"), "Pardon? The session goes on: True"),
        "a caller asks": (callers_are_not_known_again, "Pardon? One session: False"),
        "a caller's stream": (results_are_not_told, "not done within 1.5 s"),
        "the daemon restarts": (the_daemon_stays, "Pardon?"),
    },
    {
        "a tool call": (script_with("", after="bash", text="Two files."), "bash, True: Let me look. Two files."),
        "a caller is asked": (questions_are_lost, "? "),
        "a caller leaves": (nobody_is_freed, "not done within 1.5 s"),
    },
    {"a caller's sessions": (nothing_is_killed, "1, True, 1")},
]


def test_every_step_is_broken_here() -> None:
    assert sorted(name for broken in BROKEN for name in broken) == sorted(NAMES)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: next(iter(broken)))
def test_each_step_can_fail(
    broken: dict[str, tuple[Callable[[Patch], None], str]], curb_livekit: LiveKitServerHandle, monkeypatch: Patch
) -> None:
    for patch, _ in broken.values():
        patch(monkeypatch)
    monkeypatch.setattr(crab_demo_steps, "STEP_SECONDS", 1.5)
    report = report_of(run_demo(curb_livekit, "--json", "--daemon=fake"))
    told = failed(report)
    assert report["ok"] is False
    assert {name: told.get(name) for name, (_, got) in broken.items() if not told.get(name, "").startswith(got)} == {}
