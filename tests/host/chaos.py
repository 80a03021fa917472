"""A LiveKit server, a runner and a host, each a process of its own that can be killed, and a call with traffic."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from livekit import rtc

from curb_client import Call, CurbError, join
from curb_client.errors import RunnerError
from curb_client.host import RunnerClient, RunnerProcess
from curb_client.testing import LiveKitAddress

CALL: Final = "call-42"
HANG_SECONDS: Final = 150.0
"""What takes longer hangs."""
RUNNER: Final = [sys.executable, "-m", "curb_client.cli", "runner", "tests.host.agent:agent"]
_HOST: Final = [sys.executable, "-m", "tests.host.chaos_host"]


class World:
    """All of it.

    Args:
        directory: for the host's files.
        livekit: ``embedded`` or ``server``.
        give_up: seconds after which the host gives up on a runner.
    """

    def __init__(self, directory: Path, livekit: str, give_up: float = HANG_SECONDS) -> None:
        self.cursor_file = directory / "cursor.json"
        self.log_file = directory / "log"
        self.errors_file = directory / "host-errors"
        self.failed_requests = 0
        self._choice = livekit
        self._give_up = give_up
        self._livekit: subprocess.Popen[str] | None = None
        self._host: subprocess.Popen[bytes] | None = None
        self._dead: set[str] = set()
        self._is_over = False
        self._traffic: list[asyncio.Task[None]] = []
        self._runners: list[RunnerProcess] = []
        self._address: LiveKitAddress | None = None

    # Starting

    async def start_livekit(self) -> LiveKitAddress:
        command = [sys.executable, "-m", "curb_client.cli", "server", f"--livekit={self._choice}"]
        server = self._livekit = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        assert server.stdout is not None
        told = [await asyncio.wait_for(asyncio.to_thread(server.stdout.readline), HANG_SECONDS) for _ in range(3)]
        self._address = LiveKitAddress(*(line.strip().partition("=")[2] for line in told))
        return self._address

    async def start_runner(self) -> RunnerProcess:
        """The first one anywhere, later ones at its address."""
        environment: dict[str, str] = {}
        if self._runners:
            first = self._runners[0]
            environment = {"CURB_MANAGEMENT_ADDRESS": first.address, "CURB_MANAGEMENT_TOKEN": first.token}
        process = RunnerProcess(RUNNER, environment=environment, stop_within=0.0)
        self._runners.append(process)
        await process.start()
        self._dead.discard("runner")
        return process

    def start_host(self) -> None:
        """A host that goes on where the last one's files say."""
        runner = self._runners[0]
        environment = {"CURB_MANAGEMENT_TOKEN": runner.token, "GIVE_UP_SECONDS": str(self._give_up)}
        with open(self.errors_file, "ab") as errors:
            self._host = subprocess.Popen(
                [*_HOST, runner.address, str(self.cursor_file), str(self.log_file)],
                env={**os.environ, **environment},
                stderr=errors,
                start_new_session=True,
            )
        self._dead.discard("host")

    async def start_call(self) -> None:
        """The call, with a caller and a host that never stop talking."""
        assert self._address is not None
        url = self._address.url
        runner = self._runners[0].client()
        token = self._address.token("agent", CALL, kind="agent")
        await runner.start_call(session_id=CALL, realtime_url=url, realtime_token=token)
        caller = join(url, self._address.token("caller", CALL))
        await asyncio.wait_for(caller.__aenter__(), HANG_SECONDS)
        await caller.agent.ask("echo", 0, timeout=30)
        self._traffic = [asyncio.ensure_future(self._talk(runner)), asyncio.ensure_future(self._ask(caller))]

    async def _talk(self, runner: RunnerClient) -> None:
        async with runner:
            for number in itertools.takewhile(lambda _: not self._is_over, itertools.count()):
                try:
                    await asyncio.wait_for(runner.send(CALL, "echo", {"n": number}, timeout=2), HANG_SECONDS)
                except RunnerError:
                    self.failed_requests += 1
                    await asyncio.sleep(0.1)
                await asyncio.sleep(0.02)

    async def _ask(self, caller: Call) -> None:
        try:
            for number in itertools.takewhile(lambda _: not self._is_over, itertools.count()):
                try:
                    await asyncio.wait_for(caller.agent.ask("echo", number, timeout=2), HANG_SECONDS)
                except (CurbError, rtc.RpcError):
                    self.failed_requests += 1
                    await asyncio.sleep(0.1)
                await asyncio.sleep(0.02)
        finally:
            await asyncio.wait_for(caller.__aexit__(None, None, None), HANG_SECONDS)

    # Killing

    def kill(self, victim: str) -> None:
        """SIGKILL, now."""
        pid = {
            "livekit": self._livekit.pid if self._livekit else None,
            "runner": self._runners[-1].pid,
            "host": self._host.pid if self._host else None,
        }[victim]
        assert pid is not None
        os.killpg(pid, signal.SIGKILL)
        self._dead.add(victim)
        if victim == "host":
            assert self._host is not None
            self._host.wait(HANG_SECONDS)

    async def survivors_go_on(self) -> None:
        """Who is left does what can be done without the dead."""
        if "runner" not in self._dead:
            async with self._runners[-1].client() as runner:
                await runner.status()
        if "host" in self._dead:
            return
        assert self._host is not None
        assert self._host.poll() is None, self.errors_file.read_text()
        if "runner" not in self._dead:
            before = len(self.log())
            await self.until(lambda: len(self.log()) >= before + 5, "the host gets the runner's records")

    # What came of it

    def log(self) -> list[dict[str, Any]]:
        """What the hosts wrote down, all of them."""
        text = self.log_file.read_text(encoding="utf-8") if self.log_file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def received(self) -> list[int]:
        """The envelopes in the log."""
        return [line["envelope"] for line in self.log() if "envelope" in line]

    def stored(self) -> int:
        """The cursor in the file."""
        if not self.cursor_file.exists():
            return 0
        return int(json.loads(self.cursor_file.read_text(encoding="utf-8"))["cursor"] or 0)

    def host_exit(self) -> int | None:
        assert self._host is not None
        return self._host.poll()

    async def until(self, is_so: Callable[[], bool], what: str, within: float = HANG_SECONDS) -> None:
        deadline = time.monotonic() + within
        while not is_so():
            errors = self.errors_file.read_text() if self.errors_file.exists() else ""
            assert time.monotonic() < deadline, f"not within {within:g} s: {what}\n{self.log()[-5:]}\n{errors}"
            for task in self._traffic:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)

    async def drain(self) -> None:
        """The last runner takes leave, and with it the host."""
        async with self._runners[-1].client() as runner:
            await runner.drain()
        await self.until(lambda: self.host_exit() is not None, "the host ends with the runner")
        assert self.host_exit() == 0, self.errors_file.read_text()
        assert self.log()[-1] == {"over": "ended"}

    async def aclose(self) -> None:
        self._is_over = True
        try:
            if self._traffic:
                ended, hanging = await asyncio.wait(self._traffic, timeout=HANG_SECONDS)
                assert not hanging, hanging
                for task in ended:
                    task.result()
        finally:
            await self._end_processes()

    async def _end_processes(self) -> None:
        for runner in self._runners:
            await runner.stop(drain=False)
        for process in (self._livekit, self._host):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(HANG_SECONDS)
                if process.stdout is not None:
                    process.stdout.close()


@contextlib.asynccontextmanager
async def world(directory: Path, livekit: str, **options: Any) -> AsyncIterator[World]:
    """Everybody, in the middle of a call."""
    directory.mkdir()
    made = World(directory, livekit, **options)
    try:
        await asyncio.gather(made.start_livekit(), made.start_runner())
        made.start_host()
        await made.start_call()
        await made.until(lambda: len(made.received()) >= 20 and made.stored() >= 5, "the first records, and a cursor")
        yield made
    finally:
        await made.aclose()
