"""A CrabTalk daemon with a scripted model behind it: the real one, in a home of its own.

:class:`curb_client.testing.fake_daemon.FakeDaemon` has the same attributes and methods, and the same script.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Protocol

from typing_extensions import Self

from curb_client._processes import CannotRunError, OutputTail, WatchedProgram, last_lines
from curb_client.crabtalk.addresses import PortFile, UnixAddress
from curb_client.crabtalk.errors import CrabDaemonError
from curb_client.model.endpoint.server import ModelEndpoint

if TYPE_CHECKING:
    from curb_client.model.endpoint.script import ModelScript

__all__ = ["CRABTALK_VERSION", "CrabDaemon", "RealDaemon", "cached_daemon", "find_daemon"]

CRABTALK_VERSION: Final = "0.0.18"
"""The version that speaks the protocol here; later ones dropped sessions."""
MODEL: Final = "fake-model"
READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0
_LOOK_EVERY: Final = 0.02
_DAEMON_OPTION: Final = "--foreground"
_GET_IT: Final = "`curb-client crab install` builds one; CRABTALK_BIN names one of yours"
_CONFIG: Final = """\
[provider.fake]
kind = "openai"
base_url = "{url}"
api_key = "any"
models = ["{model}"]
max_retries = 0
timeout = 30
[system.crab]
model = "{model}"
"""


class CrabDaemon(Protocol):
    """A daemon for a test; ``with`` it.

    Attributes:
        kind: which one it is. script: what its model answers; add rules at any time.
        home: its home directory; ``home / ".crabtalk"`` is what it reads and writes.
    """

    kind: Literal["real", "fake"]
    script: ModelScript
    home: Path

    @property
    def address(self) -> UnixAddress:
        """Its socket."""

    @property
    def port_file(self) -> PortFile:
        """Its other address: TCP."""

    def start(self) -> None:
        """Returns when it takes requests; after :meth:`stop`, with the same home."""

    def stop(self, *, kill: bool = False) -> None:
        """End it: it removes its socket and the file of its port. ``kill`` ends it as SIGKILL does: they stay."""

    def close(self) -> None:
        """End it, and remove its home."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def cached_daemon(env: Mapping[str, str] | None = None) -> Path:
    """Where ``curb-client crab install`` puts the daemon of this user."""
    env = os.environ if env is None else env
    home = Path(env.get("HOME") or env.get("USERPROFILE") or os.path.expanduser("~"))
    base = Path(env["XDG_CACHE_HOME"]) if env.get("XDG_CACHE_HOME") else home / ".cache"
    return base.absolute() / "curb-client" / f"crabtalk-{CRABTALK_VERSION}" / "bin" / "crabtalk"


def find_daemon(env: Mapping[str, str] | None = None) -> Path | None:
    """The daemon's program: the one that ``CRABTALK_BIN`` names, or that was built; None where there is none.

    Raises:
        CrabDaemonError: ``CRABTALK_BIN`` names no program, or another one.
    """
    env = os.environ if env is None else env
    named = env.get("CRABTALK_BIN")
    program = Path(named).expanduser().absolute() if named else cached_daemon(env)
    if not named and not program.exists():
        return None
    try:  # it tells no version
        run = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CrabDaemonError(f"{program} does not run: {error}. {_GET_IT}") from None
    if _DAEMON_OPTION not in run.stdout:
        raise CrabDaemonError(
            f"{program} has no option {_DAEMON_OPTION}: it is no crabtalk {CRABTALK_VERSION}. {_GET_IT}"
        )
    return program


class RealDaemon:
    """The program ``crabtalk``, with a model that answers as scripted; see :class:`CrabDaemon`.

    It really runs the commands that the script has it run.

    Args:
        script: of the model; it is asked for titles of sessions too, so it should not be strict.
        program: by default :func:`find_daemon`.

    Raises:
        CrabDaemonError: there is no such program.
    """

    kind: Literal["real", "fake"] = "real"

    def __init__(self, script: ModelScript, program: Path | None = None) -> None:
        found = program or find_daemon()
        if found is None:
            raise CrabDaemonError(f"there is no crabtalk here: {_GET_IT}")
        self.script = script
        self.endpoint = ModelEndpoint(script, models=(MODEL,))
        self.home = Path(tempfile.mkdtemp(prefix="curb-crab-"))
        (self.home / ".crabtalk" / "local" / "agents").mkdir(parents=True)
        self._program = found
        self._running: WatchedProgram | None = None
        self._log = OutputTail()

    @property
    def address(self) -> UnixAddress:
        return UnixAddress(self.home / ".crabtalk" / "run" / "crabtalk.sock")

    @property
    def port_file(self) -> PortFile:
        return PortFile(self.home / ".crabtalk" / "run" / "crabtalk.port")

    def __enter__(self) -> Self:
        try:
            self.endpoint.start()
            config = _CONFIG.format(url=self.endpoint.url, model=MODEL)
            (self.home / ".crabtalk" / "config.toml").write_text(config, encoding="utf-8")
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Raises CrabDaemonError: it ended, or does not listen within 30 s."""
        for left in (self.address.path, self.port_file.path):
            left.unlink(missing_ok=True)
        environment = {**os.environ, "HOME": str(self.home), "RUST_BACKTRACE": "0"}
        self._log = OutputTail()
        try:
            self._running = WatchedProgram(
                "server", self.home, [self._program, _DAEMON_OPTION], environment, self._log.pipe
            )
        finally:
            self._log.start()
        try:
            self._running.read_pid()
        except CannotRunError as error:
            raise CrabDaemonError(f"{self._program} could not be run: {str(error) or 'no reason given'}") from None
        deadline = time.monotonic() + READY_SECONDS
        while not _answers(self.address.path) or not self.port_file.path.exists():
            if self._running.exit_status is not None or time.monotonic() >= deadline:
                status = self._running.exit_status
                self._log.finish()
                raise CrabDaemonError(
                    f"{self._program} does not listen at {self.address} (exit status {status}). Its last lines:\n"
                    f"{last_lines(self._log.text())}"
                )
            time.sleep(_LOOK_EVERY)

    def stop(self, *, kill: bool = False) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        running.signal(signal.SIGKILL if kill else signal.SIGINT)
        deadline = time.monotonic() + STOP_SECONDS
        while running.exit_status is None and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        running.end(STOP_SECONDS)
        self._log.finish()

    def close(self) -> None:
        self.stop()
        self.endpoint.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def output_tail(self, lines: int = 20) -> str:
        """The last lines that it printed."""
        return last_lines(self._log.text(), lines)


def _answers(path: Path) -> bool:
    if sys.platform == "win32":
        return path.exists()
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
