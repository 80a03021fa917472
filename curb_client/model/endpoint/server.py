"""The endpoint: an HTTP server on a thread of its own, which answers as scripted and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from aiohttp import web
from typing_extensions import Self

from curb_client.errors import CurbError, UnmatchedRequestError, UsageError
from curb_client.model.endpoint.answering import Answering
from curb_client.model.endpoint.chat import chat_body, chat_events
from curb_client.model.endpoint.responses import response_body, response_events
from curb_client.model.endpoint.script import Answer, ModelScript
from curb_client.model.recording import RecordedRequest
from curb_client.model.request import ModelRequest

__all__ = ["ModelEndpoint"]

MAX_BODY_BYTES: Final = 64 * 2**20
_START_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0
_KEEP_ALIVE_SECONDS: Final = 2.0  # clients give up after ten seconds without a byte


class ModelEndpoint:
    """A model behind OpenAI's interface, on the loopback interface; ``with`` it, from any thread or loop.

    Chat completions and responses, streamed or whole, and the list of models. Any API key will do.

    ::

        script = ModelScript()
        script.on("hello", text="Good morning.")
        with ModelEndpoint(script) as endpoint:
            client = openai.AsyncOpenAI(base_url=endpoint.url, api_key="any")
            ...
        assert endpoint.requests[0].last_user_text == "hello"

    Args:
        script: what it answers.
        record_to: a file to which each request is added, one JSON object a line; see ``read_recording``.
        host, port: to listen at; any free port unless given.
        models: names that it lists.
    """

    def __init__(
        self,
        script: ModelScript,
        *,
        record_to: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        models: tuple[str, ...] = ("scripted",),
    ) -> None:
        self.script = script
        self.recorded: list[RecordedRequest] = []
        """The requests that were answered, refused or cut, in the order in which that was done."""
        self.unmatched: list[ModelRequest] = []
        """Those that no rule fitted."""
        self._record_to = None if record_to is None else Path(record_to)
        self._address = (host, port)
        self._models = models
        self._url: str | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._count = 0

    @property
    def url(self) -> str:
        """The base URL for clients, with ``/v1``.

        Raises:
            UsageError: the endpoint does not run.
        """
        if self._url is None:
            raise UsageError("the endpoint does not run; `with ModelEndpoint(script) as endpoint:`")
        return self._url

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests, read; see :attr:`recorded` for when they came and what was answered."""
        return [recorded.request for recorded in self.recorded]

    def check(self) -> None:
        """See that every request was scripted.

        Raises:
            UnmatchedRequestError: one was not; it is shown.
        """
        if self.unmatched:
            shown = "\n\n".join(request.render() for request in self.unmatched)
            raise UnmatchedRequestError(
                f"no rule of the script fits {len(self.unmatched)} of the requests to the model; add rules for\n{shown}"
            )

    # The thread

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; returns when requests are taken.

        Raises:
            UsageError: it runs already. CurbError: the address is taken.
        """
        if self._thread is not None:
            raise UsageError("the endpoint runs already")
        is_up = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(is_up)), name="model endpoint", daemon=True
        )
        self._thread.start()
        if not is_up.wait(_START_SECONDS) or self._failure is not None:
            failure, self._failure = self._failure, None
            self.stop()
            raise CurbError(f"the model endpoint did not start at {self._address[0]}:{self._address[1]}: {failure}")

    def stop(self) -> None:
        """End it; what is being answered is cut off."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None and not loop.is_closed():
            loop.call_soon_threadsafe(stopping.set)
        thread.join(_STOP_SECONDS)
        self._url = None

    async def _run(self, is_up: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_get("/v1/models", self._list_models)
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=0.1
        )
        try:
            await runner.setup()
            await web.TCPSite(runner, *self._address).start()
            self._url = f"http://{self._address[0]}:{runner.addresses[0][1]}/v1"
            is_up.set()
            await self._stopping.wait()
        except OSError as error:
            self._failure = error
            is_up.set()
        finally:
            await runner.cleanup()

    # Requests

    async def _list_models(self, request: web.Request) -> web.Response:  # noqa: ARG002
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "script"} for name in self._models]
        return web.json_response({"object": "list", "data": models})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, is_chat=True)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, is_chat=False)

    async def _answer(self, request: web.Request, *, is_chat: bool) -> web.StreamResponse:
        came = time.time()
        try:
            body = json.loads(await request.text())
        except (ValueError, RecursionError) as error:
            return _error(Answer(status=400, error=f"the body is not JSON: {error}"), "invalid_request_error")
        if not isinstance(body, dict) or ("messages" if is_chat else "input") not in body:
            needed = "messages" if is_chat else "input"
            return _error(Answer(status=400, error=f"{needed} is missing"), "invalid_request_error")
        read = ModelRequest.parse(body)
        shown = read.render()
        answer = self.script.answer(read)
        kind = "scripted_error"
        if answer is None:
            self.unmatched.append(read)
            kind = "unmatched_request"
            answer = Answer(status=400, error=f"no rule of the script fits this request:\n{shown}")
        self._count += 1
        answering = Answering(answer, self._count, int(came), read.model, shown)
        try:
            return await self._respond(request, answering, body, kind, is_chat=is_chat)
        finally:
            self._record(RecordedRequest(int(came * 1000), body, answer.status, time.time() - came, answer.to_json()))

    async def _respond(
        self, request: web.Request, answering: Answering, body: dict[str, Any], kind: str, *, is_chat: bool
    ) -> web.StreamResponse:
        answer = answering.answer
        if answer.status != 200 or not body.get("stream"):
            await asyncio.sleep(answer.delay)
            if answer.status != 200:
                return _error(answer, kind)
            return web.json_response(chat_body(answering) if is_chat else response_body(answering))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        await _keep_alive(response, answer.delay)
        options = body.get("stream_options")
        with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        events = chat_events(answering, with_usage=with_usage) if is_chat else response_events(answering)
        for number, event in enumerate(events):
            if number == answer.cut_after:
                assert request.transport is not None
                request.transport.abort()
                return response
            await response.write(f"{event}\n\n".encode())
        await response.write_eof()
        return response

    def _record(self, recorded: RecordedRequest) -> None:
        self.recorded.append(recorded)
        if self._record_to is not None:
            with self._record_to.open("a", encoding="utf-8") as file:
                file.write(f"{recorded.to_line()}\n")


async def _keep_alive(response: web.StreamResponse, seconds: float) -> None:
    """Sleep, with a comment now and then."""
    left = seconds
    while left > 0:
        await asyncio.sleep(min(left, _KEEP_ALIVE_SECONDS))
        left -= _KEEP_ALIVE_SECONDS
        if left > 0:
            await response.write(b": the model thinks\n\n")


def _error(answer: Answer, kind: str) -> web.Response:
    error = {"message": answer.error, "type": kind, "param": None, "code": None}
    headers = {} if answer.retry_after is None else {"Retry-After": f"{answer.retry_after:g}"}
    return web.json_response({"error": error}, status=answer.status, headers=headers)
