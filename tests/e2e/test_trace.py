"""What the client and the agent's side report of themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from curb_client import AgentRefusedError, AgentState, HostRecord, HostUnavailableError, TraceEvent
from tests.e2e.conftest import SETTINGS, Stage, echo, until


class Steps:
    """A trace that keeps the parts of a step that do not change from run to run."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []

    def record(self, event: TraceEvent) -> None:
        self.events.append(event)

    def of(self, side: str, *steps: str) -> list[tuple[Any, ...]]:
        return [
            (event.step, event.key, event.payload, event.peer, event.error)
            for event in self.events
            if event.side == side and event.step in steps
        ]


NONE = "NOTHING"


def shown(steps: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(step, key, NONE if repr(payload) == NONE else payload, *rest) for step, key, payload, *rest in steps]


async def test_both_sides_report_an_exchange(stage: Stage) -> None:
    client, agent = Steps(), Steps()
    async with (
        stage.client(trace=client) as call,
        stage.agent(trace=agent, settings=SETTINGS, adjustable={"client": ["tts.voice"]}) as agent_call,
    ):
        agent_call.on_message("quote", echo)
        call.agent.on("show-form", lambda payload, meta: None)
        assert await call.agent.ask("quote", {"plan": "basic"}) == {"plan": "basic"}
        await call.agent.send("quote")
        with pytest.raises(AgentRefusedError):
            await call.agent.ask("nobody-listens")
        await call.agent.update({"tts": {"voice": 17}})
        await until(lambda: "caller" in agent_call.room.remote_participants)
        assert await agent_call.send.to_client("show-form", {"n": 1})
        assert await agent_call.send.to_client("status")
        assert not await agent_call.send.to_client("status", to="nobody")
        await until(lambda: len(client.of("client", "message")) == 2)

    assert shown(client.of("client", "ask", "answer"))[:7] == [
        ("ask", "quote", {"plan": "basic"}, "", None),
        ("answer", "quote", {"plan": "basic"}, "", None),
        ("ask", "quote", {}, "", None),
        ("answer", "quote", {}, "", None),
        ("ask", "nobody-listens", {}, "", None),
        ("answer", "nobody-listens", NONE, "", "no_handler"),
        ("ask", "curb.update", {"tts": {"voice": 17}}, "", None),
    ]
    settings = [payload for _, key, payload, *_ in client.of("client", "answer") if key == "curb.update"]
    assert [body["tts"]["voice"] for body in settings] == [17]
    assert shown(client.of("client", "message")) == [
        ("message", "show-form", {"n": 1}, "agent", None),
        ("message", "status", {}, "agent", "no handler"),
    ]
    assert shown(agent.of("agent", "request", "reply"))[:6] == [
        ("request", "quote", {"plan": "basic"}, "caller", None),
        ("reply", "quote", {"plan": "basic"}, "caller", None),
        ("request", "quote", {}, "caller", None),
        ("reply", "quote", {}, "caller", None),
        ("request", "nobody-listens", {}, "caller", None),
        ("reply", "nobody-listens", NONE, "caller", "no_handler"),
    ]
    assert shown(agent.of("agent", "send")) == [
        ("send", "show-form", {"n": 1}, "caller", None),
        ("send", "status", {}, "caller", None),
        ("send", "status", {}, "nobody", "'nobody' is not in the room"),
    ]
    asked = {event.id for event in client.events if event.step == "ask" and event.id}
    assert asked == {event.id for event in agent.events if event.step == "request" and event.id}
    assert all(event.ms is not None for event in client.events if event.step == "answer")
    assert {event.identity for event in client.events if event.step == "answer"} == {"caller"}
    assert {event.identity for event in agent.events} == {"agent"}
    assert [event.detail for event in client.events if event.step == "presence"][-1] in {"ready", "absent", "closed"}
    assert AgentState.READY.value in [event.detail for event in client.events if event.step == "presence"]


async def test_the_agent_reports_what_passes_between_it_and_its_host(stage: Stage) -> None:
    class Host:
        is_connected = True

        def __init__(self) -> None:
            self.records: list[HostRecord] = []

        def record(self, message: HostRecord) -> None:
            self.records.append(message)

    steps, host = Steps(), Host()
    async with stage.agent(trace=steps, host=host) as agent:
        agent.on_message("note", echo, sender="host")
        agent.send.to_host("human.requested", {"topic": "refund"})
        asking = asyncio.ensure_future(agent.send.ask_host("human.requested"))
        await until(lambda: len(host.records) == 2)
        await agent.receive_from_host("h-1", "answer", {"yes": True}, in_reply_to="a-2")
        assert await asking == {"yes": True}
        await agent.receive_from_host("h-2", "note", {})
    async with stage.agent(trace=steps) as agent:
        with pytest.raises(HostUnavailableError):
            await agent.send.ask_host("human.requested")
    assert shown(steps.of("agent", "to-host", "request", "reply")) == [
        ("to-host", "human.requested", {"topic": "refund"}, "host", None),
        ("to-host", "human.requested", {}, "host", None),
        ("request", "answer", {"yes": True}, "host", None),
        ("reply", "answer", NONE, "host", None),
        ("reply", "human.requested", {"yes": True}, "host", None),
        ("request", "note", {}, "host", None),
        ("reply", "note", NONE, "host", None),
        ("to-host", "human.requested", {}, "host", None),
        ("reply", "human.requested", NONE, "host", "HostUnavailableError"),
    ]


async def test_a_trace_that_fails_disturbs_nobody(stage: Stage) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))

    class Failing:
        def record(self, event: TraceEvent) -> None:
            raise LookupError("a trace of mine")

    async with stage.client(trace=Failing()) as call, stage.agent(trace=Failing()) as agent:
        agent.on_message("quote", echo)
        assert await call.agent.ask("quote", 1) == 1
    assert problems
    assert "a trace of mine" in str(problems[0]["exception"])
