"""One run of the server, in one event loop: its sockets, its rooms, and their end."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from livekit.protocol import models

from curb_client._listening import TCPSite
from curb_client.testing.embedded.context import Context
from curb_client.testing.embedded.dispatch import Dispatches
from curb_client.testing.embedded.fault_table import FaultTable
from curb_client.testing.embedded.ice import UdpSocket
from curb_client.testing.embedded.joins import MAX_REQUEST_BYTES, ApiKey
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.options import Options
from curb_client.testing.embedded.room_service import room_service
from curb_client.testing.embedded.rooms import Rooms
from curb_client.testing.embedded.signalling import Signalling

__all__ = ["Node"]

HOST: Final = "127.0.0.1"
STOP_WITHIN: Final = 2.0
"""Seconds for clients to take note of the end; then they are cut off."""


class Node:
    """A server that runs; made by :meth:`start`, ended once by :meth:`stop`."""

    def __init__(self, context: Context, rooms: Rooms, signalling: Signalling, runner: web.AppRunner) -> None:
        self.context = context
        self.rooms = rooms
        self.signalling = signalling
        self._runner = runner
        self.port = 0

    @classmethod
    async def start(
        cls,
        api_key: str,
        api_secret: str,
        options: Options,
        journal: Journal,
        port: int = 0,
        faults: FaultTable | None = None,
    ) -> Node:
        """Runs in the running loop.

        Args:
            port: for signalling; 0 for any that is free. The one for WebRTC is always any.
            faults: what is to go wrong; nothing unless given.

        Raises:
            OSError: the port is taken.
        """
        faults = faults or FaultTable()
        udp = await UdpSocket.open(HOST, journal, faults)
        context = Context(options, journal, ApiKey(api_key, api_secret), udp, faults)
        rooms = Rooms(context)
        signalling = Signalling(context, rooms)
        app = web.Application()
        signalling.add_routes(app)
        room_service(context, rooms).add_routes(app)
        Dispatches(context, rooms).add_routes(app)
        app.router.add_get("/", _healthy)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_WITHIN / 2,
            max_line_size=MAX_REQUEST_BYTES,  # a join request comes in the URL
            max_field_size=MAX_REQUEST_BYTES,
        )
        node = cls(context, rooms, signalling, runner)
        try:
            await runner.setup()
            site = TCPSite(runner, HOST, port)
            await site.start()
        except BaseException:
            await runner.cleanup()
            await context.udp.close()
            raise
        node.port = int(runner.addresses[0][1])
        journal.write(f"listens at {HOST}:{node.port}, and on UDP port {context.udp.address[1]}")
        return node

    async def stop(self, *, told: bool = True) -> None:
        """Ends everything; returns when nothing of it is left.

        Args:
            told: whether the participants are told to leave; else it is as if the server had been killed, and they
                try to come back.
        """
        self.signalling.is_open = False
        for room in self.rooms.all():
            if not told:
                for participant in room.participants.values():
                    participant.abort_socket()
            room.close(models.SERVER_SHUTDOWN, told=told)
        if self.context.tasks:
            await asyncio.wait(self.context.tasks, timeout=STOP_WITHIN)
        await self._runner.cleanup()
        await self.context.udp.close()
        self.context.journal.write("stopped")


async def _healthy(request: web.Request) -> web.Response:  # noqa: ARG001
    return web.Response(text="OK")
