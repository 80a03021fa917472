"""``curb-client host-demo``: what it prints when all is well, and that each of its steps can fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from curb_client.cli import host_demo, host_demo_stage
from curb_client.cli.commands import cli
from curb_client.testing import LiveKitServerHandle
from tests.cli.test_demo import failed, key_of, run_command

NAMES = list(host_demo.NAMES)

ALONE = {
    "runner": "RunnerProcessError: the process of ",
    "two calls are placed": "accepted False, False",
    "both are connected": "call-a starting, call-b starting",
    "the stream is cut": "not within 3 s: every lead on record",
    "the host restarts": "not within 3 s: every lead on record",
}
"""Steps whose failure makes later ones fail too."""

TOGETHER = {
    "health": "ok True, version 1 of [1, 2]",
    "a wrong token": "answered ",
    "the same call again": "accepted True",
    "a third call": "generation_mismatch",
    "each client asks": "call-a, 13, None; call-b, 13, None",
    "the host sends to each": "call-a [{'door': 5}]; call-b [{'door': 6}]",
    "an agent asks the host": "call-a asked human.requested {'topic': 'refund'}; {'refund': 'denied'}",
    "a bad message": "handler_failed",
    "corrected, same id": "delivered False",
    "and again": "delivered True, scores [1]",
    "the id in the other call": "delivered False",
    "the host's settings": "voice 19, language de",
    "settings it may not change": "answered ",
    "the client's settings": "voice 19, language en",
    "a call is stopped": "stopped True, stopped; of no such call False",
    "the runner is drained": "active 7; runner_draining; call-b goes on",
    "the last caller leaves": "caller_left; ready, draining, ended; exit status 5",
    "the whole record": "holes [Gap(",
    "the schema": "a line of the stream is no PingLine: ping: 'now' is not of type 'number'",
}
"""Steps that fail each on its own: what comes in each, or how it begins."""

OTHERWISE = {"settings it may not either": "answered "}
"""A step that another one's way of failing would hide."""

Demo = Callable[..., Result]


@pytest.fixture
def run_demo(livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """Runs the command on the server of the tests, with a runner that is broken in these steps."""

    def run(*options: str, broken: tuple[str, ...] = ()) -> Result:
        if broken:
            command = (sys.executable, "-m", "tests.cli.broken_runner", *broken)
            monkeypatch.setattr(host_demo, "RUNNER_COMMAND", command)
        return CliRunner().invoke(cli, ["host-demo", f"--livekit={livekit.url}", *options], env=key_of(livekit))

    return run


def report_of(result: Result) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(result.stdout)
    assert [step["name"] for step in report["steps"]] == NAMES
    assert report["ok"] == all(step["ok"] for step in report["steps"]) == (result.exit_code == 0)
    return report


def test_as_json_it_is_one_object_and_status_0() -> None:
    run = run_command("host-demo", "--json")
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads(run.stdout)
    assert report["ok"] is True
    assert [step["name"] for step in report["steps"]] == NAMES
    assert all(step["ok"] and step["got"] == step["expected"] for step in report["steps"])
    assert report["server"].startswith("the embedded server")


def test_people_get_a_table(run_demo: Demo) -> None:
    result = run_demo()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("A runner, its host and two calls in rooms of ")
    assert lines[-1] == f"{len(NAMES)} of {len(NAMES)} steps as expected."
    rows = [line.strip() for line in lines if line.startswith("  ok ")]
    assert [row for row, name in zip(rows, NAMES, strict=True) if not row.startswith(f"ok   {name} ")] == []


def test_every_step_is_broken_here() -> None:
    assert sorted(["server", *ALONE, *TOGETHER, *OTHERWISE]) == sorted(NAMES)


@pytest.mark.parametrize("broken", [TOGETHER, OTHERWISE], ids=["many", "one more"])
def test_broken_steps_are_told(run_demo: Demo, broken: dict[str, str]) -> None:
    result = run_demo("--json", broken=tuple(broken))
    assert result.exit_code == 1, result.output
    told = failed(report_of(result))
    assert list(told) == list(broken), told
    assert {name: got for name, got in told.items() if not got.startswith(broken[name])} == {}


@pytest.mark.parametrize("name", ["runner", "two calls are placed", "both are connected"])
def test_without_the_first_steps_no_others_are_tried(
    run_demo: Demo, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "both are connected":
        monkeypatch.setattr(host_demo, "STEP_SECONDS", 6.0)
    result = run_demo("--json", broken=(name,))
    assert result.exit_code == 1, result.output
    told = failed(report_of(result))
    assert list(told) == NAMES[NAMES.index(name) :]
    assert told[name].startswith(ALONE[name]), told[name]
    rest = [told[later] for later in list(told)[1:]]
    assert all(got.startswith("not tried: ") for got in rest)
    if name == "runner":
        assert "no time for calls" in told[name]


@pytest.mark.parametrize("name", ["the stream is cut", "the host restarts"])
def test_records_that_do_not_come_are_told(run_demo: Demo, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(host_demo_stage, "WAIT_SECONDS", 3.0)
    result = run_demo("--json", broken=(name,))
    assert result.exit_code == 1, result.output
    told = failed(report_of(result))
    assert told[name] == ALONE[name]
    assert "Gap(" in told["the whole record"]
    assert set(told) <= {*ALONE, "the whole record"}


def test_a_server_that_dies_is_told(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\necho cannot find my hat\nexit 3\n")
    program.chmod(0o755)
    env = {"CURB_LIVEKIT_SERVER": str(program)}
    result = CliRunner().invoke(cli, ["host-demo", "--livekit=server", "--json"], env=env)
    assert result.exit_code == 1, result.output
    assert "cannot find my hat" in failed(json.loads(result.stdout))["server"]
