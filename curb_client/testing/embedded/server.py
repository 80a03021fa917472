"""A LiveKit server inside this process."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from typing_extensions import Self, Unpack

from curb_client.errors import LiveKitServerError, UsageError
from curb_client.testing.embedded.fault_table import FaultTable
from curb_client.testing.embedded.faults import Faults
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.options import LIVEKIT_VERSION, Options, OptionValues
from curb_client.testing.server import LiveKitAddress, LiveKitServerHandle

if TYPE_CHECKING:
    from curb_client.testing.embedded.node import Node

__all__ = ["EmbeddedServer"]

HOST: Final = "127.0.0.1"
START_WITHIN: Final = 15.0
STOP_WITHIN: Final = 10.0
CALL_WITHIN: Final = 10.0
PORT_BACK_WITHIN: Final = 5.0
"""Seconds for a port that the server had before: a client that tries to come back may get it as its own."""

T = TypeVar("T")


class EmbeddedServer(LiveKitServerHandle):
    """A server that behaves like livekit-server with data only: no program, no container, no network.

    ``async with EmbeddedServer() as server`` runs it in the loop that runs; ``with EmbeddedServer() as server``, or
    ``start()`` and ``stop()``, in a thread of its own, for tests that are not async and for other processes. It keeps
    its key and its port when it is started again.

    Args:
        api_key, api_secret: what tokens have to be signed with; random ones of its own unless given.
        port: of 127.0.0.1, for signalling; any that is free unless given.
        options: see :class:`Options`, such as ``state_batch=3``.

    Raises:
        UsageError: the port is none, or an option is no time.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        api_secret: str | None = None,
        port: int = 0,
        **options: Unpack[OptionValues],
    ) -> None:
        super().__init__()
        if not 0 <= port <= 65535:
            raise UsageError(f"the port of an embedded server is {port!r}; give 1 to 65535, or 0 for any")
        self._api_key = api_key or f"API{secrets.token_hex(6)}"
        self._api_secret = api_secret or secrets.token_urlsafe(32)
        self._port = port
        self._options = Options(**options)
        self._journal = Journal()
        self._fault_table = FaultTable()
        self._faults = Faults(self, self._fault_table, self._journal.write)
        self._has_run = False
        self._node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: _ServerThread | None = None
        self._owner = os.getpid()

    @property
    def address(self) -> LiveKitAddress:
        if not self._has_run:
            raise LiveKitServerError("This EmbeddedServer has no port yet: start() it first, or use a with block.")
        return LiveKitAddress(f"ws://{HOST}:{self._port}", self._api_key, self._api_secret)

    @property
    def version(self) -> str:
        """The version of livekit-server that it behaves like."""
        return LIVEKIT_VERSION

    @property
    def title(self) -> str:
        return f"the embedded server, like livekit-server {LIVEKIT_VERSION}"

    def log_tail(self, lines: int = 20) -> str:
        """The last lines on who came and went, and why, and on what was wrong with what clients sent."""
        return self._journal.tail(lines)

    # In a thread of its own

    def prepare(self) -> None:
        """Loads what it needs; ``start()`` does it too. Raises LiveKitServerError where that is not installed."""
        _node_class()

    def start(self) -> None:
        """Returns once the server takes calls, in a thread of its own.

        Raises:
            LiveKitServerError: it runs already, its port is taken, or a package is missing.
        """
        self._check_not_running()
        self.prepare()
        thread = _ServerThread(self._start_node)
        self._node = thread.start()
        self._thread = thread
        _running.add(self)

    def stop(self) -> None:
        """Ends what ``start()`` began, and tells the participants to leave; does nothing the second time.

        Raises:
            LiveKitServerError: it runs in an ``async with`` block, whose end it is then.
        """
        self._stop_thread(told=True)

    def kill(self) -> None:
        """Ends what ``start()`` began like a killed process: nobody is told, and clients try to come back."""
        self._stop_thread(told=False)

    def _stop_thread(self, *, told: bool) -> None:
        if self._owner != os.getpid():  # a forked child has no thread of its parent's
            return
        if self._node is not None and self._thread is None:
            raise LiveKitServerError("This EmbeddedServer runs in an async with block: leave the block to stop it.")
        node, self._node = self._node, None
        thread, self._thread = self._thread, None
        _running.discard(self)
        if node is not None and thread is not None:
            thread.stop(told=told)

    # In the loop that runs

    async def __aenter__(self) -> Self:
        self._check_not_running()
        self._node = await self._start_node()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        node, self._node = self._node, None
        if node is not None:
            await asyncio.shield(node.stop())

    # Both

    @property
    def is_running(self) -> bool:
        """Whether it has been started and not stopped."""
        return self._node is not None

    @property
    def faults(self) -> Faults:
        """What can be made to go wrong."""
        return self._faults

    @property
    def node(self) -> Node:
        """The parts of the server that runs, for its own loop only; see :meth:`call`.

        Raises:
            LiveKitServerError: it does not run.
        """
        if self._node is None:
            raise LiveKitServerError("This EmbeddedServer does not run: start() it first, or use a with block.")
        return self._node

    def call(self, function: Callable[[Node], T]) -> T:
        """What ``function`` returns, called in the loop in which the server runs, from this thread or any other.

        Raises:
            LiveKitServerError: it does not run.
        """
        node, loop = self.node, self._loop
        assert loop is not None
        if _running_loop() is loop:
            return function(node)

        async def run() -> T:
            return function(node)

        return asyncio.run_coroutine_threadsafe(run(), loop).result(CALL_WITHIN)

    async def restart(self, seconds: float = 0.0) -> None:
        """Ends the server like :meth:`kill`, and starts it again so many seconds later: all its rooms are gone.

        Raises:
            LiveKitServerError: it does not run, or in the ``async with`` block of another loop.
        """
        node = self.node
        if self._thread is not None:
            await asyncio.to_thread(self.kill)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.start)
        elif self._loop is asyncio.get_running_loop():
            self._node = None
            await node.stop(told=False)
            await asyncio.sleep(seconds)
            self._node = await self._start_node()
        else:
            raise LiveKitServerError("This EmbeddedServer runs in the loop of an async with block: restart it there.")

    def _check_not_running(self) -> None:
        if self._node is not None:
            raise LiveKitServerError(f"This EmbeddedServer runs already at {self.url}; stop it first.")

    async def _start_node(self) -> Node:
        start = _node_class().start
        given_up = time.monotonic() + (PORT_BACK_WITHIN if self._has_run else 0)
        while True:
            try:
                node = await start(
                    self._api_key, self._api_secret, self._options, self._journal, self._port, self._fault_table
                )
                break
            except OSError as error:
                if time.monotonic() >= given_up:
                    raise LiveKitServerError(
                        f"The embedded LiveKit server could not listen at {HOST}:{self._port or 'any port'}: {error}"
                    ) from error
            await asyncio.sleep(0.02)
        self._port = node.port
        self._loop = asyncio.get_running_loop()
        self._has_run = True
        return node


def _node_class() -> type[Node]:
    """Loaded when a server starts: it takes 0.4 s once, and packages that a client does not need."""
    try:
        from curb_client.testing.embedded.node import Node
    except ImportError as error:
        raise LiveKitServerError(
            f"The embedded LiveKit server needs packages that are not installed ({error}): "
            "pip install 'curb-client[testing]'"
        ) from error
    return Node


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _ServerThread:
    """A thread with an event loop of its own, in which one node runs."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Node]]) -> None:
        self._start = start
        self._started: concurrent.futures.Future[Node] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._told = True
        self._thread = threading.Thread(target=self._run, name="curb-embedded-livekit", daemon=True)

    def start(self) -> Node:
        """Returns when the node runs; raises what keeps it from it."""
        self._thread.start()
        try:
            return self._started.result(START_WITHIN)
        except concurrent.futures.TimeoutError:
            self.stop(told=False)
            raise LiveKitServerError(f"The embedded LiveKit server did not start in {START_WITHIN:g} s.") from None
        except BaseException:
            self._thread.join(STOP_WITHIN)
            raise

    def stop(self, *, told: bool) -> None:
        """Returns when the thread has ended."""
        self._told = told
        if self._loop is not None and self._end is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(STOP_WITHIN)
        if self._thread.is_alive():
            raise LiveKitServerError(f"The embedded LiveKit server did not end within {STOP_WITHIN:g} s.")

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        node = await self._start()
        self._started.set_result(node)
        await self._end.wait()
        await node.stop(told=self._told)


_running: weakref.WeakSet[EmbeddedServer] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for server in list(_running):
        server.stop()
