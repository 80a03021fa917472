"""What carries requests to a runner: the interface, and HTTP with aiohttp.

A test or a simulation brings a carrier of its own, so that everything above it runs as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import aiohttp
from yarl import URL

from curb_client.errors import RunnerAnswerError, RunnerTimeoutError, RunnerUnreachableError, UsageError

if TYPE_CHECKING:
    from aiohttp.client import _RequestContextManager

    _RequestContext: TypeAlias = _RequestContextManager

__all__ = ["AiohttpTransport", "Answer", "ByteStream", "Request", "Transport", "base_url"]

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
READ_BYTES: Final = 64 * 1024
"""How much of a stream waits in memory, twice over at most, until somebody reads it; TCP holds back the rest."""
_EXCERPT: Final = 200


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        path: percent-encoded, from the runner's root on, with the query.
        body: JSON text, None for none.
        timeout: seconds for the whole exchange; of a stream, until it begins.
    """

    method: str
    path: str
    body: str | None = None
    timeout: float = 15.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes


class ByteStream(Protocol):
    """The body of an answer 200, as it comes."""

    async def read(self) -> bytes:
        """Some bytes, ``b""`` at the end.

        Raises:
            RunnerUnreachableError: the connection broke before the end.
        """

    def close(self) -> None:
        """Drop the connection; may be called more than once."""


class Transport(Protocol):
    """A carrier of requests to one runner."""

    async def request(self, request: Request) -> Answer:
        """The runner's answer, whatever it says.

        Raises:
            RunnerUnreachableError: none came, or not in time.
            RunnerAnswerError: one too large to read.
        """

    async def stream(self, request: Request) -> Answer | ByteStream:
        """The stream that the answer 200 is, or an answer of another status; raises as :meth:`request`."""

    async def aclose(self) -> None:
        """Close all connections."""


def base_url(address: str) -> str:
    """The root of a runner: ``http://127.0.0.1:7071``, also from the bare address of a ready line.

    Raises:
        UsageError: no address of HTTP.
    """
    text = address if "://" in address else f"http://{address}"
    try:
        url = URL(text)
        is_good = url.scheme in ("http", "https") and url.host and url.explicit_port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise UsageError(f"the runner's address is {address!r:.200}; give http://host:port, or host:port")
    return text.rstrip("/")


class AiohttpTransport:
    """HTTP. The session is made with the first request, in the loop that runs then.

    Args:
        address: ``http://host:port``, or ``host:port``.
        session: yours, to be closed by you; by default one of its own.

    Raises:
        UsageError: no address of HTTP; or, of a request, it is closed.
    """

    def __init__(self, address: str, *, session: aiohttp.ClientSession | None = None) -> None:
        self._base = base_url(address)
        self._session = session
        self._owns_session = session is None
        self._is_closed = False

    async def request(self, request: Request) -> Answer:
        try:
            async with self._send(request, aiohttp.ClientTimeout(total=request.timeout)) as response:
                return Answer(response.status, await _whole_body(response))
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise self._unreachable(request, error) from error

    async def stream(self, request: Request) -> Answer | ByteStream:
        began: list[aiohttp.ClientResponse] = []  # whoever is cancelled as the answer comes must still close it
        try:
            return await asyncio.wait_for(self._begin_stream(request, began), request.timeout)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            _close(began)
            raise self._unreachable(request, error) from error
        except BaseException:
            _close(began)
            raise

    async def _begin_stream(self, request: Request, began: list[aiohttp.ClientResponse]) -> Answer | ByteStream:
        response = await self._send(request, aiohttp.ClientTimeout(total=None))
        began.append(response)
        if response.status == 200:
            return _ResponseStream(response, self._base)
        async with response:
            return Answer(response.status, await _whole_body(response))

    async def aclose(self) -> None:
        """Close all connections of its own; a request after that is a UsageError."""
        self._is_closed = True
        if self._session is not None and self._owns_session:
            session, self._session = self._session, None
            await session.close()

    def _send(self, request: Request, timeout: aiohttp.ClientTimeout) -> _RequestContext:
        if self._is_closed:
            raise UsageError(f"the client of {self._base} is closed; make a new one")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # a stream keeps its connection
                read_bufsize=READ_BYTES,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        return self._session.request(
            request.method,
            URL(self._base + request.path, encoded=True),
            data=None if request.body is None else request.body.encode(),
            headers=headers,
            timeout=timeout,
            allow_redirects=False,  # the token is for this runner
        )

    def _unreachable(self, request: Request, error: BaseException) -> RunnerUnreachableError:
        what = f"{request.method} {self._base}{request.path.partition('?')[0]}"
        if isinstance(error, aiohttp.ClientConnectorError):  # it came before anything was sent
            refused = isinstance(error.os_error, ConnectionRefusedError)
            return RunnerUnreachableError(
                f"{what}: no connection ({error.os_error})", maybe_taken=False, refused=refused
            )
        if isinstance(error, asyncio.TimeoutError):
            return RunnerTimeoutError(f"{what}: no answer within {request.timeout:g} s", maybe_taken=True)
        return RunnerUnreachableError(
            f"{what}: the connection broke ({str(error) or type(error).__name__})", maybe_taken=True
        )


class _ResponseStream:
    def __init__(self, response: aiohttp.ClientResponse, base: str) -> None:
        self._response = response
        self._base = base

    async def read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise RunnerUnreachableError(f"the stream of {self._base} broke ({reason})", maybe_taken=True) from error

    def close(self) -> None:
        self._response.close()


async def _whole_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            response.close()
            raise RunnerAnswerError(
                f"the answer {response.status} has more than the limit of {MAX_ANSWER_BYTES} bytes",
                status=response.status,
                excerpt=bytes(body[:_EXCERPT]),
            )
    return bytes(body)


def _close(responses: list[aiohttp.ClientResponse]) -> None:
    for response in responses:
        response.close()
