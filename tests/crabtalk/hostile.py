"""Daemons that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from curb_client.crabtalk import (
    CrabTalkClient,
    encode_frame,
)
from curb_client.crabtalk import crabtalk_pb2 as pb

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served_by(serve: Serve) -> AsyncIterator[CrabTalkClient]:
    """A client whose daemon is this function, once for each connection."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with CrabTalkClient(f"tcp://127.0.0.1:{port}") as client:
            yield client
    finally:
        server.close()
        await server.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> pb.ClientMessage:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return pb.ClientMessage.FromString(await reader.readexactly(size))


def answering(*messages: pb.ServerMessage) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(b"".join(map(encode_frame, messages)))

    return serve


def event(**fields: object) -> pb.ServerMessage:
    return pb.ServerMessage(stream=pb.StreamEvent(**fields))  # type: ignore[arg-type]
