"""The HTTP listener: a low-level server of aiohttp, whose own answers to broken HTTP say as little as ours."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from curb_client._listening import SockSite
from curb_client.errors import RunnerStartError
from curb_client.host.runner.options import split_address
from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.host.runner.routes import answer
from curb_client.protocol.contract import ErrorCode

__all__ = ["Listener"]

CLOSE_SECONDS: Final = 3.0
_BACKLOG: Final = 128
_LINGER_SECONDS: Final = 2.0
_KEEP_ALIVE_SECONDS: Final = 75.0

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_logger = logging.getLogger("curb_client.host")


class Listener:
    """Listens on one address.

    Args:
        address: ``host:port``; bound at once, so that one that is in use is known before the agent warms up. Whoever
            listens first has it, which may be another that was bound to it meanwhile.

    Raises:
        RunnerStartError: the address cannot be had.
    """

    def __init__(self, address: str) -> None:
        host, port = split_address(address)
        try:
            self._socket = _bound(host, port)
        except OSError as error:
            raise _cannot_listen(address, error) from error
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        """``host:port`` as it is, also where port 0 was asked for."""
        self._runner: web.ServerRunner | None = None

    async def open(self, handler: Handler) -> None:
        """Take requests from now on.

        Raises:
            RunnerStartError: another listens on the address since.
        """
        self._runner = web.ServerRunner(_Server(handler), shutdown_timeout=CLOSE_SECONDS)
        await self._runner.setup()
        try:
            await SockSite(self._runner, self._socket, backlog=_BACKLOG).start()
        except OSError as error:
            raise _cannot_listen(self.address, error) from error

    async def close(self) -> None:
        """Take no more; what is being answered has a few seconds."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._socket.close()


def _cannot_listen(address: str, error: OSError) -> RunnerStartError:
    return RunnerStartError(f"the runner cannot listen on {address}: {error.strerror or error}")


def _bound(host: str, port: int) -> socket.socket:
    family, kind, number, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, number)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
    except BaseException:
        made.close()
        raise
    return made


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # None is how it is switched off
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,  # a small body may not become a large one
        )


class _Connection(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it may quote the request
    ) -> web.StreamResponse:
        """Broken HTTP. The error may quote a header with the token: what is logged is its kind."""
        _logger.info("a request that is no HTTP (%s) from %s", type(exc).__name__, request.remote)
        refused = RunnerRefusal(ErrorCode.INVALID_REQUEST if status < 500 else ErrorCode.INTERNAL)
        response = answer(refused.body, refused.status)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:  # noqa: ARG002
        """aiohttp's own log of it could quote the request."""
        error = kw.get("exc_info")
        _logger.error("a connection failed: %s", type(error).__name__)
