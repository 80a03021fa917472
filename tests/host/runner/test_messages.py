"""Messages between a host and a call's agent, settings, and what the record tells of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from pydantic import BaseModel

from curb_client import AgentCall
from curb_client.host import CallContext, HostedAgent
from tests.host.agent import ADJUSTABLE, SETTINGS, agent
from tests.host.runner.conftest import Host, RunnerFactory, check_type, until


async def send(host: Host, session_id: str, message_id: str, name: str, payload: Any = None, **more: Any) -> Any:
    body = {"id": message_id, "name": name, "payload": payload or {}, **more}
    return await host.ask("POST", f"/v1/sessions/{session_id}/messages", body)


async def test_refusals_have_their_code_and_leave_the_id_free(running: RunnerFactory) -> None:
    class Lead(BaseModel):
        score: int

    def function(call: AgentCall, context: CallContext) -> None:
        call.on_message("lead", lambda payload, meta: 1 // payload.score, sender="host", schema=Lead)

    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        status, body = await send(host, session_id, "m-1", "lead", {"score": "high"})
        check_type(body, "ErrorBody")
        assert (status, body["error"], body["issues"][0]["path"]) == (422, "invalid_payload", ["score"])
        assert body["detail"].startswith("invalid_payload: ")
        status, body = await send(host, session_id, "m-1", "lead", {"score": 0})
        assert (status, body["error"]) == (422, "handler_failed")
        status, body = await send(host, session_id, "m-1", "nobody-listens")
        assert (status, body["error"]) == (422, "no_handler")
        assert await send(host, session_id, "m-1", "lead", {"score": 1}) == (202, {"id": "m-1", "delivered": True})
        assert await send(host, session_id, "m-1", "lead", {"score": 1}) == (202, {"id": "m-1", "delivered": False})
        other = await host.connected()
        assert (await send(host, other, "m-1", "lead", {"score": 1}))[1]["delivered"], "ids are each call's own"
        assert (await send(host, "nobody", "m-1", "lead"))[0] == 404
        told = [(event["key"], event.get("code")) for event in stream.events(session_id, "curb.message")]
        assert told == [
            ("lead", "invalid_payload"),
            ("lead", "handler_failed"),
            ("nobody-listens", "no_handler"),
            ("lead", None),
        ]


async def test_asks_and_messages_to_the_host(running: RunnerFactory) -> None:
    async with running(agent) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()

        def asks() -> list[dict[str, Any]]:
            return [record["body"] for record in stream.of(session_id) if record["class"] == "host"]

        async with host.caller(session_id) as caller:
            ask = {"name": "human.requested", "payload": {"topic": "refund"}, "timeout": 30}
            asking = asyncio.ensure_future(caller.agent.ask("ask-host", ask, timeout=30))
            await until(lambda: len(asks()) == 1)
            (told,) = asks()
            assert {**told, "seq": 0, "at": 0} == {
                "type": "host",
                "seq": 0,
                "at": 0,
                "id": "a-1",
                "name": "human.requested",
                "payload": {"topic": "refund"},
                "expectsReply": True,
            }
            reply = await send(host, session_id, "m-1", "human.decision", {"allowed": True}, inReplyTo="a-1")
            assert reply == (202, {"id": "m-1", "delivered": True})
            assert await asking == {"answer": {"allowed": True}}
            late = await send(host, session_id, "m-2", "human.decision", {"allowed": True}, inReplyTo="a-1")
            assert late[1]["error"] == "no_handler", "a late reply is a message like any other"
            assert await caller.agent.ask("ask-host", {**ask, "timeout": 0.1}) == {"error": "HostTimeoutError"}

            noticed = caller.agent.wait_for("noticed", timeout=20)
            await send(host, session_id, "m-3", "notice", {"text": "x"})
            assert await noticed == {"text": "x"}
            await until(lambda: (asks()[-1]["name"], asks()[-1]["expectsReply"]) == ("thanks", False))
        await stream.until_ended(session_id)
        ways = [(e["direction"], e["key"], e.get("reply")) for e in stream.events(session_id, "curb.message")]
        assert sorted(ways[:3]) == [
            ("fromClient", "ask-host", {"answer": {"allowed": True}}),
            ("fromHost", "human.decision", None),
            ("toHost", "human.requested", {"allowed": True}),
        ]
        assert sorted(ways[-3:]) == [
            ("fromHost", "notice", None),
            ("toClient", "noticed", None),
            ("toHost", "thanks", None),
        ]


async def test_messages_to_a_starting_call_are_held_in_order(
    running: RunnerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    may_begin = asyncio.Event()

    async def function(call: AgentCall, context: CallContext) -> None:
        answer = await call.send.ask_host("may-i", timeout=30)
        call.on_message("note", lambda payload, meta: heard.append(meta.id), sender="host")
        heard.append(answer["word"])
        await may_begin.wait()

    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        await host.start("starting")
        for number in range(31):
            message = (f"m-{number}", "note")
            assert (await send(host, "starting", *message)) == (202, {"id": message[0], "delivered": True})
        assert (await send(host, "starting", "m-0", "note"))[1]["delivered"] is False
        assert (await send(host, "starting", "m-31", "nobody-listens"))[0] == 202
        status, body = await send(host, "starting", "m-32", "note")
        assert (status, body["error"]) == (409, "runner_at_capacity")
        await until(lambda: [record["class"] for record in stream.of("starting")].count("host") == 1)
        assert (await send(host, "starting", "r-1", "reply", {"word": "yes"}, inReplyTo="a-1"))[0] == 202
        await until(lambda: heard == ["yes"])
        again = await send(host, "starting", "r-1", "reply", {"word": "yes"}, inReplyTo="a-1")
        assert again == (202, {"id": "r-1", "delivered": False})
        may_begin.set()
        await host.until_state("starting", "connected")
        assert (await send(host, "starting", "m-32", "note")) == (202, {"id": "m-32", "delivered": True})
        assert heard == ["yes", *(f"m-{number}" for number in range(31)), "m-32"]
        assert (await send(host, "starting", "m-5", "note"))[1]["delivered"] is False
        await host.ask("DELETE", "/v1/sessions/starting")
        await stream.until_ended("starting")
        assert stream.event("starting", "curb.messages")["refusedQueuedHostMessages"] == 1
        assert "the host message 'nobody-listens' (id m-31), held until now, was refused: no_handler" in caplog.text


async def test_what_is_held_when_the_call_cannot_be_joined_is_counted(running: RunnerFactory) -> None:
    async with running(agent) as here, here.host.stream() as stream:
        host = here.host
        await host.start("unjoinable", realtimeToken="no token")
        status, _ = await send(host, "unjoinable", "m-1", "note")
        await stream.until_ended("unjoinable")
        assert stream.event("unjoinable", "curb.messages")["refusedQueuedHostMessages"] == (1 if status == 202 else 0)
        status, body = await send(host, "unjoinable", "m-2", "note")
        assert (status, body["error"]) == (404, "session_not_found")


async def test_settings(running: RunnerFactory) -> None:
    may_begin = asyncio.Event()

    async def function(call: AgentCall, context: CallContext) -> None:
        await may_begin.wait()
        call.on_message("voice", lambda payload, meta: call.settings.tts.voice)

    hosted = HostedAgent(function, settings=SETTINGS, adjustable=ADJUSTABLE)
    async with running(hosted) as here, here.host.stream() as stream:
        host, path = here.host, "/v1/sessions/settings"
        await host.start("settings")
        status, body = await host.ask("PATCH", path, {"tts": {"voice": 17}})
        assert (status, body["settings"]["tts"]["voice"]) == (200, 17)
        check_type(body, "SettingsAnswer")
        may_begin.set()
        await host.until_state("settings", "connected")
        async with host.caller("settings") as caller:
            assert await caller.agent.ask("voice") == 17
            await caller.agent.update({"tts": {"voice": 18}})
            status, body = await host.ask("PATCH", path, {"stt": {"language": "de"}, "llm": {"provider": "openai"}})
            assert (status, body["error"]) == (422, "invalid_settings")
            status, body = await host.ask("PATCH", path, {"stt": {"language": "de"}, "tts": {"model": "v2"}})
            assert (status, body["error"], body["path"]) == (403, "not_adjustable", "tts.model")
            status, body = await host.ask("PATCH", path, {"tts": {"voice": "alloy"}})
            assert (status, body["issues"][0]["path"]) == (422, ["tts", "voice"])
            status, body = await host.ask("PATCH", path, {"stt": {"language": "de"}})
            assert (status, body["settings"]["stt"]["language"], body["settings"]["tts"]["voice"]) == (200, "de", 18)
            await host.ask("PATCH", path, {})
        await stream.until_ended("settings")
        changes = stream.events("settings", "curb.settings")
        assert [(change["origin"], change["settings"]["tts"]["voice"]) for change in changes] == [
            ("host", 17),
            ("client", 18),
            ("host", 18),
        ]
        assert stream.names("settings")[0] == "curb.started"
        assert (await host.ask("PATCH", path, {}))[0] == 404


async def test_what_is_on_record_of_payloads(running: RunnerFactory) -> None:
    def function(call: AgentCall, context: CallContext) -> None:
        call.on_message("echo", lambda payload, meta: payload)
        call.on_message("tell", lambda payload, meta: call.send.to_client("told", {"to": "nobody"}), sender="host")

    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        await send(host, session_id, "m-1", "tell")
        await send(host, session_id, "m-2", "tell")
        fits, over = {"text": "x" * (4096 - 11)}, {"text": "ü" * 2500}
        async with host.caller(session_id) as caller:
            await caller.agent.ask("echo", fits, message_id="same")
            await caller.agent.ask("echo", fits, message_id="same")
            await caller.agent.ask("echo", over)
        await stream.until_ended(session_id)
        first, second = (e for e in stream.events(session_id, "curb.message") if e["key"] == "echo")
        assert (first["payload"], first["reply"], first.get("truncated")) == (fits, fits, None)
        cut = '{"text":"' + "ü" * 2043
        assert (second["payload"], second["reply"], second["truncated"]) == (cut, cut, True)
        assert len(cut.encode()) == 4095, "a character is not cut in two"
        assert stream.event(session_id, "curb.messages")["undeliveredToClient"] == {"told": 2}
        assert not [e for e in stream.events(session_id, "curb.message") if e["direction"] == "toClient"]


async def test_an_endpoint_is_told_without_its_credentials(running: RunnerFactory) -> None:
    def function(call: AgentCall, context: CallContext) -> None:
        call.on_message("endpoint", lambda payload, meta: call.settings.llm.base_url)

    llm = {"provider": "openai-compatible", "model": "large", "baseURL": "https://me:secret@llm.internal:8443/v1"}
    settings = {"tts": {"provider": "x"}, "stt": {"provider": "y"}, "llm": llm}
    hosted = HostedAgent(function, settings=settings, adjustable={"host": ["stt.language"]})
    async with running(hosted) as here, here.host.stream() as stream:
        session_id = await here.host.connected()
        status, body = await here.host.ask("PATCH", f"/v1/sessions/{session_id}", {"stt": {"language": "de"}})
        assert (status, body["settings"]["llm"]["baseURL"]) == (200, "https://llm.internal:8443/v1")
        await until(lambda: stream.events(session_id, "curb.settings"))
        assert stream.event(session_id, "curb.settings")["settings"] == body["settings"]
        async with here.host.caller(session_id) as caller:
            assert await caller.agent.ask("endpoint") == llm["baseURL"], "for the agent, which needs them"


async def test_two_calls_do_not_see_each_others_messages(running: RunnerFactory) -> None:
    async with running(agent) as here, here.host.stream() as stream:
        host = here.host
        first, second = await host.connected(), await host.connected()
        async with host.caller(first) as caller, host.caller(second) as other:
            heard: list[Any] = []
            other.agent.on("noticed", lambda payload, meta: heard.append(payload))
            noticed = caller.agent.wait_for("noticed", timeout=20)
            await send(host, first, "m-1", "notice", {"for": "the first"})
            assert await noticed == {"for": "the first"}
            assert await other.agent.ask("echo", 1) == 1
            assert heard == []
        await stream.until_ended(second)
        assert "thanks" in stream.names(first)
        assert stream.names(second) == ["curb.started", "curb.message", "curb.messages", "curb.ended"]


async def test_failures_of_the_agent_reach_its_log_with_the_session(
    running: RunnerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(agent) as here:
        session_id = await here.host.connected()
        with caplog.at_level(logging.ERROR):
            assert (await send(here.host, session_id, "m-1", "fail"))[1]["error"] == "handler_failed"
    assert "as it was told to" in caplog.text
