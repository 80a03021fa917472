"""``curb-client demo``: what it prints when all is well, and that each of its steps can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from curb_client import __version__
from curb_client.cli import demo
from curb_client.cli.commands import cli
from curb_client.cli.demo_app import STEPS
from curb_client.testing import LiveKitServerHandle

NAMES = ["server", *(name for name, _, _ in STEPS)]
BROKEN = {
    "agent joins": "TimeoutError: not done within 1 s",
    "send": "AgentRefusedError: handler_failed",
    "ask": '{"plan": "basic", "price": 13}',
    "message from the agent": '{"fields": ["age"]}',
    "update accepted": "kugelaudio voice 18",
    "update refused": "answered ",
    "invalid payload": 'answered {"plan": 3, "price": 12}',
    "no handler": "answered null",
    "failing handler": "answered null",
    "15,360 bytes": "AgentRefusedError: handler_failed",
    "15,361 bytes": "answered null",
    "absent agent": "taken",
}
"""What comes in each step when that is broken, or how it begins."""

Demo = Callable[..., Result]


@pytest.fixture
def run_demo(livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """Runs the command on the server of the tests, with a broken agent or app in place of the demo's own."""

    def run(*options: str, agent: str | None = None, app: str | None = None) -> Result:
        if agent is not None:
            monkeypatch.setattr(demo, "AGENT_COMMAND", (sys.executable, "-m", "tests.cli.broken_agent", agent))
        if app is not None:
            monkeypatch.setattr(demo, "APP_COMMAND", (sys.executable, "-m", "tests.cli.broken_app", app))
        return CliRunner().invoke(cli, ["demo", f"--livekit={livekit.url}", *options], env=key_of(livekit))

    return run


def key_of(livekit: LiveKitServerHandle) -> dict[str, str]:
    return {"CURB_LIVEKIT_API_KEY": livekit.api_key, "CURB_LIVEKIT_API_SECRET": livekit.api_secret}


def report_of(result: Result) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(result.stdout)
    assert [step["name"] for step in report["steps"]] == NAMES
    assert report["ok"] == all(step["ok"] for step in report["steps"]) == (result.exit_code == 0)
    return report


def failed(report: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["got"] for step in report["steps"] if not step["ok"]}


def run_command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "curb_client.cli", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )


# All is well


@pytest.mark.parametrize(
    ("options", "server"),
    [([], "the embedded server, like livekit-server "), (["--livekit=server"], "livekit-server ")],
    ids=["default", "server"],
)
def test_as_json_it_is_one_object_and_status_0(options: list[str], server: str) -> None:
    run = run_command("demo", "--json", *options)
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["ok"] is True
    assert [step["name"] for step in report["steps"]] == NAMES
    for step in report["steps"]:
        assert step["ok"] is True
        assert step["got"] == step["expected"]
        assert 0 <= step["ms"] < 60_000
    assert report["versions"]["curb-client"] == __version__
    assert report["server"].startswith(server)


def test_it_needs_no_program_and_gets_none(tmp_path: Path) -> None:
    """Neither Go nor livekit-server: nothing is on the PATH, and the cache stays empty."""
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    env = {name: str(nothing) for name in ("PATH", "HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "CURB_LIVEKIT_SERVER")}
    run = run_command("demo", "--json", **env)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["ok"] is True
    assert list(nothing.iterdir()) == []


def test_the_table_names_every_step(run_demo: Demo) -> None:
    result = run_demo()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[-1] == "13 of 13 steps as expected."
    rows = [line.strip() for line in lines if line.startswith("  ok ")]
    assert [row for row, name in zip(rows, NAMES, strict=True) if not row.startswith(f"ok   {name} ")] == []


# One thing is broken


def test_every_step_is_broken_here() -> None:
    assert ["server", *BROKEN] == NAMES


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_step_is_told(run_demo: Demo, name: str) -> None:
    ways = {"15,361 bytes": "large requests pass", "agent joins": "impatient"}
    result = run_demo("--json", agent=name, app=ways.get(name))
    assert result.exit_code == 1, result.output
    told = failed(report_of(result))
    assert told[name].startswith(BROKEN[name]), told
    if name == "agent joins":
        rest = told["update accepted"]
        assert "it said: the other steps need an agent; the agent said: no time for this call" in rest
        assert ["server", *told] == NAMES
    else:
        assert list(told) == [name]


def test_a_broken_step_is_told_in_the_table(run_demo: Demo) -> None:
    result = run_demo(agent="ask")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "12 of 13 steps as expected."
    (row,) = [line for line in result.stdout.splitlines() if "NOT OK" in line]
    assert row.strip().startswith("NOT OK   ask ")


@pytest.mark.parametrize("options", [["--json"], []], ids=["json", "table"])
def test_a_server_that_dies_is_told(tmp_path: Path, options: list[str]) -> None:
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\necho cannot find my hat\nexit 3\n")
    program.chmod(0o755)
    env = {"CURB_LIVEKIT_SERVER": str(program), "COLUMNS": "400"}
    result = CliRunner().invoke(cli, ["demo", "--livekit=server", *options], env=env)
    assert result.exit_code == 1, result.output
    assert "ended with exit status 3 before it was ready" in result.stdout
    assert "cannot find my hat" in result.stdout
    if options:
        report = json.loads(result.stdout)
        assert report["ok"] is False
        assert list(failed(report)) == ["server"]
    else:
        assert result.stdout.splitlines()[-1] == "0 of 13 steps as expected."


def test_a_key_that_the_server_does_not_know_is_told(livekit: LiveKitServerHandle) -> None:
    env = {**key_of(livekit), "CURB_LIVEKIT_API_SECRET": "mistaken"}
    result = CliRunner().invoke(cli, ["demo", "--json", f"--livekit={livekit.url}"], env=env)
    assert result.exit_code == 1
    assert "does not accept the API key" in failed(json.loads(result.stdout))["server"]


def test_an_app_that_crashes_leaves_the_rest_untried(run_demo: Demo) -> None:
    told = failed(report_of(run_demo("--json", app="crashes")))
    assert list(told) == NAMES[3:]
    assert all("the app ended before it; it said: out of ideas" in got for got in told.values())


def test_an_app_that_hangs_is_ended(run_demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "APP_SECONDS", 3.0)
    monkeypatch.setattr(demo, "STOP_SECONDS", 0.5)
    told = failed(report_of(run_demo("--json", app="hangs")))
    assert list(told)[-10:] == NAMES[3:]  # and those before it on a machine that takes 3 s to start the programs
    assert all("the app was not done after 3 s" in got for got in told.values())


# The command line


def test_the_version_is_told() -> None:
    run = run_command("--version")
    assert (run.returncode, run.stdout) == (0, f"curb-client {__version__}\n")


@pytest.mark.parametrize("choice", ["nonsense", "localhost:7880", ""])
def test_what_is_no_server_is_a_usage_error(choice: str) -> None:
    result = CliRunner().invoke(cli, ["demo", f"--livekit={choice}"])
    assert result.exit_code == 2
    assert f"is {choice!r}; give 'embedded', 'server' or the URL of one that runs" in " ".join(result.output.split())


def test_a_url_without_a_host_is_a_usage_error() -> None:
    key = {"CURB_LIVEKIT_API_KEY": "key", "CURB_LIVEKIT_API_SECRET": "secret"}
    result = CliRunner().invoke(cli, ["demo", "--livekit=ws://"], env=key)
    assert result.exit_code == 2
    assert "give one like ws://localhost:7880" in result.output


@pytest.mark.parametrize(
    ("options", "env"),
    [
        (["--livekit=ws://127.0.0.1:1"], {}),
        (["--livekit=http://127.0.0.1:1"], {}),
        (["--livekit=ws://127.0.0.1:1"], {"CURB_LIVEKIT_API_KEY": "key"}),
        ([], {"CURB_LIVEKIT_URL": "ws://127.0.0.1:1"}),
    ],
    ids=["neither", "http", "no secret", "URL in the environment"],
)
def test_a_missing_key_is_a_usage_error(options: list[str], env: dict[str, str]) -> None:
    result = CliRunner().invoke(cli, ["demo", *options], env=env)
    assert result.exit_code == 2
    assert "CURB_LIVEKIT_API_SECRET is not set" in " ".join(result.output.split())


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from curb_client.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert run.stderr == f"curb-client needs the package {package}; install it: pip install 'curb-client[cli]'\n"
