"""The routes, after one look at who asks (host protocol, Routes)."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from aiohttp import web

from curb_client.host.runner.calls import Calls
from curb_client.host.runner.counters import Counters
from curb_client.host.runner.events import first_cursor, stream_events
from curb_client.host.runner.journal import Journal
from curb_client.host.runner.options import RunnerOptions
from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.host.runner.requests import check_realtime_url, parse_body, path_of, query_of, read_json, target_of
from curb_client.protocol.contract import PROTOCOL_VERSION, PROTOCOL_VERSIONS, ErrorCode
from curb_client.protocol.envelope import MalformedTextError, Refusal
from curb_client.protocol.host_requests import HostMessage, StartCallRequest, read_from, read_grace_ms
from curb_client.protocol.host_types import (
    DrainAnswer,
    Health,
    MessageAnswer,
    RunnerStatus,
    SettingsAnswer,
    StartCallAnswer,
    StopAnswer,
)
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.types import HostModel

__all__ = ["Routes", "answer"]

_Route = Callable[[web.BaseRequest, str], Awaitable[web.StreamResponse]]

_TAKES_NO_CALLS: Final[Mapping[str, frozenset[str]]] = {
    "managed": frozenset(),
    "direct-join": frozenset({"POST /v1/sessions", "POST /v1/sessions/{id}/messages"}),
    "dev": frozenset({"POST /v1/sessions", "GET /v1/runner", "POST /v1/runner/drain"}),
    "worker": frozenset({"POST /v1/sessions", "GET /v1/runner", "POST /v1/runner/drain"}),
}
"""By mode, the routes that answer ``runner_takes_no_calls``."""

_logger = logging.getLogger("curb_client.host")


def answer(body: HostModel, status: int = 200, **headers: str) -> web.Response:
    """A body as the answer."""
    text = encode_json(body)
    return web.Response(text=text, status=status, content_type="application/json", headers=headers)


@dataclass(frozen=True)
class Routes:
    """Answers requests: ``await routes.handle(request)``.

    Attributes:
        journal: None where no record is kept.
        drain: begins to drain the runner.
    """

    options: RunnerOptions
    calls: Calls
    journal: Journal | None
    counters: Counters
    drain: Callable[[], None]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; every failure is an answer too."""
        name = "other"
        try:
            if request.method == "GET" and target_of(request)[0] == "/health":
                name = "GET /health"
                response: web.StreamResponse = self._health()
            else:
                self._authorize(request)
                name, route, session_id = self._route(request)
                response = await route(request, session_id)
        except ConnectionError:
            raise
        except Exception as error:
            refused = _refusal_of(error)
            if refused is None:
                _logger.exception("the request %s failed", name)
                refused = RunnerRefusal(ErrorCode.INTERNAL)
            response = answer(refused.body, refused.status)
        self.counters.requests[name, response.status] += 1
        return response

    def _authorize(self, request: web.BaseRequest) -> None:
        given = request.headers.getall("Authorization", [])
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        is_right = hmac.compare_digest(token.strip().encode("utf-8", "surrogateescape"), self.options.token.encode())
        if scheme.lower() != "bearer" or not is_right:
            raise RunnerRefusal(ErrorCode.UNAUTHORIZED)

    def _route(self, request: web.BaseRequest) -> tuple[str, _Route, str]:
        path = path_of(request)
        if len(path) < 2 or path[0] != "v1":
            raise RunnerRefusal(ErrorCode.UNKNOWN_VERSION, "the path is not under /v1/")
        session_id = path[2] if len(path) > 2 and path[1] == "sessions" else ""
        segments = [quote(segment, safe="") for segment in path]  # an escaped slash divides nothing
        if session_id:
            segments[2] = "{id}"
        name = f"{request.method} /{'/'.join(segments)}"
        route = self._table.get(name)
        if route is None:
            raise RunnerRefusal(ErrorCode.NOT_FOUND, "no such route, or not with this method")
        if name in _TAKES_NO_CALLS[self.options.mode]:
            raise RunnerRefusal(
                ErrorCode.RUNNER_TAKES_NO_CALLS, f"not for a runner in the mode {self.options.mode}: {name}"
            )
        return name, route, session_id

    @property
    def _table(self) -> Mapping[str, _Route]:
        return {
            "POST /v1/sessions": self._start,
            "GET /v1/sessions/{id}": self._call,
            "PATCH /v1/sessions/{id}": self._update,
            "DELETE /v1/sessions/{id}": self._stop,
            "POST /v1/sessions/{id}/messages": self._message,
            "GET /v1/runner": self._status,
            "GET /v1/runner/events": self._events,
            "POST /v1/runner/drain": self._drain,
        }

    def _health(self) -> web.Response:
        return answer(Health(ok=True, protocol_version=PROTOCOL_VERSION, versions=list(PROTOCOL_VERSIONS)))

    async def _start(self, request: web.BaseRequest, _: str) -> web.Response:
        start = parse_body(StartCallRequest, await read_json(request, self.options.max_body_bytes))
        check_realtime_url(start.realtime_url)
        accepted = self.calls.start(start)
        return answer(StartCallAnswer(session_id=start.session_id, accepted=accepted), 201 if accepted else 200)

    async def _call(self, _request: web.BaseRequest, session_id: str) -> web.Response:
        return answer(self.calls.live(session_id))

    async def _update(self, request: web.BaseRequest, session_id: str) -> web.Response:
        body = await read_json(request, self.options.max_body_bytes)
        if not isinstance(body, dict):
            raise RunnerRefusal(ErrorCode.INVALID_REQUEST, "the body must be a JSON object")
        settings = self.calls.going_on(session_id).update(body)
        return answer(SettingsAnswer(session_id=session_id, settings=settings))

    async def _stop(self, request: web.BaseRequest, session_id: str) -> web.Response:
        query = query_of(request, "reason", "graceMs")
        grace = read_grace_ms(query.get("graceMs")) / 1000
        call = self.calls.find(session_id)
        if call is not None:
            call.stop(query.get("reason") or "stopped", grace)
        return answer(StopAnswer(session_id=session_id, stopped=call is not None))

    async def _message(self, request: web.BaseRequest, session_id: str) -> web.Response:
        message = parse_body(HostMessage, await read_json(request, self.options.max_body_bytes))
        delivered = await self.calls.going_on(session_id).receive(message)
        return answer(MessageAnswer(id=message.id, delivered=delivered), 202)

    async def _status(self, _request: web.BaseRequest, _: str) -> web.Response:
        active = self.calls.active
        status = RunnerStatus(
            protocol_version=PROTOCOL_VERSION,
            deployment_id=self.options.deployment_id,
            configuration_version=self.options.configuration_version,
            max_sessions=self.options.max_sessions,
            active_sessions=len(active),
            draining=self.calls.draining,
            sessions=[call.live() for call in active],
        )
        return answer(status)

    async def _events(self, request: web.BaseRequest, _: str) -> web.StreamResponse:
        wanted = read_from(query_of(request, "from").get("from"))
        if self.journal is None:
            raise RunnerRefusal(ErrorCode.NO_JOURNAL, "this runner keeps no record")
        cursor = first_cursor(self.journal, wanted)
        return await stream_events(request, self.journal, cursor, self.options, self.counters)

    async def _drain(self, _request: web.BaseRequest, _: str) -> web.Response:
        self.drain()
        return answer(DrainAnswer(draining=True, active_sessions=len(self.calls.active)), 202)


def _refusal_of(error: Exception) -> RunnerRefusal | None:
    if isinstance(error, RunnerRefusal):
        return error
    if isinstance(error, Refusal):
        return RunnerRefusal.of_agent(error)
    return RunnerRefusal.invalid(error.issues) if isinstance(error, MalformedTextError) else None
