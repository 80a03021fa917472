"""Every server that the package has stops while clients come."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from curb_client.host.runner.listener import Listener as RunnerListener
from curb_client.model.endpoint.script import ModelScript
from curb_client.model.endpoint.server import ModelEndpoint
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.fake_daemon.listener import Listener, Peer

SECONDS = 10.0
TIMES = 10

Address = tuple[str, int] | str
Listening = Callable[[Path], AbstractAsyncContextManager[Address]]


@asynccontextmanager
async def fake_daemon(folder: Path) -> AsyncIterator[Address]:
    async def serve(peer: Peer) -> None:
        while await peer.read():
            pass

    listener = Listener(folder / "s", folder / "port", serve)
    listener.start()
    yield str(folder / "s")
    listener.stop()


@asynccontextmanager
async def embedded_server(_: Path) -> AsyncIterator[Address]:
    async with EmbeddedServer() as server:
        yield _address(server.url)


@asynccontextmanager
async def model_endpoint(_: Path) -> AsyncIterator[Address]:
    with ModelEndpoint(ModelScript()) as endpoint:
        yield _address(endpoint.url.removesuffix("/v1"))


@asynccontextmanager
async def runner(_: Path) -> AsyncIterator[Address]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    listener = RunnerListener("127.0.0.1:0")
    await listener.open(answer)
    yield _address(f"http://{listener.address}")
    await listener.close()


def _address(url: str) -> Address:
    return "127.0.0.1", int(url.rpartition(":")[2])


@contextmanager
def clients_that_come(address: Address) -> Iterator[list[socket.socket]]:
    """Connects one after the other until nobody listens; those that were connected so far."""
    clients: list[socket.socket] = []
    enough = threading.Event()

    def connect() -> None:
        while not enough.is_set():
            client = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
            client.settimeout(SECONDS)
            try:
                client.connect(address)
            except OSError:
                client.close()
                return
            clients.append(client)

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        yield clients
    finally:
        enough.set()
        thread.join()
        for client in clients:
            client.close()


def is_let_go_of(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


async def some_are_connected(clients: list[socket.socket]) -> None:
    while len(clients) < 3:  # noqa: ASYNC110 - a thread fills it
        await asyncio.sleep(0)


@pytest.mark.parametrize("listening", [fake_daemon, embedded_server, model_endpoint, runner])
async def test_a_client_that_comes_as_it_stops_is_let_go_of(
    listening: Listening, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(TIMES):
        async with AsyncExitStack() as server:
            address = await server.enter_async_context(listening(tmp_path))
            with clients_that_come(address) as clients:
                await asyncio.wait_for(some_are_connected(clients), SECONDS)
                await server.aclose()
                assert await asyncio.to_thread(is_let_go_of, clients[0])
        gc.collect()  # what was not closed says so here, and the test fails
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
