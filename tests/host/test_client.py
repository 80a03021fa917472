from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from curb_client.errors import (
    InvalidKeyError,
    InvalidPayloadError,
    ProtocolVersionError,
    RunnerAnswerError,
    RunnerError,
    RunnerRefusedError,
    RunnerTimeoutError,
    RunnerUnreachableError,
    UsageError,
)
from curb_client.host import Backoff, RunnerClient
from curb_client.host.answers import ERROR_CLASSES
from curb_client.protocol.contract import STATUS_BY_CODE, ErrorCode
from tests.host.scripted_runner import TOKEN, Connection, Received, Script, ScriptedRunner, scripted_runner, until

FAST = Backoff(first=0.01, most=0.02)
START: dict[str, Any] = {"session_id": "call-42", "realtime_url": "ws://livekit", "realtime_token": "room-token"}
SETTINGS = {
    "tts": {"provider": "kugelaudio", "voice": 17},
    "stt": {"provider": "azure", "language": "de"},
    "llm": {"provider": "kugelaudio", "model": "large"},
}
LIVE = {"sessionId": "call-42", "state": "connected", "startedAtMs": 5}
STATUS = {"protocolVersion": 1, "maxSessions": 4, "activeSessions": 1, "draining": False, "sessions": [LIVE]}


def client(runner: ScriptedRunner) -> RunnerClient:
    return RunnerClient(f"http://{runner.address}", TOKEN, backoff=FAST)


def always(status: int, value: object) -> Script:
    async def script(received: Received, connection: Connection) -> None:
        await connection.answer(status, value)

    return script


def in_turn(*scripts: Script) -> Script:
    left = list(scripts)

    async def script(received: Received, connection: Connection) -> None:
        await left.pop(0)(received, connection)

    return script


async def reset(received: Received, connection: Connection) -> None:
    connection.reset()


async def stall(received: Received, connection: Connection) -> None:
    await connection.gone()


@dataclass
class Case:
    ask: Callable[[RunnerClient], Awaitable[Any]]
    request: str
    body: object
    answer: tuple[int, object]
    expect: Callable[[Any], bool]


CASES = {
    "health": Case(
        lambda r: r.health(), "GET /health", None, (200, {"ok": True, "protocolVersion": 1, "versions": [1]}),
        lambda a: a.versions == [1],
    ),
    "status": Case(
        lambda r: r.status(), "GET /v1/runner", None, (200, STATUS), lambda a: a.sessions[0].state == "connected"
    ),
    "start": Case(
        lambda r: r.start_call(
            **START, deployment_id="d", configuration_version=3, client_context={"event": "w"}, direction="outbound",
            experiments={"greeting": "casual"},
        ),
        "POST /v1/sessions",
        {
            "sessionId": "call-42", "realtimeUrl": "ws://livekit", "realtimeToken": "room-token", "deploymentId": "d",
            "configurationVersion": 3, "clientContext": {"event": "w"}, "direction": "outbound",
            "experiments": {"greeting": "casual"},
        },
        (201, {"sessionId": "call-42", "accepted": True}),
        lambda a: a.accepted is True,
    ),
    "start again": Case(
        lambda r: r.start_call(**START), "POST /v1/sessions",
        {"sessionId": "call-42", "realtimeUrl": "ws://livekit", "realtimeToken": "room-token"},
        (200, {"sessionId": "call-42", "accepted": False, "later": 1}), lambda a: a.accepted is False,
    ),
    "call": Case(
        lambda r: r.call("call-42"), "GET /v1/sessions/call-42", None, (200, LIVE), lambda a: a.started_at_ms == 5
    ),
    "send": Case(
        lambda r: r.send("call-42", "human.decision", {"disposition": "allowed"}, id="m-7", in_reply_to="a-3"),
        "POST /v1/sessions/call-42/messages",
        {"id": "m-7", "name": "human.decision", "payload": {"disposition": "allowed"}, "inReplyTo": "a-3"},
        (202, {"id": "m-7", "delivered": True}), lambda a: a.delivered is True,
    ),
    "update": Case(
        lambda r: r.update("call-42", {"tts": {"voice": 17}}), "PATCH /v1/sessions/call-42", {"tts": {"voice": 17}},
        (200, {"sessionId": "call-42", "settings": SETTINGS}), lambda a: a.tts.voice == 17,
    ),
    "stop": Case(
        lambda r: r.stop_call("call-42", reason="hung up & gone", grace=2),
        "DELETE /v1/sessions/call-42?graceMs=2000&reason=hung%20up%20%26%20gone", None,
        (200, {"sessionId": "call-42", "stopped": False}), lambda a: a.stopped is False,
    ),
    "drain": Case(
        lambda r: r.drain(), "POST /v1/runner/drain", None, (202, {"draining": True, "activeSessions": 2}),
        lambda a: a.active_sessions == 2,
    ),
    "any session id": Case(
        lambda r: r.call("a/b?c%2F\u00e4 #"), "GET /v1/sessions/a%2Fb%3Fc%252F%C3%A4%20%23", None, (200, LIVE),
        lambda a: a.session_id == "call-42",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_route(name: str) -> None:
    case = CASES[name]
    async with scripted_runner(always(*case.answer)) as server, client(server) as runner:
        assert case.expect(await case.ask(runner))
    (received,) = server.requests
    assert f"{received.method} {received.target}" == case.request
    assert (json.loads(received.body) if received.body else None) == case.body
    assert received.headers.get("authorization") == (None if name == "health" else f"Bearer {TOKEN}")


async def test_ids_of_messages_are_made_where_none_is_given() -> None:
    async def script(received: Received, connection: Connection) -> None:
        await connection.answer(202, {"id": received.json()["id"], "delivered": True})

    async with scripted_runner(script) as server, client(server) as runner:
        ids = {(await runner.send("call-42", "ops.notice")).id for _ in range(3)}
    assert len(ids) == 3
    assert [request.json()["payload"] for request in server.requests] == [{}, {}, {}]


# Refusals


@pytest.mark.parametrize("code", ErrorCode)
async def test_each_code_has_a_class_named_after_it(code: ErrorCode) -> None:
    words = "".join(word.capitalize() for word in code.value.removeprefix("runner_").split("_"))
    assert ERROR_CLASSES[code].__name__ == f"Runner{words}Error"
    body = {"error": code.value, "path": "tts.voice", "issues": [{"path": ["a", 0], "message": "no"}]}
    async with scripted_runner(always(STATUS_BY_CODE[code], body)) as server, client(server) as runner:
        with pytest.raises(RunnerRefusedError, match=code.value) as raised:
            await runner.call("call-42")
    assert type(raised.value) is ERROR_CLASSES[code]
    assert (raised.value.code, raised.value.status) == (code.value, STATUS_BY_CODE[code])
    assert raised.value.path == "tts.voice"
    assert raised.value.issues[0].path == ["a", 0]
    assert len(server.requests) == 1, "what was answered is not asked again"


async def test_a_code_of_a_newer_runner() -> None:
    async with (
        scripted_runner(always(418, {"error": "tea_only", "detail": "no coffee"})) as server,
        client(server) as runner,
    ):
        with pytest.raises(RunnerRefusedError, match=r"tea_only \(no coffee\)") as raised:
            await runner.status()
    assert type(raised.value) is RunnerRefusedError


@pytest.mark.parametrize(
    "body", [b'{"error":"Session route not found"}', b'{"error":"not_found"}', b"<h1>404</h1>", b""]
)
async def test_any_404_on_a_start_is_another_version(body: bytes) -> None:
    async def script(received: Received, connection: Connection) -> None:
        await connection.raw_answer(404, body)

    async with scripted_runner(script) as server, client(server) as runner:
        with pytest.raises(ProtocolVersionError, match="another version"):
            await runner.start_call(**START)


async def test_a_runner_that_names_its_versions() -> None:
    script = always(404, {"error": "unknown_version", "versions": [2, 3]})
    async with scripted_runner(script) as server, client(server) as runner:
        with pytest.raises(ProtocolVersionError, match="it speaks 2, 3") as raised:
            await runner.start_call(**START)
    assert raised.value.body.versions == [2, 3]


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"{"), (200, b'{"state":"gone"}'), (200, b"[]"), (302, b"{}"), (404, b"no"), (200, b"\xff")],
)
async def test_what_is_no_answer_of_a_runner(status: int, body: bytes) -> None:
    async def script(received: Received, connection: Connection) -> None:
        await connection.raw_answer(status, body, "Location: /elsewhere\r\n")

    async with scripted_runner(script) as server, client(server) as runner:
        with pytest.raises(RunnerAnswerError, match=f"the answer {status} to GET /v1/sessions/call-42 ") as raised:
            await runner.call("call-42")
    assert raised.value.excerpt == body
    assert len(server.requests) == 1


async def test_an_answer_without_end() -> None:
    async def script(received: Received, connection: Connection) -> None:
        await connection.begin_stream()
        for _ in range(200):
            await connection.chunks(b"x" * 65536)

    async with scripted_runner(script) as server, client(server) as runner:
        with pytest.raises(RunnerAnswerError, match="more than the limit of 8388608 bytes"):
            await runner.status()


# Tries


async def test_what_got_no_answer_is_asked_again_the_same() -> None:
    script = in_turn(reset, always(502, "<html>"), always(202, {"id": "x", "delivered": False}))
    async with scripted_runner(script) as server, client(server) as runner:
        assert (await runner.send("call-42", "ops.notice", {"n": 1})).delivered is False
    assert len(server.requests) == 3
    assert len({request.body for request in server.requests}) == 1


async def test_a_start_that_stays_without_an_answer_may_have_been_taken() -> None:
    async with scripted_runner(reset) as server, client(server) as runner:
        with pytest.raises(RunnerUnreachableError, match=r"\(on 4 tries\); it may have taken the request") as raised:
            await runner.start_call(**START)
    assert raised.value.maybe_taken is True
    assert len(server.requests) == 4


async def test_a_silent_runner() -> None:
    async with scripted_runner(stall) as server, client(server) as runner:
        with pytest.raises(RunnerTimeoutError) as raised:
            await runner.start_call(**START, timeout=0.2)
    assert raised.value.maybe_taken is True
    assert isinstance(raised.value, TimeoutError)


async def test_nobody_listens() -> None:
    async with scripted_runner(stall) as server:
        pass
    async with client(server) as runner:
        with pytest.raises(RunnerUnreachableError) as raised:
            await runner.start_call(**START)
    assert (raised.value.maybe_taken, raised.value.refused) == (False, True)


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with scripted_runner(stall) as server, client(server) as runner:
        task = asyncio.ensure_future(runner.status())
        await until(lambda: server.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not server.open_connections)


# Mistakes of the host's own


@pytest.mark.parametrize(
    ("ask", "error", "match"),
    [
        (
            lambda r: r.start_call(**{**START, "session_id": ""}),
            UsageError,
            "no runner takes this StartCallRequest: session_id",
        ),
        (lambda r: r.start_call(**START, client_context={"a": 1}), UsageError, "client_context.a"),
        (lambda r: r.start_call(**START, configuration_version=0), UsageError, "configuration_version"),
        (lambda r: r.start_call(**START, timeout=-1), UsageError, "timeout"),
        (lambda r: r.send("c", "k" * 257), UsageError, "name"),
        (lambda r: r.send("c", "\U0001f600" * 129), InvalidKeyError, "256"),
        (lambda r: r.send("c", "k", {"a": float("nan")}), InvalidPayloadError, "a"),
        (lambda r: r.send("c", "k", [1]), UsageError, "payload"),
        (lambda r: r.send("c", "k", id="i" * 129), UsageError, "id"),
        (lambda r: r.update("c", {"tts": {"voice": float("inf")}}), InvalidPayloadError, "voice"),
        (lambda r: r.stop_call("c", grace=61), UsageError, "60000 milliseconds, not 61000"),
        (lambda r: r.call(""), UsageError, "no URL can name"),
        (lambda r: r.call(".."), UsageError, "no URL can name"),
        (lambda r: r.call("\ud800"), UsageError, "UTF-8"),
    ],
)
async def test_nothing_wrong_is_sent(ask: Any, error: type[Exception], match: str) -> None:
    async with scripted_runner(always(200, {})) as server, client(server) as runner:
        with pytest.raises(error, match=match):
            await ask(runner)
    assert not server.requests


@pytest.mark.parametrize("address", ["", "ftp://x:1", "http://", "127.0.0.1:0", "http://[::1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="the runner's address is"):
        RunnerClient(address, TOKEN)


@pytest.mark.parametrize("token", ["", "a\nb", "\u00e4"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(UsageError, match="printable ASCII"):
        RunnerClient("127.0.0.1:7071", token)


async def test_a_closed_client_is_closed() -> None:
    async with scripted_runner(always(200, {"ok": True, "protocolVersion": 1, "versions": [1]})) as server:
        runner = client(server)
        await runner.health()
        await runner.aclose()
        with pytest.raises(UsageError, match="is closed"):
            await runner.health()
        with pytest.raises(UsageError, match="is closed"):
            await anext(runner.events())
        assert len(server.requests) == 1


async def test_the_token_is_told_to_nobody_else() -> None:
    assert TOKEN not in repr(RunnerClient("127.0.0.1:7071", TOKEN))
    async with scripted_runner(reset) as server, client(server) as runner:
        with pytest.raises(RunnerError) as raised:
            await runner.start_call(**START)
    error: BaseException | None = raised.value
    while error is not None:
        assert TOKEN not in repr(error)
        assert "room-token" not in repr(error)
        error = error.__cause__
