"""The host demo's runner, misbehaving in some steps: ``python -m tests.cli.broken_runner STEP...``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from aiohttp import web
from livekit import rtc

from curb_client import AgentCall, RequestMeta
from curb_client.cli import host_demo_agent, main
from curb_client.cli import runner as runner_command
from curb_client.host import CallContext, HostedAgent
from curb_client.host.runner import calls, events, routes
from curb_client.host.runner.journal import Journal
from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.protocol.contract import REFUSAL_NUMBER, UPDATE, ErrorCode
from curb_client.protocol.host_types import DrainAnswer, Health

agent: HostedAgent
Wrong = Callable[[], None]
Handler = Callable[[Any, RequestMeta], Any]


# Answers


def changed_answers(name: str, change: Callable[[Any], None], when: str = "") -> Wrong:
    """The JSON of a route's answers to requests with this text in their body, otherwise."""

    def patch() -> None:
        original = getattr(routes.Routes, name)

        async def route(self: routes.Routes, request: web.BaseRequest, session_id: str) -> web.StreamResponse:
            response = await original(self, request, session_id)
            assert isinstance(response, web.Response)
            assert response.text is not None
            if when in request["asked"]:
                value = json.loads(response.text)
                change(value)
                response.text = json.dumps(value)
            return response

        setattr(routes.Routes, name, route)

    return patch


def note_bodies() -> None:
    """For :func:`changed_answers`."""
    read_json = vars(routes)["read_json"]

    async def noting(request: web.BaseRequest, most_bytes: int) -> Any:
        value = await read_json(request, most_bytes)
        request["asked"] = json.dumps(value, separators=(",", ":"))
        return value

    vars(routes)["read_json"] = noting


def put(value: Any, *path: str) -> Callable[[Any], None]:
    def change(answer: Any) -> None:
        for step in path[:-1]:
            answer = answer[step]
        answer[path[-1]] = value

    return change


def speaks_two_versions() -> None:
    body = Health(ok=True, protocol_version=1, versions=[1, 2])
    vars(routes)["Routes"]._health = lambda self: routes.answer(body)


def takes_any_token() -> None:
    vars(routes)["Routes"]._authorize = lambda self, request: None


def says_it_is_draining() -> None:
    class Refusal(RunnerRefusal):
        def __init__(self, code: ErrorCode, *rest: Any, **more: Any) -> None:
            is_full = code is ErrorCode.RUNNER_AT_CAPACITY
            super().__init__(ErrorCode.GENERATION_MISMATCH if is_full else code, *rest, **more)

    vars(calls)["RunnerRefusal"] = Refusal


def miscounts_calls() -> None:
    def answer(body: Any, *rest: Any, **more: Any) -> web.Response:
        other = DrainAnswer(draining=True, active_sessions=7)
        return original(other if isinstance(body, DrainAnswer) else body, *rest, **more)

    original = routes.answer
    vars(routes)["answer"] = answer


def forgets_the_reason() -> None:
    query_of = vars(routes)["query_of"]

    def query(request: web.BaseRequest, *names: str) -> Any:
        return {name: value for name, value in query_of(request, *names).items() if name != "reason"}

    vars(routes)["query_of"] = query


# Records


def loses_records(resumption: int) -> Wrong:
    """A stream goes on three records too late, when it is resumed for the so-manieth time."""
    first_cursor = events.first_cursor
    resumed = 0

    def cursor(journal: Journal, wanted: int | None) -> int:
        nonlocal resumed
        right = first_cursor(journal, wanted)
        resumed += bool(wanted)
        return min(right + 3, journal.newest) if wanted and resumed == resumption else right

    def patch() -> None:
        for module in (routes, events):
            vars(module)["first_cursor"] = cursor

    return patch


def skips_an_envelope() -> None:
    append = Journal.append

    def skipping(self: Journal, producer: str, seq: int, record_class: str, at: int, body: Any) -> int:
        if getattr(body, "event", "") == "draining":
            self.newest += 1
            self._lines[self.newest] = b'{"ping":0}\n'
        return append(self, producer, seq, record_class, at, body)

    vars(sys.modules[Journal.__module__])["Journal"].append = skipping


def pings_in_words() -> None:
    async def more_after(self: Journal, cursor: int, seconds: float) -> bool:
        return await waiting(self, cursor, 0.02)

    waiting = Journal.more_after
    vars(sys.modules[Journal.__module__])["Journal"].more_after = more_after
    encode_json = vars(events)["encode_json"]
    vars(events)["encode_json"] = lambda ping: encode_json({"ping": "now"})


def fails_at_the_end() -> None:
    run = vars(runner_command)["run_until_drained"]
    vars(runner_command)["run_until_drained"] = lambda runner: run(runner) + 5


# The agent


class Instead:
    """A call that takes another handler in place of one of the demo agent's."""

    def __init__(self, call: AgentCall, others: dict[str, Handler]) -> None:
        self.send = call.send
        self._call = call
        self._others = others

    def on_message(self, key: str, **options: Any) -> Callable[..., Any]:
        if key not in self._others:
            return self._call.on_message(key, **options)
        sender = options.get("sender", "client")
        self._call.on_message(key, self._others[key], sender=sender)
        return lambda function: function


async def another_voice(request: rtc.RpcInvocationData) -> str:
    if "tts" in json.loads(request.payload):
        return json.dumps({**host_demo_agent.SETTINGS, "tts": {"provider": "kugelaudio", "voice": 19}})
    raise rtc.RpcError(REFUSAL_NUMBER, "not_adjustable", '{"path":"stt.language"}')


def broken_agent(steps: list[str]) -> HostedAgent:
    async def function(call: AgentCall, context: CallContext) -> None:
        async def wrong_door(payload: Any, meta: RequestMeta) -> None:
            await call.send.to_client("show-notice", {"door": payload["door"] + 1})

        async def denied(payload: Any, meta: RequestMeta) -> Any:
            await call.send.ask_host("human.requested", {"topic": "refund"})
            return {"refund": "denied"}

        def lead(payload: Any, meta: RequestMeta) -> None:
            if not isinstance(payload["score"], int):
                raise TypeError("no number")
            call.send.to_host("lead.taken", payload)

        others: dict[str, tuple[str, Handler]] = {
            "each client asks": ("quote", lambda payload, _: {"plan": payload["plan"], "price": 13, "event": None}),
            "the host sends to each": ("ops.notice", wrong_door),
            "an agent asks the host": ("refund", denied),
            "a bad message": ("lead", lead),
        }
        instead: Any = Instead(call, dict(others[step] for step in steps if step in others))
        host_demo_agent.add_handlers(instead, context)
        if "the client's settings" in steps:
            call.room.local_participant.register_rpc_method(UPDATE, another_voice)
        if "both are connected" in steps:
            await context.until_ended()

    allowed = {side: list(paths) for side, paths in host_demo_agent.ADJUSTABLE.items()}
    if "settings it may not change" in steps:
        allowed["host"].append("tts.model")
    if "settings it may not either" in steps:
        allowed["client"].append("stt.language")
    return HostedAgent(function, settings=host_demo_agent.SETTINGS, adjustable=allowed)


def break_at_once() -> None:
    sys.stderr.write("no time for calls\n")
    sys.stderr.flush()
    os._exit(3)


WRONG: dict[str, Wrong] = {
    "runner": break_at_once,
    "health": speaks_two_versions,
    "a wrong token": takes_any_token,
    "two calls are placed": changed_answers("_start", put(False, "accepted")),
    "the same call again": changed_answers("_start", put(True, "accepted"), '"call-a"'),
    "a third call": says_it_is_draining,
    "corrected, same id": changed_answers("_message", put(False, "delivered"), '"score":1}'),
    "and again": changed_answers("_message", put(True, "delivered"), '"score":2}'),
    "the id in the other call": changed_answers("_message", put(False, "delivered"), '"score":3}'),
    "the host's settings": changed_answers("_update", put(19, "settings", "tts", "voice"), '"voice":17'),
    "the stream is cut": loses_records(1),
    "the host restarts": loses_records(2),
    "a call is stopped": forgets_the_reason,
    "the runner is drained": miscounts_calls,
    "the last caller leaves": fails_at_the_end,
    "the whole record": skips_an_envelope,
    "the schema": pings_in_words,
}

if __name__ == "__main__":
    note_bodies()
    for step in sys.argv[1:]:
        WRONG.get(step, lambda: None)()
    vars(host_demo_agent)["agent"] = broken_agent(sys.argv[1:])
    sys.argv[1:] = ["runner", "curb_client.cli.host_demo_agent:agent"]
    main()
