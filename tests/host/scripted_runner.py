"""A runner that does, byte for byte, what a test wants: for what a real one does only when something is broken."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "test-token"
DEADLINE = 20.0
"""Seconds that stop a hang."""


@dataclass
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)

    @property
    def after(self) -> int | None:
        """``from`` of a stream's query."""
        value = self.query.get("from")
        return None if value is None else int(value[0])

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self, status: int, value: object) -> None:
        await self.raw_answer(status, json.dumps(value).encode())

    async def raw_answer(self, status: int, body: bytes, more: str = "") -> None:
        phrase = HTTPStatus(status).phrase
        head = (
            f"HTTP/1.1 {status} {phrase}\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n{more}\r\n"
        )
        await self.send(head.encode() + body)

    async def begin_stream(self) -> None:
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunks(self, *parts: bytes) -> None:
        """Bytes of a stream."""
        await self.send(*(b"%x\r\n%s\r\n" % (len(part), part) for part in parts))

    async def end_stream(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def send(self, *parts: bytes) -> None:
        """Each part on its own, so that it arrives in a chunk of its own where there is time for it."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def lines(self, *records: object) -> None:
        for record in records:
            await self.chunks(line(record))

    def reset(self) -> None:
        linger = struct.pack("ii", 1, 0)  # else it is a goodbye
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Returns once the client has closed its end."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Script = Callable[[Received, Connection], Awaitable[None]]


@dataclass
class ScriptedRunner:
    address: str = ""
    requests: list[Received] = field(default_factory=list)
    open_connections: int = 0
    script: Script | None = None
    failures: list[BaseException] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        try:
            while (received := await _read(reader)) is not None:
                self.requests.append(received)
                assert self.script is not None
                await self.script(received, Connection(reader, writer))
                if received.path.endswith("/events"):
                    return
        except (ConnectionError, asyncio.CancelledError):
            pass
        except Exception as error:
            self.failures.append(error)
        finally:
            self.open_connections -= 1
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body)


@contextlib.asynccontextmanager
async def scripted_runner(script: Script) -> AsyncIterator[ScriptedRunner]:
    runner = ScriptedRunner(script=script)
    server = await asyncio.start_server(runner.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    runner.address = f"{host}:{port}"
    tasks_before = asyncio.all_tasks()
    try:
        yield runner
    finally:
        server.close()
        for task in asyncio.all_tasks() - tasks_before - {asyncio.current_task()}:
            task.cancel()  # connections whose script waits for ever
        await asyncio.sleep(0)
        assert not runner.failures, runner.failures


def streams(*scripts: Script) -> Script:
    """The scripts of the event stream's connections, one after the other; the last one is repeated."""
    left = list(scripts)

    async def script(received: Received, connection: Connection) -> None:
        assert received.path == "/v1/runner/events", received.path
        await (left.pop(0) if len(left) > 1 else left[0])(received, connection)

    return script


def sends(records: Sequence[object], *, then: str = "stay") -> Script:
    """Begins a stream with these records; ``then`` it may stay, end, reset or leave."""

    async def script(received: Received, connection: Connection) -> None:
        await connection.begin_stream()
        await connection.lines(*records)
        if then == "stay":
            await connection.gone()
        elif then == "end":
            await connection.end_stream()
        elif then == "reset":
            await asyncio.sleep(0.05)  # else the client may lose what was sent before
            connection.reset()

    return script


def refuses(status: int, value: object) -> Script:
    async def script(received: Received, connection: Connection) -> None:
        await connection.answer(status, value)

    return script


def line(record: object) -> bytes:
    return record if isinstance(record, bytes) else json.dumps(record, ensure_ascii=False).encode() + b"\n"


def turn(envelope: int, call: str = "call-1", seq: int | None = None, text: str = "hello") -> dict[str, Any]:
    body = {"type": "turn", "role": "user", "text": text}
    return _record(envelope, call, seq, "conversation", body)


def ended(envelope: int, call: str = "call-1", seq: int | None = None) -> dict[str, Any]:
    body = {"type": "event", "name": "curb.ended", "payload": {"reason": "completed"}}
    return _record(envelope, call, seq, "conversation", body)


def asked(envelope: int, ask_id: str, name: str, payload: object, call: str = "call-1") -> dict[str, Any]:
    body = {"type": "host", "seq": envelope, "at": 1, "id": ask_id, "name": name, "payload": payload}
    return _record(envelope, call, None, "host", {**body, "expectsReply": True})


def ready(envelope: int = 1, at: int = 1) -> dict[str, Any]:
    body = {"event": "ready", "address": "127.0.0.1:1", "maxSessions": 4, "warmupMs": 1}
    return {**_record(envelope, "runner", 1, "lifecycle", body), "at": at}


def lifecycle(envelope: int, event: str, seq: int) -> dict[str, Any]:
    return _record(envelope, "runner", seq, "lifecycle", {"event": event})


PING = {"ping": 1790625600000}


def _record(envelope: int, producer: str, seq: int | None, of_class: str, body: object) -> dict[str, Any]:
    seq = envelope if seq is None else seq
    return {"envelope": envelope, "producer": producer, "seq": seq, "class": of_class, "at": 1, "body": body}


async def until(condition: Callable[[], object]) -> None:
    deadline = asyncio.get_running_loop().time() + DEADLINE
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never came true"
        await asyncio.sleep(0.01)
