"""A running LiveKit server: one of one's own, started and stopped here, or one that runs already."""

from __future__ import annotations

import abc
import asyncio
import atexit
import contextlib
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple

from typing_extensions import Self, Unpack

from curb_client.errors import LiveKitServerError
from curb_client.testing import tokens
from curb_client.testing.livekit_binary import find_or_install, reported_version, write_to_stderr

__all__ = [
    "ExternalLiveKitServer",
    "LiveKitAddress",
    "LiveKitServer",
    "LiveKitServerHandle",
    "Ports",
    "free_ports",
    "livekit_server",
]

READY_WITHIN = 15.0
ATTEMPTS = 5
ANSWER_WITHIN = 2.0
LOOK_EVERY = 0.02
WATCHDOG_WITHIN = 2.0
"""Seconds for the watchdog to end the server; by its own deadlines it takes 1 s at most."""
LOG_BYTES_KEPT = 64 * 1024
_TAKEN = ("address already in use", "Only one usage of each socket address")
if sys.platform == "win32":
    _NEW_GROUP = subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _NEW_GROUP = 0


class Ports(NamedTuple):
    """The three ports of a LiveKit server: TCP for signalling, TCP and UDP for WebRTC."""

    signal: int
    rtc_tcp: int
    rtc_udp: int


def free_ports() -> Ports:
    """Returns three ports that were free a moment ago."""
    with contextlib.ExitStack() as held:  # held together, so that all differ
        found = []
        # livekit-server takes its WebRTC TCP port on every interface
        for kind, host in (
            (socket.SOCK_STREAM, "127.0.0.1"),
            (socket.SOCK_STREAM, ""),
            (socket.SOCK_DGRAM, "127.0.0.1"),
        ):
            port = held.enter_context(socket.socket(socket.AF_INET, kind))
            port.bind((host, 0))
            found.append(int(port.getsockname()[1]))
        return Ports(*found)


@dataclass(frozen=True)
class LiveKitAddress:
    """What one needs to use a LiveKit server: its ``ws://`` or ``wss://`` URL, an API key and the key's secret."""

    url: str
    api_key: str
    api_secret: str = field(repr=False)

    def token(self, identity: str, room: str, **options: Unpack[tokens.TokenOptions]) -> str:
        """Returns a token with which ``identity`` can join ``room``; see :class:`~.tokens.TokenOptions`.

        Raises:
            LiveKitServerError: the package livekit-api is missing, or the identity or room is empty.
        """
        return tokens.join_token(self.api_key, self.api_secret, identity, room, **options)


class LiveKitServerHandle(abc.ABC):
    """A LiveKit server to use in a ``with`` or ``async with`` block."""

    def __init__(self) -> None:
        self._abort = threading.Event()

    @property
    @abc.abstractmethod
    def address(self) -> LiveKitAddress:
        """Where it runs and with which key; LiveKitServerError before the first ``start()``."""

    @property
    @abc.abstractmethod
    def version(self) -> str | None:
        """Such as ``1.13.5``; None where it cannot be told."""

    @abc.abstractmethod
    def start(self) -> None:
        """Returns once the server takes calls; raises LiveKitServerError if it does not within its deadline."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Ends what ``start()`` began; does nothing the second time."""

    @abc.abstractmethod
    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the server printed; empty where they cannot be had."""

    @property
    def url(self) -> str:
        """``address.url``."""
        return self.address.url

    @property
    def api_key(self) -> str:
        """``address.api_key``."""
        return self.address.api_key

    @property
    def api_secret(self) -> str:
        """``address.api_secret``."""
        return self.address.api_secret

    def token(self, identity: str, room: str, **options: Unpack[tokens.TokenOptions]) -> str:
        """``address.token(...)``."""
        return self.address.token(identity, room, **options)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._abort.set()  # the thread cannot be cancelled; told this, it soon ends with an error
            await asyncio.wait([starting])
            if not starting.cancelled() and starting.exception() is None:
                await asyncio.to_thread(self.stop)
            raise
        finally:
            self._abort.clear()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.stop))


class _PortTakenError(Exception):
    """One of the ports was taken between picking and using it."""


class LiveKitServer(LiveKitServerHandle):
    """A livekit-server of one's own on the loopback interface.

    It ends with the block, at the interpreter's exit, and when this process dies in whatever way. Started again
    after ``stop()`` it keeps its key, and its ports while they are free.

    Args:
        binary: the program; ``find_or_install()`` gives it at the start unless named.
        progress: takes each line that tells what goes on; None writes to standard error.
        pick_ports: gives the ports to try; called again, up to five times, where one is taken.
        ready_within: seconds that each start may take.
    """

    def __init__(
        self,
        binary: Path | None = None,
        *,
        progress: Callable[[str], None] | None = None,
        pick_ports: Callable[[], Ports] = free_ports,
        ready_within: float = READY_WITHIN,
    ) -> None:
        super().__init__()
        self._binary = None if binary is None else binary.absolute()
        self._progress = progress or write_to_stderr
        self._pick_ports = pick_ports
        self._ready_within = ready_within
        self._api_key = f"API{secrets.token_hex(6)}"
        self._api_secret = secrets.token_urlsafe(32)
        self._ports: Ports | None = None
        self._pid: int | None = None
        self._run: _Run | None = None
        self._last_log = ""

    @property
    def address(self) -> LiveKitAddress:
        return LiveKitAddress(f"ws://127.0.0.1:{self.ports.signal}", self._api_key, self._api_secret)

    @property
    def ports(self) -> Ports:
        """The ports it has, or had last; LiveKitServerError before the first ``start()``."""
        if self._ports is None:
            raise LiveKitServerError("This LiveKitServer has no ports yet: call start() first, or use a with block.")
        return self._ports

    @property
    def pid(self) -> int | None:
        """The server's process id; None while it does not run."""
        return self._run.server_pid if self._run else None

    @property
    def version(self) -> str | None:
        return None if self._binary is None else reported_version(self._binary)

    def start(self) -> None:
        if self._run is not None:
            raise LiveKitServerError(f"This LiveKitServer runs already at {self.url}; call stop() first.")
        if self._binary is None:
            self._binary = find_or_install(progress=self._progress, abort=self._abort)
        for attempt in range(1, ATTEMPTS + 1):
            ports = self._ports if self._ports and attempt == 1 else self._pick_ports()
            run = _Run(self._binary, ports, self._api_key, self._api_secret)
            try:
                run.wait_until_ready(self._ready_within, self._abort)
            except _PortTakenError as taken:
                self._last_log = run.end()
                self._progress(f"{taken}; trying other ports ({attempt} of {ATTEMPTS})")
                continue
            except BaseException:
                self._last_log = run.end()
                raise
            self._ports, self._run = ports, run
            _running.add(self)
            return
        raise LiveKitServerError(
            f"livekit-server found a port taken {ATTEMPTS} times in a row; see what takes ports on this machine, or "
            f"pass pick_ports. Its last lines:\n{self.log_tail()}"
        )

    def stop(self) -> None:
        run = self._run
        if run is None or run.owner != os.getpid():  # a forked child must not stop its parent's server
            return
        self._run = None
        _running.discard(self)
        self._last_log = run.end()

    def log_tail(self, lines: int = 20) -> str:
        return _last_lines(self._run.log() if self._run else self._last_log, lines)


_running: set[LiveKitServer] = set()


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop()


class _Run:
    """One livekit-server process under its watchdog, with a private directory for its settings and its log."""

    def __init__(self, binary: Path, ports: Ports, api_key: str, api_secret: str) -> None:
        self.owner = os.getpid()
        self.server_pid: int | None = None
        self._binary = binary
        self._address = LiveKitAddress(f"ws://127.0.0.1:{ports.signal}", api_key, api_secret)
        self._directory = Path(tempfile.mkdtemp(prefix="curb-livekit-"))
        self._log = self._directory / "server.log"
        config = self._directory / "livekit.yaml"
        config.write_text(json.dumps(_settings(ports, api_key, api_secret)), encoding="utf-8")  # JSON is YAML too
        watchdog = Path(__file__).with_name("_watchdog.py")
        with self._log.open("wb") as log:
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", "-S", watchdog, self._directory, binary, "--config", config],
                env=_server_environment(os.environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the clients, which leave first
                creationflags=_NEW_GROUP,
            )

    def wait_until_ready(self, within: float, abort: threading.Event) -> None:
        deadline = time.monotonic() + within
        token = tokens.list_rooms_token(self._address.api_key, self._address.api_secret)
        self.server_pid = self._read_pid()
        answer = Answer("nobody", "no answer")
        while time.monotonic() < deadline:
            if self._watchdog.poll() is not None:
                self._explain_end(self._watchdog.returncode)
            answer = ask_for_rooms(self._address.url, token)
            if answer.kind == "ready":
                return
            if answer.kind in ("stranger", "refused"):  # our key is known to our server alone
                raise _PortTakenError(f"another server answers at {self._address.url} ({answer.detail})")
            if abort.wait(LOOK_EVERY):
                raise LiveKitServerError("Stopped while livekit-server was starting: whoever asked for it gave up.")
        raise LiveKitServerError(
            f"{self._binary} was not ready at {self._address.url} within {within:g} s ({answer.detail}). Raise "
            f"ready_within if this machine is slow. Its last lines:\n{_last_lines(self.log())}"
        )

    def _read_pid(self) -> int:
        assert self._watchdog.stdout is not None
        line = self._watchdog.stdout.readline().decode(errors="replace").strip()
        if not line.isdecimal():
            reason = line.removeprefix("error ") or _last_lines(self.log()) or "no reason given"
            raise LiveKitServerError(f"{self._binary} could not be run: {reason}. Is it built for this machine?")
        return int(line)

    def _explain_end(self, status: int) -> None:
        log = self.log()
        for line in log.splitlines():
            if any(taken in line for taken in _TAKEN):  # livekit-server ends with status 0 then
                raise _PortTakenError(f"livekit-server could not have its ports ({line.strip()})")
        raise LiveKitServerError(
            f"{self._binary} ended with exit status {status} before it was ready. Its last lines:\n{_last_lines(log)}"
        )

    def end(self) -> str:
        """Ends the server within 3 s and returns what it printed last."""
        stdin, stdout = self._watchdog.stdin, self._watchdog.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            with contextlib.suppress(OSError):  # the watchdog may be gone with its server
                stdin.write(b".")
                stdin.flush()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._watchdog.wait(WATCHDOG_WITHIN)
        finally:
            if self._watchdog.poll() is None:
                self._kill_group()
            with contextlib.suppress(OSError):
                stdin.close()
            stdout.close()
            log = self.log()
            shutil.rmtree(self._directory, ignore_errors=True)
        return log

    def _kill_group(self) -> None:
        if sys.platform == "win32":
            self._watchdog.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended by itself
                os.killpg(self._watchdog.pid, signal.SIGKILL)
        self._watchdog.wait()

    def log(self) -> str:
        try:
            with self._log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - LOG_BYTES_KEPT))
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def _settings(ports: Ports, api_key: str, api_secret: str) -> dict[str, object]:
    return {
        "port": ports.signal,
        "bind_addresses": ["127.0.0.1"],
        "rtc": {
            "tcp_port": ports.rtc_tcp,
            "udp_port": ports.rtc_udp,
            "node_ip": "127.0.0.1",
            "use_external_ip": False,
            "enable_loopback_candidate": True,
            "ips": {"includes": ["127.0.0.1/32"]},  # without it UDP is bound on the other interfaces
            "stun_servers": [f"127.0.0.1:{ports.rtc_udp}"],  # else clients look up public ones
        },
        "room": {"auto_create": True, "empty_timeout": 30, "departure_timeout": 10},
        "logging": {"level": "info"},
        "keys": {api_key: api_secret},
    }


def _server_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Without the variables by which livekit-server would override the settings file."""
    overriding = ("NODE_IP", "UDP_PORT", "REDIS_HOST", "REDIS_PASSWORD")
    return {name: value for name, value in env.items() if not name.startswith("LIVEKIT_") and name not in overriding}


def _last_lines(text: str, count: int = 20) -> str:
    return "\n".join(text.splitlines()[-count:]) if count > 0 else ""


class ExternalLiveKitServer(LiveKitServerHandle):
    """A LiveKit server that runs already; ``start()`` only checks it, ``stop()`` leaves it alone.

    Args:
        address: its URL may begin with ``ws://``, ``wss://``, ``http://`` or ``https://``.
        answer_within: seconds that it may take to answer.

    Raises:
        LiveKitServerError: the URL is none.
    """

    def __init__(self, address: LiveKitAddress, *, answer_within: float = 10.0) -> None:
        super().__init__()
        scheme, separator, rest = address.url.partition("://")
        socket_scheme = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}.get(scheme.lower())
        if not (socket_scheme and separator and rest):
            raise LiveKitServerError(
                f"The URL of a LiveKit server is {address.url!r}; give one like ws://localhost:7880."
            )
        self._address = LiveKitAddress(f"{socket_scheme}://{rest.rstrip('/')}", address.api_key, address.api_secret)
        self._answer_within = answer_within

    @property
    def address(self) -> LiveKitAddress:
        return self._address

    @property
    def version(self) -> None:
        return None

    def start(self) -> None:
        token = tokens.list_rooms_token(self.api_key, self.api_secret)
        deadline = time.monotonic() + self._answer_within
        while True:
            answer = ask_for_rooms(self.url, token)
            if answer.kind == "ready":
                return
            if answer.kind == "refused":
                raise LiveKitServerError(
                    f"The LiveKit server at {self.url} does not accept the API key {self.api_key!r} with the secret "
                    f"given ({answer.detail}). Check CURB_LIVEKIT_API_KEY and CURB_LIVEKIT_API_SECRET."
                )
            if answer.kind == "stranger":
                raise LiveKitServerError(
                    f"What answers at {self.url} is not a LiveKit server ({answer.detail}). Check CURB_LIVEKIT_URL."
                )
            if time.monotonic() > deadline or self._abort.wait(0.1):
                raise LiveKitServerError(
                    f"No LiveKit server answered at {self.url} within {self._answer_within:g} s ({answer.detail}). "
                    "Start it, or unset CURB_LIVEKIT_URL to have one started for you."
                )

    def stop(self) -> None:
        """Leaves the server alone: it is not ours."""

    def log_tail(self, lines: int = 20) -> str:  # noqa: ARG002
        return ""


def livekit_server(*, progress: Callable[[str], None] | None = None) -> LiveKitServerHandle:
    """Returns a LiveKit server to use in a ``with`` or ``async with`` block.

    With ``CURB_LIVEKIT_URL`` set it is the one that runs there, otherwise one of its own, started with the block.

    Args:
        progress: takes each line that tells what goes on; None writes to standard error.

    Raises:
        LiveKitServerError: ``CURB_LIVEKIT_URL`` is set without ``CURB_LIVEKIT_API_KEY`` or ``CURB_LIVEKIT_API_SECRET``.
    """
    url = os.environ.get("CURB_LIVEKIT_URL")
    if not url:
        return LiveKitServer(progress=progress)
    names = ("CURB_LIVEKIT_API_KEY", "CURB_LIVEKIT_API_SECRET")
    key, secret = (os.environ.get(name, "") for name in names)
    missing = [name for name, value in zip(names, (key, secret), strict=True) if not value]
    if missing:
        raise LiveKitServerError(
            f"CURB_LIVEKIT_URL is {url!r}, but {' and '.join(missing)} is not set. "
            "Set it too, or unset CURB_LIVEKIT_URL to have a server started for you."
        )
    return ExternalLiveKitServer(LiveKitAddress(url, key, secret))


class Answer(NamedTuple):
    """Who answers at an address, and how it shows."""

    kind: Literal["ready", "not yet", "nobody", "refused", "stranger"]
    detail: str


def ask_for_rooms(url: str, token: str) -> Answer:
    """Finds out, within a few seconds, whether a LiveKit server at ``url`` is ready and knows the token's key."""
    base = "http" + url.removeprefix("ws")
    is_local = urllib.parse.urlsplit(base).hostname in ("127.0.0.1", "localhost", "::1")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local else []))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/twirp/livekit.RoomService/ListRooms", b"{}", headers)
    try:
        with opener.open(request, timeout=ANSWER_WITHIN) as response:
            reply = json.loads(response.read())
        if not (isinstance(reply, dict) and "rooms" in reply):
            return Answer("stranger", "it answers a request for its rooms with something else")
        with opener.open(base, timeout=ANSWER_WITHIN):
            return Answer("ready", "it knows the key")
    except urllib.error.HTTPError as error:
        with error:
            return _judge(error.code, error.read(300).decode(errors="replace").strip())
    except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
        return Answer("nobody", str(getattr(error, "reason", error)))
    except (http.client.HTTPException, ValueError) as error:
        return Answer("stranger", f"no sensible HTTP answer: {error!r}")


def _judge(status: int, body: str) -> Answer:
    detail = f"status {status}: {body}" if body else f"status {status}"
    if status in (401, 403):
        return Answer("refused", detail)
    if status == 406 or (status >= 500 and status != 501):  # 406 is how livekit-server says that it is not ready
        return Answer("not yet", detail)
    return Answer("stranger", detail)
