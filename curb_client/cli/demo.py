"""The demo: a LiveKit server, an agent and an app, each a process of its own, and a table of what passed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import IO, Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from curb_client import CurbError, __version__
from curb_client.cli.demo_app import STEPS
from curb_client.testing import LiveKitServerHandle

__all__ = ["AGENT_COMMAND", "APP_COMMAND", "Report", "Step", "ms_since", "print_table", "run", "try_steps"]

AGENT_COMMAND = (sys.executable, "-m", "curb_client.cli.demo_agent")
APP_COMMAND = (sys.executable, "-m", "curb_client.cli.demo_app")
StageT = TypeVar("StageT")
StepOf = tuple[str, str, Callable[[StageT], Awaitable[str]]]

APP_SECONDS = 90.0
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Step:
    """One line of the table.

    Attributes:
        ms: how long it took, in milliseconds.
    """

    name: str
    expected: str
    got: str
    ms: float

    @property
    def ok(self) -> bool:
        return self.got == self.expected


@dataclass
class Report:
    """What the demo showed.

    Attributes:
        planned: how many steps there are when all goes well.
        scene: who is shown, for the table's title.
    """

    steps: list[Step] = field(default_factory=list)
    server: str = ""
    planned: int = len(STEPS) + 1
    scene: str = "An app and an agent in a room"

    @property
    def ok(self) -> bool:
        return len(self.steps) == self.planned and all(step.ok for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        versions = {"curb-client": __version__, "livekit": metadata.version("livekit")}
        steps = [{**asdict(step), "ok": step.ok} for step in self.steps]
        return {"ok": self.ok, "steps": steps, "server": self.server, "versions": versions}


def run(
    server: LiveKitServerHandle,
    *,
    agent_command: Sequence[str] | None = None,
    app_command: Sequence[str] | None = None,
) -> Report:
    """Start everything, watch, stop everything.

    Args:
        agent_command, app_command: other programs in place of the demo's own.
    """
    report = Report()
    started = time.monotonic()
    try:
        server.prepare()
        started = time.monotonic()
        with server:
            report.server = server.title
            report.steps.append(Step("server", "running", "running", ms_since(started)))
            _run_call(server, report, agent_command or AGENT_COMMAND, app_command or APP_COMMAND)
    except CurbError as error:
        report.steps.append(Step("server", "running", f"{type(error).__name__}: {error}", ms_since(started)))
    return report


def _run_call(
    server: LiveKitServerHandle, report: Report, agent_command: Sequence[str], app_command: Sequence[str]
) -> None:
    room = f"demo-{uuid.uuid4().hex[:8]}"
    agent = _Process(agent_command, server.url, server.token("agent", room, kind="agent"))
    app = _Process(app_command, server.url, server.token("app", room))
    try:
        app.process.wait(APP_SECONDS)
    except subprocess.TimeoutExpired:
        app.errors.append(f"the app was not done after {APP_SECONDS:g} s")
    finally:
        agent.stop()
        app.stop()
    told = [json.loads(line) for line in app.lines if line.startswith("{")]
    report.steps += [Step(**step) for step in told]
    if missing := [name for name, _, _ in STEPS][len(told) :]:
        why = f"the app ended before it; it said: {_last_words(app)}; the agent said: {_last_words(agent)}"
        report.steps += [Step(name, "a result", why, 0.0) for name in missing]


def _last_words(process: _Process) -> str:
    return " | ".join(process.errors[-5:]) or "nothing"


class _Process:
    """A child that is told its call by environment variables, and to end by the end of its standard input."""

    def __init__(self, command: Sequence[str], url: str, token: str) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "LIVEKIT_URL": url, "LIVEKIT_TOKEN": token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._readers = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def stop(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    @staticmethod
    def _read(stream: IO[str] | None, lines: list[str]) -> None:
        lines.extend(line.rstrip("\n") for line in stream or ())


def print_table(report: Report) -> None:
    """The report for people."""
    table = Table(
        title=f"{report.scene} of {report.server or 'a LiveKit server'}",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("")
    table.add_column("step", no_wrap=True)
    table.add_column("expected", overflow="fold")
    table.add_column("came", overflow="fold")
    table.add_column("ms", justify="right")
    for step in report.steps:
        mark = Text("ok", "green") if step.ok else Text("NOT OK", "bold red")
        table.add_row(mark, step.name, Text(step.expected), Text(step.got), f"{step.ms:.0f}")
    console = Console()
    console.print(table)
    passed = sum(step.ok for step in report.steps)
    console.print(f"{passed} of {report.planned} steps as expected.")


async def try_steps(report: Report, stage: StageT, steps: Iterable[StepOf[StageT]], within: float) -> None:
    """Go through steps, each a name, what is expected, and what brings it; a step that fails brings its error.

    Args:
        within: seconds for each.
    """
    for name, expected, step in steps:
        started = time.monotonic()
        try:
            got = await asyncio.wait_for(step(stage), within)
        except CurbError as error:  # before the next one: some are time-outs too
            got = _told(error)
        except asyncio.TimeoutError:
            got = f"not done within {within:g} s"
        except Exception as error:
            got = _told(error)
        report.steps.append(Step(name, expected, got, ms_since(started)))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def ms_since(started: float) -> float:
    """Milliseconds since a reading of the monotonic clock."""
    return round((time.monotonic() - started) * 1000, 1)
