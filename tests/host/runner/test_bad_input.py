"""What a host or a stranger may send that is wrong: the right answer, and the runner goes on."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from typing import Any

import pytest

from curb_client.host.runner import requests
from tests.host.agent import agent
from tests.host.runner.conftest import TOKEN, Host, RunnerFactory, check_type

START = {"sessionId": "x", "realtimeUrl": "ws://127.0.0.1:1", "realtimeToken": "t"}
MESSAGE = {"id": "m", "name": "echo", "payload": {}}
ROUTES = [
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions/x"),
    ("PATCH", "/v1/sessions/x"),
    ("DELETE", "/v1/sessions/x"),
    ("POST", "/v1/sessions/x/messages"),
    ("GET", "/v1/runner"),
    ("GET", "/v1/runner/events"),
    ("POST", "/v1/runner/drain"),
]
STRANGERS: list[dict[str, str]] = [
    {},
    {"Authorization": ""},
    {"Authorization": TOKEN},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Authorization": "Bearer "},
    {"Authorization": "Bearer \udcff\udcfe"},
]


async def raw(host: Host, data: bytes, *, half: bool = False) -> bytes:
    """All that is answered to these bytes, until the connection ends."""
    address = host.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(address[0], int(address[1]))
    try:
        writer.write(data)
        if half:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(-1), 20)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


def answered(data: bytes) -> tuple[int, Any]:
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def expect_error(host: Host, status: int, error: str, method: str, path: str, data: Any = None) -> Any:
    if data is not None and not isinstance(data, bytes):
        data = json.dumps(data).replace("Infinity", "1e999").encode()
    got, body = await host.ask(method, path, data=None if data is None else io.BytesIO(data))
    assert (got, body["error"]) == (status, error), (method, path, data, body)
    check_type(body, "ErrorBody")
    return body


async def test_a_stranger_learns_nothing(running: RunnerFactory) -> None:
    async with running(agent) as here:
        paths = [*ROUTES, ("GET", "/"), ("GET", "/v2/x"), ("TRACE", "/v1/runner"), ("GET", "/%zz"), ("OPTIONS", "*")]
        for method, path in [*paths, ("POST", "/health"), ("GET", "/health/"), ("GET", "/Health")]:
            request = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            status, body = answered(await raw(here.host, request.encode()))
            assert (status, body) == (401, {"error": "unauthorized"}), (method, path)
        for headers in STRANGERS:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            request = f"GET /v1/runner HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n"
            status, body = answered(await raw(here.host, request.encode("utf-8", "surrogateescape")))
            assert (status, body) == (401, {"error": "unauthorized"}), headers
        twice = f"GET /v1/runner HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n"
        assert answered(await raw(here.host, (twice + "\r\n").encode()))[0] == 200
        assert answered(await raw(here.host, (twice + "Authorization: Bearer x\r\n\r\n").encode()))[0] == 401
        async with here.host.http.get(here.host.url + "/health?of=a-balancer") as response:
            assert (response.status, await response.json()) == (
                200,
                {"ok": True, "protocolVersion": 1, "versions": [1]},
            )


async def test_versions_paths_and_methods(running: RunnerFactory) -> None:
    async with running(agent) as here:
        for path in ("/", "/v1", "/v2/sessions", "/sessions", "/V1/runner", "/health/", "//v1/runner"):
            body = await expect_error(here.host, 404, "unknown_version", "GET", path)
            assert body["versions"] == [1]
        for method, path in (
            ("GET", "/v1/sessions"),
            ("PUT", "/v1/sessions/x"),
            ("GET", "/v1/runner/"),
            ("GET", "/v1/nothing"),
            ("GET", "/v1/sessions/"),
            ("POST", "/v1/sessions//messages"),
            ("GET", "/v1/sessions/x/messages"),
            ("POST", "/v1/sessions/x/y"),
            ("DELETE", "/v1/runner/drain"),
            ("DELETE", "/v1/sessions%2F%7Bid%7D"),
            ("GET", "/v1/sessions%2F%7Bid%7D"),
            ("GET", "/v1/runner%2Fevents"),
        ):
            await expect_error(here.host, 404, "not_found", method, path)
        for path in ("/v1/sessions/nobody", "/v1/sessions/a%2Fb", "/v1/sessions/%E2%82%AC", "/v1/sessions/%00"):
            await expect_error(here.host, 404, "session_not_found", "GET", path)
        for target in ("/v1/sessions/%zz", "/v1/sessions/%e2%82", "/v1/sessions/%", "/v1/runner/events?from=%f"):
            request = f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            status, body = answered(await raw(here.host, request.encode()))
            assert (status, body["error"]) == (400, "invalid_request"), target
        whole = (
            f"GET http://x/v1/runner HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: bearer {TOKEN}\r\n\r\n"
        )
        assert answered(await raw(here.host, whole.encode()))[0] == 200, "as a proxy sends it"
        health = "GET http://x/health?a=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert answered(await raw(here.host, health.encode()))[0] == 200, "for which nobody needs a token"


BAD_BODIES = [b"", b"{", b"nonsense", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000, b"null", b"[]", b'"text"', b"1"]


@pytest.mark.parametrize("method_and_path", [("POST", "/v1/sessions"), ("POST", "{}/messages"), ("PATCH", "{}")])
async def test_bodies_that_are_no_json_object(running: RunnerFactory, method_and_path: tuple[str, str]) -> None:
    async with running(agent) as here:
        method, path = method_and_path
        path = path.format(f"/v1/sessions/{await here.host.connected()}")
        for data in BAD_BODIES:
            await expect_error(here.host, 400, "invalid_request", method, path, data)
        body = await expect_error(here.host, 400, "invalid_request", method, path, b"x" * (1024 * 1024 + 1))
        assert "1048576" in body["detail"]


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


BAD_STARTS: list[tuple[dict[str, Any], str]] = [
    ({"sessionId": None}, "sessionId"),
    ({"sessionId": ""}, "sessionId"),
    ({"sessionId": 7}, "sessionId"),
    ({"sessionId": "\ud800"}, "sessionId"),
    ({"realtimeUrl": ""}, "realtimeUrl"),
    ({"realtimeUrl": "no url"}, "realtimeUrl"),
    ({"realtimeUrl": "ws://"}, "realtimeUrl"),
    ({"realtimeUrl": "ftp://x"}, "realtimeUrl"),
    ({"realtimeToken": []}, "realtimeToken"),
    ({"configurationVersion": 0}, "configurationVersion"),
    ({"configurationVersion": "1"}, "configurationVersion"),
    ({"configurationVersion": True}, "configurationVersion"),
    ({"clientContext": {"n": 1}}, "clientContext"),
    ({"clientContext": "text"}, "clientContext"),
    ({"direction": "sideways"}, "direction"),
    ({"experiments": {"greeting": None}}, "experiments"),
]
BAD_MESSAGES: list[dict[str, Any]] = [
    {"id": ""},
    {"id": "x" * 129},
    {"id": 1},
    {"name": ""},
    {"name": "x" * 257},
    {"name": None},
    {"payload": []},
    {"payload": None},
    {"payload": {"deep": "\udfff"}},
    {"payload": {"n": float("inf")}},
    {"payload": {"\ud800": 1}},
    {"payload": {"deep": nested(200)}},
    {"inReplyTo": ""},
    {"inReplyTo": None},
]


async def test_bodies_that_do_not_fit(running: RunnerFactory) -> None:
    async with running(agent, max_sessions=1) as here:
        host = here.host
        path = f"/v1/sessions/{await host.connected()}/messages"
        for change, where in BAD_STARTS:
            body = await expect_error(host, 400, "invalid_request", "POST", "/v1/sessions", {**START, **change})
            assert body["issues"][0]["path"][0] == where, body
        for name in START:
            without = {key: value for key, value in START.items() if key != name}
            body = await expect_error(host, 400, "invalid_request", "POST", "/v1/sessions", without)
            assert body["issues"][0]["path"] == [name]
        for change in BAD_MESSAGES:
            await expect_error(host, 400, "invalid_request", "POST", path, {**MESSAGE, **change})
        fine = {**MESSAGE, "payload": {"n": 2**60, "deep": nested(190)}, "ofALaterVersion": "\ud800"}
        assert (await host.ask("POST", path, fine))[0] == 202
        for query in ("graceMs=-1", "graceMs=60001", "graceMs=1.5", "graceMs=", "graceMs=1&graceMs=1", "reason=%ff"):
            await expect_error(host, 400, "invalid_request", "DELETE", f"{path.removesuffix('/messages')}?{query}")
        assert (await host.ask("GET", "/v1/runner"))[1]["activeSessions"] == 1, "no such stop ended the call"


async def test_a_large_request_does_not_get_a_larger_answer(running: RunnerFactory) -> None:
    async with running(agent) as here:
        path = f"/v1/sessions/{await here.host.connected()}"
        unknown = {f"setting-{number}": 1 for number in range(40_000)}
        body = await expect_error(here.host, 422, "invalid_settings", "PATCH", path, unknown)
        assert len(body["issues"]) == 32
        assert body["detail"].endswith("; and 39995 more")
        wrong = {"clientContext": {f"key-{number}": 1 for number in range(40_000)}}
        body = await expect_error(here.host, 400, "invalid_request", "POST", "/v1/sessions", {**START, **wrong})
        assert len(body["issues"]) == 32
        body = await expect_error(here.host, 422, "invalid_settings", "PATCH", path, {"k" * 40_000: 1})
        assert len(body["detail"]) == 2000


AUTHORIZED = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
BROKEN = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\r\n\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /v1/runner HTTP/1.1\r\nNo colon\r\n\r\n",
    b"GET /v1/runner HTTP/1.1\r\nAuthorization: Bearer " + TOKEN.encode() + b"\x00\r\n\r\n",
    b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /v1/runner HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
    b"GET /v1/runner HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
    b"POST /v1/sessions HTTP/1.1\r\n" + AUTHORIZED + b"Content-Length: x\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\n" + AUTHORIZED + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
    b"POST /v1/sessions HTTP/1.1\r\n" + AUTHORIZED + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    b"POST /v1/sessions HTTP/1.1\r\n"
    + AUTHORIZED
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
]


async def test_broken_http(running: RunnerFactory, caplog: pytest.LogCaptureFixture) -> None:
    async with running(agent) as here:
        with caplog.at_level(logging.DEBUG):
            for data in BROKEN:
                answer = await raw(here.host, data, half=True)
                if answer:
                    assert answered(answer)[0] in (400, 401), data
                assert (await here.host.ask("GET", "/v1/runner"))[0] == 200, data
            short = b"POST /v1/sessions HTTP/1.1\r\n" + AUTHORIZED + b"Content-Length: 50\r\n\r\n{"
            await raw(here.host, short, half=True)
            assert (await here.host.ask("GET", "/v1/runner"))[0] == 200
        assert TOKEN not in caplog.text
        assert "Traceback" not in caplog.text


async def test_expect_100_continue(running: RunnerFactory) -> None:
    async with running(agent) as here:
        head = b"POST /v1/sessions HTTP/1.1\r\n" + AUTHORIZED + b"Connection: close\r\nExpect: 100-continue\r\n"
        answer = await raw(here.host, head + b"Content-Length: 2\r\n\r\n{}")
        first, _, second = answer.partition(b"\r\n\r\n")
        assert first == b"HTTP/1.1 100 Continue"
        assert answered(second)[0] == 400


async def test_a_body_that_does_not_come(running: RunnerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.2)
    async with running(agent) as here:
        head = b"POST /v1/sessions HTTP/1.1\r\n" + AUTHORIZED + b"Connection: close\r\nContent-Length: 20\r\n\r\n{"
        status, body = answered(await raw(here.host, head))
        assert (status, body["error"]) == (400, "invalid_request")
        assert "0.2 s" in body["detail"]
