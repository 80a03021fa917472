"""Faults of one call under test: of its room alone, and in its report."""

from __future__ import annotations

from typing import Any

import pytest
from livekit import rtc

from curb_client import ExpectationError, UsageError
from curb_client.testing import CurbCall, LiveKitServerHandle

REASON = "faults are made by the embedded server alone"


@pytest.mark.livekit_only("embedded", reason=REASON)
async def test_a_fault_of_one_call_leaves_the_others_alone(curb_call: CurbCall, livekit: LiveKitServerHandle) -> None:
    async with CurbCall(livekit) as other:
        for call in (curb_call, other):
            call.agent.on_message("quote", lambda payload, meta: payload)
            await call.agent_is_there(10)
        with curb_call.faults.drop(direction="to", participant="agent", method="curb.message") as fault:
            assert await other.client.ask("quote", 1) == 1
            with pytest.raises(rtc.RpcError):
                await curb_call.client.ask("quote", 1, timeout=0.5)
        assert fault.count == 1
        assert await curb_call.client.ask("quote", 2) == 2
        other.faults.cut_signalling("agent")
        assert "faults, and how often each has happened:\n  drop packets to 'agent' of method" in curb_call.report()
        assert "kit     fault is over: drop packets to 'agent' of method 'curb.message': 1" in curb_call.report()
        assert "cut the signalling" not in curb_call.report()
        assert "\n  cut the signalling of 'agent': 1" in other.report()
        assert "drop packets" not in other.report()


@pytest.mark.livekit_only("embedded", reason=REASON)
async def test_what_an_expectation_misses_is_told_with_the_faults(curb_call: CurbCall) -> None:
    async with CurbCall(curb_call.server) as call:
        call.agent.on_message("open", lambda payload, meta: call.agent.send.to_client("show-form", {}).cancelled())
        with call.faults.drop(1, topic="curb.message"):
            await call.client.send("open")
            with pytest.raises(ExpectationError, match=r"\n  drop at most 1 packet on topic 'curb.message': 1 so far"):
                await call.expect("show-form", within=0.3)


@pytest.mark.livekit_only("embedded", reason=REASON)
async def test_somebody_who_has_not_joined(curb_call: CurbCall) -> None:
    await curb_call.start_scripted_agent({"on": {"quote": {"reply": 1}}})
    with pytest.raises(
        UsageError, match=rf"participant is 'caller', who is not in room '{curb_call.room_name}'; agent"
    ):
        curb_call.faults.kill("caller")
    assert "faults" not in curb_call.report()


async def test_a_server_that_is_another_one(curb_call: CurbCall) -> None:
    address = curb_call.server.address if isinstance(curb_call.server, LiveKitServerHandle) else curb_call.server
    call = CurbCall(address)
    with pytest.raises(UsageError, match=r"embedded server alone, and this run is on ws://.*--livekit=embedded"):
        _ = call.faults
    assert "faults" not in call.report()


@pytest.mark.livekit_only("server", reason="what a test of faults is told there")
def test_a_server_that_makes_no_faults(livekit: LiveKitServerHandle) -> None:
    faults: Any = None
    with pytest.raises(UsageError, match="embedded server alone, and this run is on"):
        faults = livekit.faults
    assert faults is None
