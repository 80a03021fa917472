"""A runner's process, whatever it is written in (host protocol, The ready line)."""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from typing_extensions import Self

from curb_client._commands import runnable
from curb_client._processes import CannotRunError, OutputTail, WatchedProgram, last_lines
from curb_client.errors import RunnerError, RunnerProcessError, UsageError
from curb_client.host.client import RunnerClient
from curb_client.protocol.contract import LIFECYCLE_PREFIX
from curb_client.protocol.envelope import MalformedTextError
from curb_client.protocol.ndjson import LineSplitter
from curb_client.protocol.ready_line import read_lifecycle_line
from curb_client.protocol.records import LifecycleReady
from curb_client.room.arguments import check_timeout

__all__ = ["RunnerProcess"]

READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
DRAIN_SECONDS: Final = 3.0
SIGNAL_SECONDS: Final = 3.0
LOOK_EVERY: Final = 0.05
_START_SECONDS: Final = 10.0
_WATCHDOG_SECONDS: Final = 3.0
_MOST_LINE_BYTES: Final = 64 * 1024


class RunnerProcess:
    """A runner as a child process, started by ``async with`` or :meth:`start`, which return once it is ready.

    ::

        async with RunnerProcess(["curb-client", "runner", "my_agent:agent"]) as process, process.client() as runner:
            await runner.start_call(...)

    It ends with the block, at the interpreter's exit, and when this process dies in whatever way, and so does all that
    it started.

    Args:
        command: program and arguments, of any runner: ours, or one for Node.js.
        environment: more variables, the providers' keys for example. ``CURB_MANAGEMENT_TOKEN`` is a new secret unless
            it is given, and ``CURB_MANAGEMENT_ADDRESS`` a free port of 127.0.0.1.
        inherit: whether it gets this process's own variables too.
        cwd: the directory it runs in, by default this process's.
        ready_within: seconds.
        stop_within: seconds for its calls to end when it is stopped, after which they are cut.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        inherit: bool = True,
        cwd: str | os.PathLike[str] | None = None,
        ready_within: float = READY_SECONDS,
        stop_within: float = STOP_SECONDS,
    ) -> None:
        self._command = command
        own = dict(os.environ) if inherit else {}
        own.setdefault("PYTHONUNBUFFERED", "1")
        own["CURB_MANAGEMENT_TOKEN"] = secrets.token_urlsafe(24)
        own["CURB_MANAGEMENT_ADDRESS"] = "127.0.0.1:0"
        self._environment = {**own, **(environment or {})}
        self._directory = Path(cwd or ".").absolute()
        self._ready_within = check_timeout(ready_within, default=READY_SECONDS)
        self._stop_within = check_timeout(stop_within, default=STOP_SECONDS)
        self._program: WatchedProgram | None = None
        self._pid: int | None = None
        self._reader = _LifecycleReader()
        self._out: OutputTail | None = None
        self._log: OutputTail | None = None

    @property
    def token(self) -> str:
        """The runner's ``CURB_MANAGEMENT_TOKEN``."""
        return self._environment["CURB_MANAGEMENT_TOKEN"]

    @property
    def ready(self) -> LifecycleReady:
        """What the runner said when it was ready.

        Raises:
            UsageError: it was not started.
        """
        if self._reader.ready is None:
            raise UsageError(f"the process of {self} is not ready: await start() first")
        return self._reader.ready

    @property
    def address(self) -> str:
        """``127.0.0.1:7071``, from the ready line."""
        return self.ready.address

    def client(self) -> RunnerClient:
        """A client of this runner; close it."""
        return RunnerClient(self.address, self.token)

    @property
    def pid(self) -> int | None:
        """Its process id, which leads its process group too; None before the start, kept after the end."""
        return self._pid

    @property
    def exit_status(self) -> int | None:
        """None before the start and while it runs; 128 and the signal's number if a signal ended it."""
        return self._program.exit_status if self._program else None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._program is not None and self._program.exit_status is None

    def output_tail(self, lines: int = 20) -> str:
        """The last lines that it printed: on standard output those, then on standard error."""
        parts = (last_lines(tail.text(), lines) for tail in (self._out, self._log) if tail is not None)
        return "\n".join(part for part in parts if part)

    def __str__(self) -> str:
        return shlex.join(self._command)

    async def start(self) -> LifecycleReady:
        """Returns what the runner says once it is warm.

        Raises:
            UsageError: the command cannot be run, or this was started before.
            RunnerProcessError: it ended before, or is not ready in time, or its ready line does not fit; it is ended.
        """
        if self._program is not None:
            raise UsageError(f"the process of {self} was started before; make a new one")
        deadline = time.monotonic() + self._ready_within
        starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        try:
            await asyncio.shield(starting)
            return await self._until_ready(deadline)
        except BaseException:
            await asyncio.shield(self._end_after(starting))
            raise

    async def _end_after(self, starting: asyncio.Future[None]) -> None:
        """End what a thread may be about to start, as threads cannot be cancelled."""
        await asyncio.wait({starting}, timeout=_START_SECONDS)
        if starting.done() and not starting.cancelled():
            starting.exception()  # taken notice of
        await asyncio.to_thread(self._end)

    def _start(self) -> None:
        command, environment = runnable(self._command, self._environment, self._directory)
        self._out, self._log = out, log = OutputTail(self._reader.take), OutputTail()
        try:
            self._program = WatchedProgram("agent", self._directory, command, environment, log.pipe, out.pipe)
        finally:
            log.start()
            out.start()
        _running.add(self)
        try:
            self._pid = self._program.read_pid()
        except CannotRunError as error:
            raise UsageError(f"{command[0]} could not be run: {str(error) or 'no reason given'}") from None

    async def _until_ready(self, deadline: float) -> LifecycleReady:
        while self._reader.ready is None:
            if self._reader.problem is not None:
                raise self._error(f"printed a ready line that does not fit: {self._reader.problem}")
            if self.exit_status is not None:
                assert self._out is not None
                await asyncio.to_thread(self._out.finish)
                if self._reader.ready is None:
                    raise self._error(f"ended with exit status {self.exit_status} before it was ready")
            if time.monotonic() >= deadline:
                line = LIFECYCLE_PREFIX + '{"event":"ready",…}'
                raise self._error(f"printed no line {line!r} within {self._ready_within:g} s (ready_within)")
            await asyncio.sleep(LOOK_EVERY)
        return self._reader.ready

    def _error(self, what: str) -> RunnerProcessError:
        printed = self.output_tail()
        last = f"Its last lines:\n{printed}" if printed else "It printed nothing."
        return RunnerProcessError(f"the process of {self} {what}. {last}", exit_status=self.exit_status)

    async def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended.

        Raises:
            RunnerProcessError: not within ``timeout`` seconds, by default a day.
        """
        seconds = check_timeout(timeout, default=86_400.0)
        if not await self._ended_within(seconds):
            raise self._error(f"runs still after {seconds:g} s")
        assert self.exit_status is not None
        return self.exit_status

    async def stop(self, *, drain: bool = True) -> int | None:
        """Ends it and returns its exit status; does nothing where it does not run.

        It is asked to drain, and has ``stop_within`` seconds for its calls to end; then SIGTERM, and after 3 s SIGKILL
        for it and all that it started.

        Args:
            drain: False leaves out the first of these.
        """
        if self._program is None:
            return None
        try:
            if drain and self.is_running and self._reader.ready is not None and await self._drains():
                await self._ended_within(self._stop_within)
            if self.is_running:
                self._program.signal(signal.SIGTERM)
                await self._ended_within(SIGNAL_SECONDS)
        finally:
            await asyncio.shield(asyncio.to_thread(self._end))
        return self.exit_status

    async def _drains(self) -> bool:
        async with self.client() as runner:
            try:
                await runner.drain(timeout=DRAIN_SECONDS)
            except RunnerError:
                return self.exit_status is not None  # else it is signalled next
            return True

    async def _ended_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            if self.exit_status is not None or time.monotonic() >= deadline:
                return self.exit_status is not None
            await asyncio.sleep(LOOK_EVERY)

    def _end(self) -> None:
        program = self._program
        if self not in _running or program is None or program.owner != os.getpid():
            return  # a forked child must not end its parent's runner
        _running.discard(self)
        program.end(_WATCHDOG_SECONDS)
        for tail in (self._out, self._log):
            if tail is not None:
                tail.finish()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()


class _LifecycleReader:
    """Finds the ready line in what a thread reads."""

    def __init__(self) -> None:
        self.ready: LifecycleReady | None = None
        self.problem: str | None = None
        self._splitter = LineSplitter(_MOST_LINE_BYTES)

    def take(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            if not isinstance(line, bytes) or self.ready is not None:
                continue
            try:
                body = read_lifecycle_line(line.decode(errors="replace"))
            except MalformedTextError as error:
                self.problem = str(error)
            else:
                self.ready = body if isinstance(body, LifecycleReady) else None


_running: set[RunnerProcess] = set()


@atexit.register
def _end_all() -> None:
    for process in list(_running):
        process._end()
