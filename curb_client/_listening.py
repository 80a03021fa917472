"""Servers that stop without leaving open whom asyncio has accepted as they close, and has not handed on yet."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from aiohttp import web

__all__ = ["SockSite", "TCPSite", "close_server"]

_PASSES: Final = 3
"""Of the loop, from asyncio's accepting a connection to its protocol's knowing of it."""


async def close_server(server: asyncio.Server) -> None:
    """Accept nobody any more; whom asyncio has accepted has reached the server's protocol, which then can close it."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # on Windows nothing lies between the two
        for listening in server.sockets:
            loop.remove_reader(listening)
    for _ in range(_PASSES):
        await asyncio.sleep(0)
    server.close()


class _Site(web.BaseSite):
    """aiohttp's, which stops so."""

    async def stop(self) -> None:
        if isinstance(self._server, asyncio.Server):
            await close_server(self._server)
        await super().stop()


class TCPSite(_Site, web.TCPSite):
    """At a host and port."""


class SockSite(_Site, web.SockSite):
    """At a socket that is there."""
