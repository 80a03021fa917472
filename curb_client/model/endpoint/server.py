"""The endpoint: an HTTP server on a thread of its own, which answers as scripted and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

from aiohttp import web
from aiohttp.typedefs import Handler
from typing_extensions import Self

from curb_client._listening import TCPSite
from curb_client.errors import CurbError, UnmatchedRequestError, UsageError
from curb_client.model.endpoint.answering import Answering
from curb_client.model.endpoint.chat import chat_body, chat_events
from curb_client.model.endpoint.responses import response_body, response_events
from curb_client.model.endpoint.script import Answer, ModelScript
from curb_client.model.recording import RecordedRequest
from curb_client.model.request import ModelRequest

__all__ = ["ModelEndpoint"]

MAX_BODY_BYTES: Final = 64 * 2**20
_CODES: Final = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
_START_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0
_KEEP_ALIVE_SECONDS: Final = 2.0  # clients give up after ten seconds without a byte

logger: Final = logging.getLogger("curb_client.model")


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
        self._failures: list[Exception] = []  # of the script and the endpoint itself, while it answered
        self._recording: TextIO | None = None
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
        """See that every request was scripted, and that nothing failed but what the script says.

        Raises:
            UnmatchedRequestError: a request was not scripted; it is shown.
            CurbError: a function of the script raised, or the endpoint did not come to an answer; that is its cause.
        """
        if self._failures:
            first = self._failures[0]
            raise CurbError(
                f"the model endpoint failed at {len(self._failures)} of the requests: {type(first).__name__}: {first}"
            ) from first
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
            UsageError: it runs already, or ``record_to`` cannot be written. CurbError: the address is taken.
        """
        if self._thread is not None:
            raise UsageError("the endpoint runs already")
        if self._record_to is not None:
            try:
                self._recording = self._record_to.open("a", encoding="utf-8")
            except OSError as error:
                raise UsageError(f"record_to cannot be written: {error}; make its folder first") from error
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
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.close()

    async def _run(self, is_up: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._with_errors])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_get("/v1/models/{name:.+}", self._one_model)
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=0.1
        )
        try:
            await runner.setup()
            await TCPSite(runner, *self._address).start()
            host = f"[{self._address[0]}]" if ":" in self._address[0] else self._address[0]
            self._url = f"http://{host}:{runner.addresses[0][1]}/v1"
            is_up.set()
            await self._stopping.wait()
        except OSError as error:
            self._failure = error
            is_up.set()
        finally:
            await runner.cleanup()

    # Requests

    @web.middleware
    async def _with_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every failure in OpenAI's form; one of the endpoint's own is kept for the test besides."""
        try:
            return await handler(request)
        except web.HTTPException as error:
            text = f"{request.method} {request.path}: {error.reason}"
            return _error(Answer(status=error.status, error=text), "invalid_request_error")
        except ConnectionError:  # the client is gone
            raise
        except Exception as error:
            logger.exception("the model endpoint failed")
            self._failures.append(error)
            text = f"the model endpoint failed: {type(error).__name__}: {error}"
            return _error(Answer(status=500, error=text), "server_error")

    async def _list_models(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.json_response({"object": "list", "data": [_model(name) for name in self._models]})

    async def _one_model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name in self._models:
            return web.json_response(_model(name))
        text = f"there is no model {name!r}, only {', '.join(self._models)}"
        return _error(Answer(status=404, error=text, code="model_not_found"), "invalid_request_error")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, is_chat=True)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, is_chat=False)

    async def _answer(self, request: web.Request, *, is_chat: bool) -> web.StreamResponse:
        came = time.time()
        try:
            body = json.loads(await request.read())
        except (ValueError, RecursionError) as error:
            return _error(Answer(status=400, error=f"the body is not JSON: {error}"), "invalid_request_error")
        if not isinstance(body, dict) or ("messages" if is_chat else "input") not in body:
            needed = "messages" if is_chat else "input"
            return _error(Answer(status=400, error=f"{needed} is missing"), "invalid_request_error")
        if body.get("n") not in (None, 1):
            text = f"n is {body['n']!r}; a scripted model gives one choice, so leave n out"
            return _error(Answer(status=400, error=text), "invalid_request_error")
        read = ModelRequest.parse(body)
        shown = read.render()
        answer, kind = self._scripted(read, shown)
        self._count += 1
        answering = Answering(answer, self._count, int(came), read.model, shown)
        try:
            return await self._respond(request, answering, body, kind, is_chat=is_chat)
        finally:
            self._record(RecordedRequest(int(came * 1000), body, answer.status, time.time() - came, answer.to_json()))

    def _scripted(self, request: ModelRequest, shown: str) -> tuple[Answer, str]:
        """The answer, and the type of it where it is an error."""
        try:
            answer = self.script.answer(request)
        except Exception as error:
            logger.exception("a function of the script failed")
            self._failures.append(error)
            return Answer(status=500, error=f"the script failed: {type(error).__name__}: {error}"), "script_failed"
        if answer is not None:
            return answer, "scripted_error"
        self.unmatched.append(request)
        return Answer(status=400, error=f"no rule of the script fits this request:\n{shown}"), "unmatched_request"

    async def _respond(
        self, request: web.Request, answering: Answering, body: dict[str, Any], kind: str, *, is_chat: bool
    ) -> web.StreamResponse:
        answer = answering.answer
        if answer.status != 200 or not body.get("stream"):
            await asyncio.sleep(answer.delay)
            if answer.status != 200:
                return _error(answer, kind)
            return web.json_response(chat_body(answering) if is_chat else response_body(answering))
        options = body.get("stream_options")
        with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        events = list(chat_events(answering, with_usage=with_usage) if is_chat else response_events(answering))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        await _keep_alive(response, answer.delay)
        for number, event in enumerate(events):
            if number == answer.cut_after:
                assert request.transport is not None
                request.transport.abort()
                return response
            # A lone surrogate, a half of one character, becomes its escape in JSON.
            await response.write(f"{event}\n\n".encode("utf-8", "backslashreplace"))
        await response.write_eof()
        return response

    def _record(self, recorded: RecordedRequest) -> None:
        self.recorded.append(recorded)
        if self._recording is None:
            return
        try:
            self._recording.write(f"{recorded.to_line()}\n")
            self._recording.flush()
        except OSError as error:  # the client has its answer
            self._failures.append(error)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "script"}


async def _keep_alive(response: web.StreamResponse, seconds: float) -> None:
    """Sleep, with a comment now and then."""
    left = seconds
    while left > 0:
        await asyncio.sleep(min(left, _KEEP_ALIVE_SECONDS))
        left -= _KEEP_ALIVE_SECONDS
        if left > 0:
            await response.write(b": the model thinks\n\n")


def _error(answer: Answer, kind: str) -> web.Response:
    code = answer.code or _CODES.get(answer.status)
    error = {"message": answer.error, "type": kind, "param": None, "code": code}
    headers = {}
    if answer.retry_after is not None:
        headers["Retry-After"] = f"{answer.retry_after:.3f}".rstrip("0").rstrip(".")
    if kind in ("script_failed", "server_error"):
        headers["X-Should-Retry"] = "false"  # it would fail again
    return web.json_response({"error": error}, status=answer.status, headers=headers)
