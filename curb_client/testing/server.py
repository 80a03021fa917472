"""A running LiveKit server: one of one's own, started and stopped here, or one that runs already."""

from __future__ import annotations

import abc
import asyncio
import atexit
import functools
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from typing_extensions import Self, Unpack

from curb_client._processes import last_lines
from curb_client.errors import LiveKitServerError, UsageError
from curb_client.testing import tokens
from curb_client.testing._key_check import ask_for_rooms
from curb_client.testing._server_process import Ports, PortTakenError, ServerProcess, free_ports
from curb_client.testing.binary import find_or_install, reported_version, write_to_stderr

if TYPE_CHECKING:
    from curb_client.testing.embedded.faults import Faults

__all__ = [
    "ExternalLiveKitServer",
    "LiveKitAddress",
    "LiveKitServer",
    "LiveKitServerHandle",
    "Ports",
    "free_ports",
    "livekit_server",
]

DEFAULT_LIVEKIT: Final = "embedded"
CHOICES: Final = "'embedded', 'server' or the URL of one that runs"
READY_WITHIN = 15.0
ATTEMPTS = 5


def no_faults(title: str) -> str:
    """Why nothing can be made to go wrong on a server, and what to do."""
    return (
        f"faults are made by the embedded server alone, and this run is on {title}: run the test with "
        "--livekit=embedded, or skip it elsewhere"
    )


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

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"livekit-server {self.version}" if self.version else self.url

    def prepare(self) -> None:  # noqa: B027 - one that runs already needs none
        """Gets the program, which may take minutes once; ``start()`` does it too. Raises LiveKitServerError."""

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
    def faults(self) -> Faults:
        """What can be made to go wrong on the embedded server.

        Raises:
            UsageError: it is another one.
        """
        raise UsageError(no_faults(self.title))

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
        self._run: ServerProcess | None = None
        self._last_log = ""
        self._reported_version = functools.cache(reported_version)  # it runs the program

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
        return None if self._binary is None else self._reported_version(self._binary)

    def prepare(self) -> None:
        self._found_binary()

    def _found_binary(self) -> Path:
        if self._binary is None:
            self._binary = find_or_install(progress=self._progress, abort=self._abort)
        return self._binary

    def start(self) -> None:
        if self._run is not None:
            raise LiveKitServerError(f"This LiveKitServer runs already at {self.url}; call stop() first.")
        binary = self._found_binary()
        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            ports = self._ports if self._ports and attempt == 1 else self._pick_ports()
            run = ServerProcess(binary, ports, self._api_key, self._api_secret)
            try:
                run.wait_until_ready(self._ready_within, self._abort)
            except PortTakenError as taken:
                self._last_log = run.end()
                reason = str(taken)
                self._progress(f"{reason}; trying other ports ({attempt} of {ATTEMPTS})")
                continue
            except BaseException:
                self._last_log = run.end()
                raise
            self._ports, self._run = ports, run
            _running.add(self)
            return
        raise LiveKitServerError(
            f"livekit-server found a port taken {ATTEMPTS} times in a row, the last time because {reason}. See what "
            f"takes ports on this machine, or pass pick_ports. Its last lines:\n{self.log_tail()}"
        )

    def stop(self) -> None:
        run = self._run
        if run is None or run.owner != os.getpid():  # a forked child must not stop its parent's server
            return
        self._run = None
        _running.discard(self)
        self._last_log = run.end()

    def log_tail(self, lines: int = 20) -> str:
        return last_lines(self._run.log() if self._run else self._last_log, lines)


_running: set[LiveKitServer] = set()


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop()


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


def livekit_server(choice: str | None = None, *, progress: Callable[[str], None] | None = None) -> LiveKitServerHandle:
    """Returns a LiveKit server to use in a ``with`` or ``async with`` block.

    Args:
        choice: ``embedded`` for one inside this process, ``server`` for a livekit-server, started with the block; the
            URL (``ws://…``) of one that runs; by default that of ``CURB_LIVEKIT_URL`` where it is set, else
            :data:`DEFAULT_LIVEKIT`.
        progress: takes each line that tells what goes on; None writes to standard error.

    Raises:
        LiveKitServerError: the choice is neither, or a URL comes without ``CURB_LIVEKIT_API_KEY`` or
            ``CURB_LIVEKIT_API_SECRET``.
    """
    url = os.environ.get("CURB_LIVEKIT_URL") or DEFAULT_LIVEKIT if choice is None else choice
    if url == "server":
        return LiveKitServer(progress=progress)
    if url == "embedded":
        from curb_client.testing.embedded import EmbeddedServer

        return EmbeddedServer()
    source = "CURB_LIVEKIT_URL" if choice is None else "the choice of a LiveKit server"
    if "://" not in url:
        raise LiveKitServerError(f"{source} is {url!r}; give {CHOICES}, like ws://localhost:7880.")
    names = ("CURB_LIVEKIT_API_KEY", "CURB_LIVEKIT_API_SECRET")
    key, secret = (os.environ.get(name, "") for name in names)
    missing = [name for name, value in zip(names, (key, secret), strict=True) if not value]
    if missing:
        raise LiveKitServerError(
            f"{source} is {url!r}, but {' and '.join(missing)} is not set. "
            "Set it too, or name no URL to have a server started for you."
        )
    return ExternalLiveKitServer(LiveKitAddress(url, key, secret))
