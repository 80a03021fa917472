"""The scripted agent in a room, asked by an app."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import curb_client
from curb_client import AgentRefusedError, AgentUnavailableError, RoomInUseError, UnexpectedRequestError, UsageError
from curb_client.errors import MessageTimeoutError
from curb_client.testing.scripted import ScriptedAgent, Send
from tests.e2e.conftest import SETTINGS, Stage, code_of, until
from tests.e2e.test_trace import Steps

EXAMPLE = Path(__file__).parents[2] / "examples" / "scripted-agent.yaml"


@asynccontextmanager
async def on_stage(agent: ScriptedAgent, stage: Stage, **options: Any) -> AsyncIterator[curb_client.AgentClient]:
    """The client of an app in a room with the agent."""
    async with stage.client() as call, agent.join(stage.url, stage.token("agent", kind="agent"), **options):
        yield call.agent


class Messages(list[tuple[str, Any]]):
    """What a client hears of these keys, from before it joins."""

    def __init__(self, client: curb_client.AgentClient, *keys: str) -> None:
        super().__init__()
        for key in keys:
            client.on(key, lambda payload, meta, key=key: self.append((key, payload)))  # type: ignore[misc]


# Answers


async def test_it_replies_as_scripted(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.reply("quote", {"price": 20}, when={"plan": "gold"})
    agent.reply("quote", {"price": 0}, when=lambda payload: payload.get("seats") == 0)
    agent.reply("quote", "sold out", times=1)
    agent.reply("quote", {"price": 12})
    agent.reply("note")
    async with on_stage(agent, stage) as client:
        assert await client.ask("quote", {"plan": "gold", "seats": 2}) == {"price": 20}
        assert await client.ask("quote", {"plan": "basic", "seats": 0}) == {"price": 0}
        assert await client.ask("quote", {"plan": "basic"}) == "sold out"
        assert await client.ask("quote", {"plan": "basic"}) == {"price": 12}
        assert await client.ask("note", None) is None
        assert agent.received_payloads("quote")[1:] == [{"plan": "basic", "seats": 0}, *[{"plan": "basic"}] * 2]
        assert [request.sender_identity for request in agent.received] == ["caller"] * 5
    agent.check()


async def test_functions_reply(stage: Stage) -> None:
    agent = ScriptedAgent()

    def plain(payload: Any, meta: curb_client.RequestMeta) -> Any:
        return {"plan": payload.pop("plan"), "from": meta.sender_identity}

    async def slow(payload: Any, meta: curb_client.RequestMeta) -> Any:
        await asyncio.sleep(0.01)
        return meta.id

    agent.reply("plain", plain)
    agent.reply("slow", slow)
    async with on_stage(agent, stage) as client:
        assert await client.ask("plain", {"plan": "gold"}) == {"plan": "gold", "from": "caller"}
        assert await client.ask("slow", message_id="m-1") == "m-1"
    assert agent.received_payloads("plain") == [{"plan": "gold"}], "what came, whatever the function did to it"


async def test_a_function_that_raises_is_logged_and_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    agent = ScriptedAgent()

    def fail(payload: Any, meta: Any = None) -> Any:
        raise LookupError(f"no {payload}")

    agent.reply("reply", fail)
    agent.reply("when", 1, when=fail)
    agent.reply("unwritable", lambda payload, meta: {1, 2})
    async with on_stage(agent, stage) as client:
        assert await code_of(client.ask("reply", "shelf")) == "handler_failed"
        assert await code_of(client.ask("when", "time")) == "handler_failed"
        assert await code_of(client.ask("unwritable")) == "handler_failed"
    logged = [record for record in caplog.records if record.name == "curb_client" and record.levelno == logging.ERROR]
    assert [str(record.exc_info and record.exc_info[1]) for record in logged[:2]] == ["no shelf", "no time"]
    assert "is of type set" in logged[2].getMessage()
    agent.check()


async def test_it_refuses_as_scripted(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.refuse("claim", "invalid_payload", issues=[{"path": ["items", 0, "name"], "message": "required"}], times=1)
    agent.refuse("claim", "no_handler", when={"closed": True})
    agent.refuse("claim", "handler_failed", then=Send("status", {"text": "failed"}))
    async with on_stage(agent, stage) as client:
        status = client.wait_for("status", timeout=10)
        with pytest.raises(AgentRefusedError) as refused:
            await client.ask("claim")
        assert refused.value.code == "invalid_payload"
        assert [issue.to_wire() for issue in refused.value.issues] == [
            {"path": ["items", 0, "name"], "message": "required"}
        ]
        assert await code_of(client.ask("claim", {"closed": True})) == "no_handler"
        assert await code_of(client.ask("claim")) == "handler_failed"
        assert await status == {"text": "failed"}
    assert agent.unexpected == [], "it was scripted to refuse"


async def test_what_is_not_scripted_is_refused_and_told(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.reply("quote", 12, when={"plan": "basic"}, times=1)
    async with on_stage(agent, stage) as client:
        assert await client.ask("quote", {"plan": "basic"}) == 12
        agent.check()
        assert await code_of(client.ask("qoute", {"plan": "basic"})) == "no_handler"
        assert await code_of(client.ask("quote", {"plan": "basic"})) == "no_handler"
        assert [request.key for request in agent.unexpected] == ["qoute", "quote"]
    with pytest.raises(UnexpectedRequestError, match=r"'qoute' .* from 'caller': no rule has this key"):
        agent.check()
    assert [request.key for request in agent.received] == ["quote", "qoute", "quote"]


async def test_a_repeated_id_is_answered_from_memory_and_uses_no_rule(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.refuse("quote", "invalid_payload", when={"plan": ""})
    agent.reply("quote", 1, times=1)
    agent.reply("quote", 2)
    async with on_stage(agent, stage) as client:
        assert await code_of(client.ask("quote", {"plan": ""}, message_id="m-1")) == "invalid_payload"
        for _ in range(2):
            assert await client.ask("quote", {"plan": "gold"}, message_id="m-1") == 1
        assert await client.ask("quote", {"plan": "gold"}, message_id="m-2") == 2
    assert agent.received_payloads("quote") == [{"plan": plan} for plan in ("", "gold", "gold")]


async def test_a_delay_holds_up_its_own_answer_only(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.reply("slow", "slow", after=0.3)
    agent.reply("quick", "quick")
    async with on_stage(agent, stage) as client:
        slow = asyncio.ensure_future(client.ask("slow"))
        assert await agent.wait_for("slow") == {}
        assert await client.ask("quick") == "quick"
        assert not slow.done()
        assert await slow == "slow"


# Messages


async def test_a_rule_sends_messages_to_all_clients(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.reply("open", "ok", then=[Send("late", {"n": 1}, after=0.3), Send("form", {"n": 2}), Send("status")])
    async with stage.client("other") as other, on_stage(agent, stage) as client:
        heard, heard_by_other = (Messages(each, "form", "status", "late") for each in (client, other.agent))
        await until(lambda: len(agent.call.room.remote_participants) == 2)
        assert await client.ask("open") == "ok"
        await until(lambda: len(heard) == len(heard_by_other) == 3)
        assert heard == heard_by_other == [("form", {"n": 2}), ("status", {}), ("late", {"n": 1})]
        assert await agent.send("form", {"n": 3}, to="caller")
        await until(lambda: len(heard) == 4)
        assert len(heard_by_other) == 3


async def test_each_client_that_joins_is_greeted_once(stage: Stage) -> None:
    steps = Steps()
    agent = ScriptedAgent(trace=steps)
    agent.on_join_send("hello", {"text": "hi"})
    agent.on_join_send("form", {"n": 1}, after=0.1)
    first, second = (curb_client.join(stage.url, stage.token(name)) for name in ("first", "second"))
    heard, heard_by_second = (Messages(call.agent, "hello", "form") for call in (first, second))
    async with first, agent.join(stage.url, stage.token("agent", kind="agent")), stage.agent("another-agent"):
        await until(lambda: len(heard) == 2, what="the greeting of the one who was there")
        async with second:
            await until(lambda: len(heard_by_second) == 2, what="the greeting of the one who came")
            await until(lambda: len(agent.call.room.remote_participants) == 3)
    assert heard == heard_by_second == [("hello", {"text": "hi"}), ("form", {"n": 1})]
    assert [peer for _, _, _, peer, _ in steps.of("agent", "send")] == ["first", "first", "second", "second"]


async def test_what_is_delayed_ends_with_the_call(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.on_join_send("greeting", after=60)
    agent.reply("open", then=Send("form", after=60))
    agent.reply("slow", after=60)
    async with stage.client() as call:
        before = asyncio.all_tasks()
        async with agent.join(stage.url, stage.token("agent", kind="agent")):
            await call.agent.ask("open")
            slow = asyncio.ensure_future(code_of(call.agent.ask("slow", timeout=30)))
            await agent.wait_for("slow")
            pending = {handle for handle in agent._here._timers if not handle.cancelled()}
            assert len(pending) == 2
        assert all(handle.cancelled() for handle in pending)
        await asyncio.wait({slow}, timeout=10)
        assert slow.exception() is not None, "LiveKit's error for an agent that left"
        await until(lambda: asyncio.all_tasks() <= before | {slow}, what="the end of the agent's tasks")


# The call


async def test_settings_are_changed_as_far_as_the_script_allows(stage: Stage) -> None:
    agent = ScriptedAgent(settings=SETTINGS, adjustable={"client": ["tts.voice"]})
    async with on_stage(agent, stage) as client:
        assert (await client.update({"tts": {"voice": 17}})).tts.voice == 17
        assert agent.call.settings.tts.voice == 17
        assert await code_of(client.update({"stt": {"language": "de"}})) == "not_adjustable"
    assert agent.received == []


async def test_the_script_may_change_during_the_call(stage: Stage) -> None:
    agent = ScriptedAgent()
    async with on_stage(agent, stage) as client:
        assert await code_of(client.ask("quote")) == "no_handler"
        agent.reply("quote", 12)
        assert await client.ask("quote") == 12
        agent.clear("quote")
        assert await code_of(client.ask("quote")) == "no_handler"
        agent.reply("quote", 20)
        assert await client.ask("quote") == 20


async def test_it_may_leave_and_come_again(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.reply("quote", 12)
    async with stage.client() as call:
        for name in ("first", "second"):
            async with agent.join(stage.url, lambda name=name: stage.token(name, kind="agent")):  # type: ignore[misc]
                await until(lambda name=name: call.agent.presence.identity == name)
                assert await call.agent.ask("quote", message_id="m-1") == 12
        with pytest.raises(UsageError, match="in no room"):
            _ = agent.call
        await until(lambda: not call.agent.presence.is_there)
        with pytest.raises(AgentUnavailableError):
            await call.agent.ask("quote", timeout=0.1)
    assert len(agent.received) == 2, "an id is unique in one call only"


async def test_it_takes_a_room_that_is_there(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    agent, another = ScriptedAgent(), ScriptedAgent()
    agent.reply("quote", 12)
    async with (
        stage.room("helper") as room,
        stage.client(agent_identity="helper") as call,
        stage.client("supervisor", agent_identity="helper") as supervisor,
        agent.in_room(room, client_identity="caller"),
    ):
        with pytest.raises(RoomInUseError):
            await another.in_room(room).__aenter__()
        with pytest.raises(UsageError, match="in a room already; make another one"):
            await agent.in_room(room).__aenter__()
        assert await call.agent.ask("quote") == 12
        assert await code_of(supervisor.agent.ask("quote")) == "no_handler"
        assert [request.sender_identity for request in agent.received] == ["caller"]
        agent.check()
        async with another.join(stage.url, stage.token("standard")):
            pass
    assert [record.getMessage() for record in caplog.records if record.name == "curb_client"] == [
        "the scripted agent's token is not of kind agent; apps find it only by its identity"
    ]
    with pytest.raises(UsageError, match="the room is not connected"):
        await agent.in_room(room).__aenter__()


async def test_the_named_client_alone_is_greeted(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.on_join_send("hello")
    async with stage.client("supervisor") as supervisor:
        caller = curb_client.join(stage.url, stage.token("caller"))
        heard, heard_by_supervisor = (Messages(call.agent, "hello") for call in (caller, supervisor))
        async with agent.join(stage.url, stage.token("agent", kind="agent"), client_identity="caller"), caller:
            await until(lambda: heard)
            assert await agent.send("hello")
            await until(lambda: len(heard) == 2)
    assert heard_by_supervisor == []


async def test_the_app_sends_in_its_own_time(stage: Stage) -> None:
    agent = ScriptedAgent()
    agent.reply("quote", 12)
    async with on_stage(agent, stage) as client:

        async def app() -> None:
            for plan in ("basic", "gold"):
                await client.send("quote", {"plan": plan})

        running = asyncio.ensure_future(app())
        assert [(await agent.wait_for("quote"))["plan"] for _ in range(2)] == ["basic", "gold"]
        with pytest.raises(MessageTimeoutError, match=r"no message 'claim' within 0.1 s; it sent 'quote' \(2\)"):
            await agent.wait_for("claim", timeout=0.1)
        await running


async def test_the_example_file(stage: Stage) -> None:
    agent = ScriptedAgent.from_file(EXAMPLE)
    call = curb_client.join(stage.url, stage.token("caller"))
    client, heard = call.agent, Messages(call.agent, "hello", "show-form", "claim-submitted", "status")
    async with agent.join(stage.url, stage.token("agent", kind="agent")), call:
        await until(lambda: heard == [("hello", {"text": "hi"})], what="the greeting")
        assert await client.ask("quote", {"plan": "gold"}) == {"price": 20}
        assert await client.ask("quote", {"plan": "basic"}) == {"price": 12}
        await client.send("open-form")
        with pytest.raises(AgentRefusedError, match="invalid_payload: name: required"):
            await client.ask("claim", {"name": "", "policy": 1})
        assert await client.ask("claim", {"name": "Ada"}) == {"number": 4711}
        assert await code_of(client.ask("flaky")) == "handler_failed"
        assert await client.ask("flaky") == {"ok": True}
        assert await client.ask("slow") == {"ok": True}
        assert await client.ask("note", [1, 2]) is None
        assert (await client.update({"tts": {"voice": 17}})).tts.voice == 17
        await until(lambda: len(heard) == 4, what="the messages")
    assert heard[1:] == [
        ("show-form", {"fields": ["name", "policy"]}),
        ("claim-submitted", {"number": 4711}),
        ("status", {"text": "checking"}),
    ]
    agent.check()
