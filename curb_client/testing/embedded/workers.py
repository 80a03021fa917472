"""The workers of livekit-agents: their websocket ``/agent``, and what is known of each."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Final, Protocol

from aiohttp import WSMsgType, hdrs, web
from google.protobuf.message import DecodeError
from livekit.protocol import agent, models

from curb_client.testing.embedded.context import SERVER_INFO, Context
from curb_client.testing.embedded.joins import RefusedError, read_claims
from curb_client.testing.embedded.signalling import ANY_ORIGIN, bearer_token

__all__ = ["Worker", "WorkerWatcher", "Workers"]

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
REGISTER_WITHIN: Final = 10.0
CLOSE_WITHIN: Final = 1.0
"""Seconds for a worker to answer that the connection is closed."""
_ALL: Final = models.ParticipantPermission(
    can_subscribe=True, can_publish=True, can_publish_data=True, can_update_metadata=True
)


class Worker:
    """A worker that has registered, until its connection ends."""

    def __init__(self, request: agent.RegisterWorkerRequest, send: Callable[[agent.ServerMessage], None]) -> None:
        self.id = f"AW_{secrets.token_hex(6)}"
        self.agent_name = request.agent_name
        self.type = request.type
        self.deployment = request.deployment
        self.permissions = request.allowed_permissions if request.HasField("allowed_permissions") else _ALL
        self.is_available = True
        """Whether it wants jobs, as it says."""
        self.last_offer = 0
        """The number of the last offer made to it: who has waited longest is asked first."""
        self.send = send


class WorkerWatcher(Protocol):
    """Who wants to know what becomes of workers."""

    def registered(self, worker: Worker) -> None:
        """It can be offered jobs now."""

    def available(self, worker: Worker) -> None:
        """It wants jobs again."""

    def answered(self, worker: Worker, answer: agent.AvailabilityResponse) -> None:
        """It takes a job that it was offered, or not."""

    def job_updated(self, worker: Worker, update: agent.UpdateJobStatus) -> None:
        """It tells how a job goes."""

    def gone(self, worker: Worker) -> None:
        """Its connection has ended."""


class Workers:
    """Serves ``/agent``."""

    def __init__(self, context: Context, watcher: WorkerWatcher) -> None:
        self._context = context
        self._watcher = watcher
        self._connections: set[_Connection] = set()
        self._is_open = True

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/agent", self._serve)
        app.on_shutdown.append(self._close)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            if request.headers.get(hdrs.UPGRADE, "").lower() != "websocket":
                raise RefusedError(404, "this is for websockets")
            if not read_claims(bearer_token(request), self._context.key).grants("agent"):
                raise RefusedError(401, "permissions denied")
            if not self._is_open:
                raise RefusedError(503, "the server is being stopped")
        except RefusedError as refused:
            self._context.journal.write(f"{request.path} refused with {refused.status}: {refused.text}")
            return web.Response(status=refused.status, text=refused.text, headers=ANY_ORIGIN)
        connection = _Connection(self._context, self._watcher)
        self._connections.add(connection)
        try:
            return await connection.serve(request)
        finally:
            self._connections.discard(connection)

    async def _close(self, app: web.Application) -> None:  # noqa: ARG002
        self._is_open = False
        for connection in self._connections:
            connection.close()


class _Connection:
    """What is sent waits in a queue, so that no slow worker makes others wait."""

    def __init__(self, context: Context, watcher: WorkerWatcher) -> None:
        self._journal = context.journal
        self._watcher = watcher
        self._worker: Worker | None = None
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._web_socket = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES, timeout=CLOSE_WITHIN, compress=False)

    def close(self) -> None:
        """Closes the connection once everything is sent."""
        self._queue.put_nowait(None)

    def _send(self, message: agent.ServerMessage) -> None:
        self._queue.put_nowait(message.SerializeToString())

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Returns when either side has closed the connection, or the worker sent what is no message."""
        writing: asyncio.Task[None] | None = None
        deadline: asyncio.TimerHandle | None = None
        try:
            await self._web_socket.prepare(request)
            writing = asyncio.ensure_future(self._write())
            deadline = asyncio.get_running_loop().call_later(REGISTER_WITHIN, self._close_unregistered)
            async for message in self._web_socket:
                if message.type != WSMsgType.BINARY or not self._receive(message.data):
                    break
        finally:
            if deadline is not None:
                deadline.cancel()
            if self._worker is not None:
                self._watcher.gone(self._worker)
            self.close()
            if writing is not None:
                await asyncio.wait({writing}, timeout=CLOSE_WITHIN)
                writing.cancel()
        return self._web_socket

    def _close_unregistered(self) -> None:
        if self._worker is None:
            self._journal.write(f"a worker that had not registered within {REGISTER_WITHIN:g} s was sent away")
            self.close()

    def _receive(self, data: bytes) -> bool:
        """Whether it was a message that has its place."""
        try:
            message = agent.WorkerMessage.FromString(data)
        except DecodeError as error:
            self._journal.once("workers' messages that made no sense", f"a worker sent no message: {error}")
            return False
        kind = message.WhichOneof("message")
        if kind == "ping":
            now = int(time.time() * 1000)
            self._send(agent.ServerMessage(pong=agent.WorkerPong(last_timestamp=message.ping.timestamp, timestamp=now)))
            return True
        if self._worker is None and kind == "register":
            self._register(message.register)
            return True
        if self._worker is None or kind == "register":
            self._journal.once("workers that did not register first, and once", f"a worker sent {kind} out of order")
            return False
        self._handle(self._worker, message, kind)
        return True

    def _register(self, request: agent.RegisterWorkerRequest) -> None:
        self._worker = worker = Worker(request, self._send)
        response = agent.RegisterWorkerResponse(worker_id=worker.id, server_info=SERVER_INFO)
        self._send(agent.ServerMessage(register=response))
        self._watcher.registered(worker)

    def _handle(self, worker: Worker, message: agent.WorkerMessage, kind: str | None) -> None:
        if kind == "availability":
            self._watcher.answered(worker, message.availability)
        elif kind == "update_job":
            self._watcher.job_updated(worker, message.update_job)
        elif kind == "update_worker":
            was_available = worker.is_available
            if message.update_worker.HasField("status"):
                worker.is_available = message.update_worker.status == agent.WS_AVAILABLE
            if worker.is_available and not was_available:
                self._watcher.available(worker)
        else:
            self._journal.once("workers' messages that are not served", f"worker {worker.id} sent {kind}, in vain")

    async def _write(self) -> None:
        try:
            while (data := await self._queue.get()) is not None:
                await self._web_socket.send_bytes(data)
            await self._web_socket.close()
        except ConnectionError:
            pass  # the reading side sees it too
