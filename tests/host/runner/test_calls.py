"""A call from start to end, over HTTP and in a real room."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from livekit import rtc

from curb_client import AgentCall
from curb_client.errors import UsageError
from curb_client.host import CallContext, HostedAgent
from curb_client.host.runner import absence as absence_module
from curb_client.host.runner import call as call_module
from curb_client.protocol.experiments import assign_experiments
from tests.host.agent import EXPERIMENTS, SETTINGS, agent
from tests.host.runner.conftest import RunnerFactory, check_type, until


async def test_a_call_from_start_to_end(running: RunnerFactory) -> None:
    async with running(agent, deployment_id="d-1", configuration_version=3) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected(direction="outbound", clientContext={"event": "webinar"}, deploymentId="d-1")
        assert (await host.start(session_id)) == (200, {"sessionId": session_id, "accepted": False})
        _, answer = await host.ask("GET", "/v1/runner")
        check_type(answer, "RunnerStatus")
        (live,) = answer.pop("sessions")
        check_type(live, "LiveCall")
        assert (live["sessionId"], live["state"]) == (session_id, "connected")
        assert answer == {
            "protocolVersion": 1,
            "deploymentId": "d-1",
            "configurationVersion": 3,
            "maxSessions": 4,
            "activeSessions": 1,
            "draining": False,
        }
        async with host.caller(session_id) as caller:
            assert await caller.agent.ask("quote", {"plan": "basic"}) == {"plan": "basic", "price": 12}
            assert await caller.agent.ask("context") == {
                "session": session_id,
                "direction": "outbound",
                "client": {"event": "webinar"},
                "experiments": {},
                "settings": SETTINGS,
            }
            await caller.agent.send("say", {"role": "user", "text": "Grüße"})
        await stream.until_ended(session_id)
        assert stream.names(session_id) == [
            "curb.started",
            "curb.message",
            "curb.message",
            "turn",
            "curb.message",
            "curb.messages",
            "curb.ended",
        ]
        records = stream.of(session_id)
        assert [record["seq"] for record in records] == [record["body"]["seq"] for record in records] == [*range(1, 8)]
        assert [record["at"] for record in records] == [record["body"]["at"] for record in records]
        assert stream.event(session_id, "curb.started") == {"direction": "outbound"}
        assert (records[3]["body"]["role"], records[3]["body"]["text"]) == ("user", "Grüße")
        nothing = {"undeliveredToClient": {}, "refusedQueuedHostMessages": 0}
        assert stream.event(session_id, "curb.messages") == nothing
        assert stream.event(session_id, "curb.ended") == {"reason": "caller_left"}
        assert (await host.ask("DELETE", f"/v1/sessions/{session_id}"))[1] == {
            "sessionId": session_id,
            "stopped": False,
        }
        assert (await host.start(session_id))[1]["accepted"] is False, "it is held until its end leaves the window"


async def test_why_calls_end(running: RunnerFactory) -> None:
    async def function(call: AgentCall, context: CallContext) -> None:
        if context.client_context.get("do") == "raise":
            raise RuntimeError("as it was told to")
        if context.client_context.get("do") == "end":
            await call.ready()
            context.end()
            context.end("too late")
        if context.client_context.get("do") == "run":
            await call.ready()
            assert await context.until_ended() == "stopped"

    async with running(function, max_sessions=6) as here, here.host.stream() as stream:
        host = here.host
        await host.start("raising", clientContext={"do": "raise"})
        await host.start("ending", clientContext={"do": "end"})
        await host.start("unjoinable", realtimeToken="no token")
        stopped = await host.connected(clientContext={"do": "run"})
        assert await host.ask("DELETE", f"/v1/sessions/{stopped}") == (200, {"sessionId": stopped, "stopped": True})
        assert (await host.ask("DELETE", "/v1/sessions/nobody"))[1] == {"sessionId": "nobody", "stopped": False}
        named = await host.connected()
        await host.ask("DELETE", f"/v1/sessions/{named}?reason=caller%20hung+up%21")
        closed = await host.connected()
        from livekit import api

        async with api.LiveKitAPI(
            host.livekit.url.replace("ws", "http", 1), host.livekit.api_key, host.livekit.api_secret
        ) as livekit:
            await livekit.room.delete_room(api.DeleteRoomRequest(room=closed))
        reasons = {
            "raising": "agent_error",
            "ending": "completed",
            "unjoinable": "join_failed",
            stopped: "stopped",
            named: "caller hung up!",
            closed: "completed",
        }
        for session_id, reason in reasons.items():
            await stream.until_ended(session_id)
            assert stream.names(session_id)[-2:] == ["curb.messages", "curb.ended"]
            assert stream.event(session_id, "curb.ended") == {"reason": reason}, session_id
        assert stream.names("unjoinable") == ["curb.messages", "curb.ended"]
        assert (await host.ask("GET", "/v1/runner"))[1]["activeSessions"] == 0


async def test_a_stop_while_the_call_is_starting(running: RunnerFactory) -> None:
    async with running(agent) as here, here.host.stream() as stream:
        await here.host.start("hasty")
        await here.host.ask("DELETE", "/v1/sessions/hasty?reason=changed_mind")
        await stream.until_ended("hasty")
        assert stream.event("hasty", "curb.ended") == {"reason": "changed_mind"}


async def test_the_grace_of_a_stop(running: RunnerFactory) -> None:
    finished: list[str] = []
    begun: list[str] = []

    def function(call: AgentCall, context: CallContext) -> None:
        @context.on_end
        async def speak_on(reason: str) -> None:
            begun.append(reason)
            await asyncio.sleep(0.3)
            if reason == "b":
                await until(lambda: not call.room.isconnected(), what="the room is left without waiting for this")
            finished.append(f"{reason} {call.room.isconnected()}")

    async with running(function) as here:
        host = here.host
        with_grace, without = await host.connected(), await host.connected()
        await host.ask("DELETE", f"/v1/sessions/{with_grace}?reason=a&graceMs=20000")
        await until(lambda: begun == ["a"])
        assert await host.state(with_grace) == "ending"
        await host.until_state(with_grace, "ended")
        assert finished == ["a True"], "and no longer than it needs"
        await host.ask("DELETE", f"/v1/sessions/{without}?reason=b")
        await host.until_state(without, "ended")
        assert finished == ["a True", "b False"]


async def test_a_sooner_stop_shortens_the_grace_and_running_handlers_are_waited_for(running: RunnerFactory) -> None:
    async with running(agent) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        message = {"id": "m-1", "name": "slow", "payload": {"seconds": 600}}
        sending = asyncio.ensure_future(host.ask("POST", f"/v1/sessions/{session_id}/messages", message))
        await until(lambda: here.runner.counters.requests is not None and not sending.done())
        await asyncio.sleep(0.2)
        await host.ask("DELETE", f"/v1/sessions/{session_id}?graceMs=60000&reason=first")
        await host.until_state(session_id, "ending")
        await host.ask("DELETE", f"/v1/sessions/{session_id}?reason=second")
        await stream.until_ended(session_id)
        status, body = await sending
        assert (status, body["error"]) == (404, "session_not_found")
        assert stream.event(session_id, "curb.ended") == {"reason": "first"}
        (told,) = stream.events(session_id, "curb.message")
        assert told == {"direction": "fromHost", "key": "slow", "id": "m-1", "payload": {"seconds": 600}}


async def test_a_call_goes_on_when_the_agents_connection_is_made_anew(running: RunnerFactory) -> None:
    reconnected = asyncio.Event()

    def function(call: AgentCall, context: CallContext) -> None:
        call.room.on("reconnected", reconnected.set)

        @call.on_message("reconnect", sender="host")
        async def reconnect(payload: Any, meta: Any) -> None:
            await call.room.simulate_scenario(rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT)

        call.on_message("echo", lambda payload, meta: payload)

    async with running(function) as here:
        host = here.host
        session_id = await host.connected()
        async with host.caller(session_id) as caller:
            assert await caller.agent.ask("echo", 1) == 1
            message = {"id": "m", "name": "reconnect", "payload": {}}
            await host.ask("POST", f"/v1/sessions/{session_id}/messages", message)
            await asyncio.wait_for(reconnected.wait(), 30)
            assert await caller.agent.ask("echo", 2, timeout=30) == 2
            assert await host.state(session_id) == "connected"


async def leave_with_a_reason(room: rtc.Room) -> None:
    await room.simulate_scenario(rtc.SimulateScenarioKind.SIMULATE_SERVER_LEAVE)


async def leave_without_a_reason(room: rtc.Room) -> None:
    """What LiveKit's SDK does at times."""
    room.emit("connection_state_changed", rtc.ConnectionState.CONN_DISCONNECTED)


@pytest.mark.parametrize("how", [leave_with_a_reason, leave_without_a_reason])
async def test_the_end_of_the_agents_connection_ends_the_call(
    running: RunnerFactory, how: Callable[[rtc.Room], Awaitable[None]]
) -> None:
    def function(call: AgentCall, context: CallContext) -> None:
        @call.on_message("leave", sender="host")
        async def leave(payload: Any, meta: Any) -> None:
            await how(call.room)

    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        message = {"id": "m", "name": "leave", "payload": {}}
        await host.ask("POST", f"/v1/sessions/{session_id}/messages", message)
        await stream.until_ended(session_id)
        assert stream.event(session_id, "curb.ended") == {"reason": "room_lost"}


async def test_many_calls_leave_nothing_behind(running: RunnerFactory) -> None:
    async with running(agent, max_sessions=5) as here:
        host = here.host

        async def one(number: int) -> None:
            session_id = f"many-{number}"
            await host.start(session_id)
            await host.until_state(session_id, "connected")
            await host.ask("DELETE", f"/v1/sessions/{session_id}")
            await host.until_state(session_id, "ended")

        await one(0)
        for batch in range(3):
            await asyncio.gather(*(one(1 + batch * 4 + number) for number in range(4)))

        def left() -> int:
            gc.collect()
            return sum(isinstance(thing, call_module.HostedCall) for thing in gc.get_objects())

        await until(lambda: left() == 0, within=30, what="no call in memory")
        assert (await host.ask("GET", "/v1/runner"))[1]["sessions"] == []


async def test_a_caller_whose_connection_is_lost_may_come_back(
    running: RunnerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absence_module, "MEANT_TO_LEAVE", ())
    monkeypatch.setattr(absence_module, "RETURN_SECONDS", 2.0)
    async with running(agent) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        for _ in range(2):
            async with host.caller(session_id) as caller:
                assert await caller.agent.ask("echo", 1) == 1
        await stream.until_ended(session_id)
        assert stream.event(session_id, "curb.ended") == {"reason": "caller_left"}
        assert len(stream.events(session_id, "curb.message")) == 2


async def test_a_reason_that_cannot_be_written_frees_the_slot(running: RunnerFactory) -> None:
    def function(call: AgentCall, context: CallContext) -> None:
        call.on_message("bye", lambda payload, meta: context.end(payload["reason"]))

    async with running(function, max_sessions=1) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        async with host.caller(session_id) as caller:
            payload = '{"key":"bye","id":"1","payload":{"reason":"bye \\ud83d"}}'
            me = caller.room.local_participant
            await me.perform_rpc(destination_identity="agent", method="curb.message", payload=payload)
            await stream.until_ended(session_id)
        assert stream.event(session_id, "curb.ended") == {"reason": "bye �"}
        await host.until_state(session_id, "ended")
        assert (await host.ask("GET", "/v1/runner"))[1]["activeSessions"] == 0


async def test_last_records_that_cannot_be_written_free_the_slot(
    running: RunnerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(agent, max_sessions=1) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        call = here.runner.calls.going_on(session_id)
        monkeypatch.setattr(type(call._call), "undelivered_to_client", {"\ud800": 1})
        await host.ask("DELETE", f"/v1/sessions/{session_id}")
        await stream.until_ended(session_id)
        assert stream.event(session_id, "curb.ended") == {"reason": "agent_error"}
        assert here.runner.counters.calls_ended == {"agent_error": 1}
        await host.connected()


async def test_capacity_generation_and_names(running: RunnerFactory) -> None:
    async with running(agent, max_sessions=1, deployment_id="d-1") as here:
        host = here.host
        status, body = await host.start("other", deploymentId="d-2")
        assert (status, body["error"]) == (409, "generation_mismatch")
        status, body = await host.start("runner")
        assert (status, body["error"], body["issues"][0]["path"]) == (400, "invalid_request", ["sessionId"])
        session_id = await host.connected(configurationVersion=7)
        status, body = await host.start("one-more")
        assert (status, body["error"]) == (409, "runner_at_capacity")
        assert (await host.start(session_id))[0] == 200, "a repeat is none, also when the runner is full"
        await host.ask("DELETE", f"/v1/sessions/{session_id}")
        await host.until_state(session_id, "ended")
        await host.connected()


async def test_an_ended_call_is_forgotten_when_its_end_leaves_the_window(running: RunnerFactory) -> None:
    async with running(agent, retained_records=5) as here:
        host = here.host
        first = await host.connected()
        await host.ask("DELETE", f"/v1/sessions/{first}")
        await host.until_state(first, "ended")
        second = await host.connected()
        await host.ask("DELETE", f"/v1/sessions/{second}")
        await host.until_state(second, "ended")
        assert await host.state(first) == "ended"
        await host.connected()
        third = await host.connected()
        await host.ask("DELETE", f"/v1/sessions/{third}")
        await host.until_state(third, "ended")
        assert await host.state(first) == "session_not_found"
        assert (await host.ask("GET", f"/v1/sessions/{first}"))[0] == 404


async def test_experiments_are_applied_as_the_host_sends_them(running: RunnerFactory) -> None:
    async with running(agent) as here:
        host = here.host
        assigned, none = await host.connected(experiments={"greeting": "of-a-newer-bundle"}), await host.connected()
        async with host.caller(assigned) as caller:
            assert (await caller.agent.ask("context"))["experiments"] == {"greeting": "of-a-newer-bundle"}
        async with host.caller(none) as caller:
            assert (await caller.agent.ask("context"))["experiments"] == {}


async def test_without_a_host_to_assign_them_the_protocols_rule_does(running: RunnerFactory) -> None:
    from curb_client.protocol.host_requests import StartCallRequest

    async with running(agent, mode="dev") as here:
        for number in range(2):
            name, context = f"call-{number}", {"tone": "formal"} if number else {}
            token = here.host.livekit.token("agent", name, kind="agent")
            request = StartCallRequest(
                session_id=name, realtime_url=here.host.livekit.url, realtime_token=token, client_context=context
            )
            here.runner.take_call(request)
            async with here.host.caller(name) as caller:
                wanted = assign_experiments(EXPERIMENTS, name, context)
                assert (await caller.agent.ask("context"))["experiments"] == wanted
            assert number == 0 or wanted == {"greeting": "formal"}


@pytest.mark.parametrize(
    ("made_with", "words"),
    [
        ({"settings": {"tts": 1}}, "settings"),
        ({"adjustable": {"host": ["stt.model"]}}, "stt.model"),
        ({"experiments": {"greeting": {"variants": {}}}}, "greeting"),
    ],
)
def test_a_hosted_agent_that_does_not_fit_is_told_at_once(made_with: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        HostedAgent(lambda call, context: None, **made_with)
