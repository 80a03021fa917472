"""A thread that listens at a Unix socket and at a port of TCP, as a daemon does at both, always."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from google.protobuf.message import Message

from curb_client._listening import close_server
from curb_client.crabtalk.errors import CrabDaemonError, FrameError, FrameTooLargeError
from curb_client.crabtalk.frames import FrameDecoder, encode_frame

__all__ = ["GoneError", "Listener", "Peer"]

START_SECONDS: Final = 10.0
STOP_SECONDS: Final = 5.0
_READ_BYTES: Final = 64 * 1024


class GoneError(Exception):
    """The client has left, or was sent what a frame cannot carry."""


class Peer:
    """A connected client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self.is_gone = False

    async def read(self) -> list[bytes] | None:
        """The frames that came next; None at the end, and where the bytes are none: no word is said about it."""
        while not self.is_gone:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                return None
            frames: list[bytes] = []
            try:
                frames += [bytes(payload) for payload in self._decoder.feed(data)]
            except FrameError:
                self.is_gone = True
            if frames or self.is_gone:
                return frames or None
        return None

    async def send(self, message: Message) -> None:
        """Write a message.

        Raises:
            GoneError: it cannot be written; a frame too large ends the connection.
        """
        try:
            await self.write(encode_frame(message))
        except FrameTooLargeError:
            self.close()
            raise GoneError from None

    async def write(self, data: bytes) -> None:
        """Write bytes as they are; raises GoneError."""
        if self.is_gone or self._writer.is_closing():
            raise GoneError
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            self.is_gone = True
            raise GoneError from None

    def close(self) -> None:
        """End the connection."""
        self.is_gone = True
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            self._writer.close()


class Listener:
    """Serves each client with ``serve(peer)``, on a thread of its own; its end is the connection's.

    Args:
        socket_path: where the socket goes. port_file: where the port of 127.0.0.1 is written.
        on_loop: called in the thread's loop before anybody is served.
    """

    def __init__(
        self,
        socket_path: Path,
        port_file: Path,
        serve: Callable[[Peer], Awaitable[None]],
        on_loop: Callable[[asyncio.AbstractEventLoop], None] = lambda _: None,
    ) -> None:
        self._socket_path = socket_path
        self._port_file = port_file
        self._serve = serve
        self._on_loop = on_loop
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: Exception | None = None
        self._peers: dict[Peer, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Returns when clients can connect.

        Raises:
            CrabDaemonError: they cannot.
        """
        is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(is_up)), name="fake daemon", daemon=True)
        self._thread.start()
        if not is_up.wait(START_SECONDS) or self._failure is not None:
            self.stop()
            raise CrabDaemonError(f"the fake daemon does not listen at {self._socket_path}: {self._failure}")

    def stop(self, *, leave_files: bool = False) -> None:
        """End all connections, without a word."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._stopping is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(STOP_SECONDS)
        if not leave_files:
            self._socket_path.unlink(missing_ok=True)
            self._port_file.unlink(missing_ok=True)

    async def _run(self, is_up: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._on_loop(self._loop)
        servers: list[asyncio.Server] = []
        try:
            self._socket_path.parent.mkdir(parents=True, exist_ok=True)
            self._socket_path.unlink(missing_ok=True)
            if sys.platform != "win32":
                servers.append(await asyncio.start_unix_server(self._client, str(self._socket_path)))
            servers.append(await asyncio.start_server(self._client, "127.0.0.1", 0))
            self._port_file.write_text(str(servers[-1].sockets[0].getsockname()[1]), encoding="ascii")
            is_up.set()
            await self._stopping.wait()
        except OSError as error:
            self._failure = error
            is_up.set()
        finally:
            for server in servers:
                await close_server(server)
            await self._end_clients()

    async def _end_clients(self) -> None:
        for peer in list(self._peers):
            peer.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)

    def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        serving = self._peers[peer] = asyncio.ensure_future(self._serve_until_gone(peer))

        def end(_: object) -> None:  # not in the task: one that is cancelled before its first step runs nothing
            del self._peers[peer]
            peer.close()

        serving.add_done_callback(end)

    async def _serve_until_gone(self, peer: Peer) -> None:
        with contextlib.suppress(GoneError, OSError, asyncio.CancelledError):
            await self._serve(peer)
