"""A caller handed to somebody whom the host dials, and taken back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from livekit import rtc

import curb_client
from curb_client import AgentCall
from curb_client.host import CallContext
from curb_client.host.runner import absence as absence_module
from curb_client.host.runner import transfer as transfers
from tests.host.runner.conftest import Host, RunnerFactory, Stream, until

holds: list[bool] = []


def function(call: AgentCall, context: CallContext) -> None:
    call.on_hold_change(holds.append)

    @call.on_message("hand-over")
    async def hand_over(payload: Any, meta: Any) -> Any:
        outcome = await context.transfer(payload["to"], summary="a refund", timeout=payload.get("timeout", 60))
        return {"outcome": outcome.outcome, "identity": outcome.identity, "code": outcome.code}

    call.on_message("on-hold", lambda payload, meta: call.on_hold)


@pytest.fixture(autouse=True)
def no_holds() -> None:
    holds.clear()


def asks(stream: Stream, session_id: str) -> list[tuple[str, Any]]:
    bodies = [record["body"] for record in stream.of(session_id) if record["class"] == "host"]
    assert all(body["expectsReply"] for body in bodies)
    return [(body["name"], body["payload"]) for body in bodies]


async def reply(host: Host, session_id: str, ask_id: str, payload: Any) -> None:
    body = {"id": f"reply-{ask_id}", "name": "transfer", "payload": payload, "inReplyTo": ask_id}
    status, answer = await host.ask("POST", f"/v1/sessions/{session_id}/messages", body)
    assert status == 202, answer


async def handed_over(
    host: Host, stream: Stream, session_id: str, caller: curb_client.Call, answer: dict[str, Any]
) -> Any:
    count = len(asks(stream, session_id))
    asking = asyncio.ensure_future(caller.agent.ask("hand-over", {"to": "tel:+49"}, timeout=60))
    await until(lambda: len(asks(stream, session_id)) > count)
    assert asks(stream, session_id)[-1] == ("curb.transfer.start", {"target": "tel:+49", "summary": "a refund"})
    await reply(host, session_id, f"a-{count + 1}", answer)
    return await asking


@pytest.mark.parametrize("named", [True, False])
async def test_the_agent_is_on_hold_while_the_target_is_there(running: RunnerFactory, named: bool) -> None:
    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        async with host.caller(session_id) as caller:
            identity = {"identity": "clerk"} if named else {}
            outcome = await handed_over(host, stream, session_id, caller, {"outcome": "connected", **identity})
            assert outcome == {"outcome": "connected", "identity": "clerk" if named else None, "code": None}
            assert holds == [True], "from the reply on, since LiveKit tells of the target later"
            async with host.caller(session_id, "clerk"):
                assert await caller.agent.ask("on-hold") is True
                await until(lambda: here.runner.calls.going_on(session_id)._transfers.is_target("clerk"))
            await until(lambda: holds == [True, False])
            assert await caller.agent.ask("on-hold") is False
            assert await host.state(session_id) == "connected"

            async with host.caller(session_id, "colleague"):
                answer = {"outcome": "connected", "identity": "colleague"}
                await handed_over(host, stream, session_id, caller, answer)
        await stream.until_ended(session_id)
        assert stream.event(session_id, "curb.ended") == {"reason": "caller_left"}


async def test_the_agents_own_connection_made_anew_does_not_take_the_call_back(running: RunnerFactory) -> None:
    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        async with host.caller(session_id) as caller, host.caller(session_id, "clerk"):
            await handed_over(host, stream, session_id, caller, {"outcome": "connected", "identity": "clerk"})
            room = here.runner.calls.going_on(session_id)._room
            seen: list[str] = []
            room.on("participant_disconnected", lambda participant: seen.append(f"{participant.identity} left"))
            room.on("participant_connected", lambda participant: seen.append(f"{participant.identity} came"))
            await room.simulate_scenario(rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT)
            await until(lambda: "clerk came" in seen, within=30, what="the clerk in sight again")
            assert "clerk left" in seen
            assert holds == [True]
            assert await caller.agent.ask("on-hold", timeout=30) is True


async def test_a_target_whose_connection_is_lost_may_come_back(
    running: RunnerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absence_module, "MEANT_TO_LEAVE", ())
    monkeypatch.setattr(absence_module, "RETURN_SECONDS", 600.0)
    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        async with host.caller(session_id) as caller:
            transfers_of_call = here.runner.calls.going_on(session_id)._transfers
            async with host.caller(session_id, "clerk"):
                await handed_over(host, stream, session_id, caller, {"outcome": "connected", "identity": "clerk"})
            await until(lambda: not transfers_of_call._is_there)
            assert holds == [True]
            async with host.caller(session_id, "clerk"):
                await until(lambda: transfers_of_call._is_there)
                assert transfers_of_call._absence._timer is None
                assert holds == [True]
                monkeypatch.setattr(absence_module, "RETURN_SECONDS", 0.1)
            await until(lambda: holds == [True, False])
            assert await caller.agent.ask("on-hold") is False


async def test_the_call_ends_when_the_caller_leaves_the_target_behind(running: RunnerFactory) -> None:
    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        async with host.caller(session_id, "clerk"):
            async with host.caller(session_id) as caller:
                await handed_over(host, stream, session_id, caller, {"outcome": "connected", "identity": "clerk"})
            await stream.until_ended(session_id)
        assert stream.event(session_id, "curb.ended") == {"reason": "caller_left"}


async def test_a_transfer_that_fails(running: RunnerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(function) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        async with host.caller(session_id) as caller:
            failed = {"outcome": "failed", "identity": None}
            assert await caller.agent.ask("hand-over", {"to": "x", "timeout": 0.1}) == {
                **failed,
                "code": "transfer_no_reply",
            }
            await until(lambda: len(asks(stream, session_id)) == 2)
            assert asks(stream, session_id)[1] == ("curb.transfer.cancel", {})
            await reply(host, session_id, "a-2", {})
            busy = await handed_over(host, stream, session_id, caller, {"outcome": "failed", "code": "busy"})
            assert busy == {**failed, "code": "busy"}
            odd = await handed_over(host, stream, session_id, caller, {"outcome": "perhaps"})
            assert odd == {**failed, "code": "transfer_invalid_reply"}
            assert holds == []

            monkeypatch.setattr(transfers, "TARGET_SECONDS", 0.1)
            await handed_over(host, stream, session_id, caller, {"outcome": "connected", "identity": "nobody"})
            await until(lambda: holds == [True, False])


async def test_without_a_host_that_reads_a_transfer_fails_at_once(running: RunnerFactory) -> None:
    async with running(function, journal=False) as here:
        session_id = await here.host.connected()
        async with here.host.caller(session_id) as caller:
            assert (await caller.agent.ask("hand-over", {"to": "x"}))["code"] == "transfer_no_reply"
