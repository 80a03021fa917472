"""Interruptions that the SDK stages: what both sides are told, and that all works again."""

from __future__ import annotations

from livekit import rtc

from tests.conformance.stage import Json, Stage, entry, outcome, until


async def _interrupted(stage: Stage, scenario: rtc.SimulateScenarioKind.ValueType) -> Json:
    alice, bob = await stage.cast("alice", "bob")
    for member in (alice, bob):
        member.answers(echo=lambda call: call.payload)
        member.takes_text("t")
    await bob.local.set_attributes({"k": "v"})
    await until(lambda: alice.told("attributes"))
    alice.events.clear()
    bob.events.clear()
    await bob.room.simulate_scenario(scenario)
    await until(lambda: bob.told("reconnected"), 12)
    calls = [await alice.ask("bob", "echo"), await bob.ask("alice", "echo")]
    sends = [alice.local.send_text("to bob", topic="t"), bob.local.send_text("to alice", topic="t")]
    failures = [result for result in [await outcome(send) for send in sends] if isinstance(result, dict)]
    await until(lambda: alice.received and bob.received)
    seen = alice.remote("bob")
    return {
        "bob's events": bob.told("reconnecting", "reconnected", "disconnected"),
        "bob's events of others": bob.told("connected", "left"),
        # Without reasons: livekit-server tells them only where its clock ticks between the leave and the return.
        "alice's events": [event[:2] for event in alice.told("connected", "left", "disconnected")],
        "calls": calls,
        "texts": [alice.received, bob.received],
        "texts that could not be sent": failures,
        "bob's attributes": [seen and seen.attributes, bob.local.attributes],
        "seen": [sorted(alice.room.remote_participants), sorted(bob.room.remote_participants)],
    }


@entry
async def signal(stage: Stage) -> Json:
    """The signalling connection breaks and is resumed."""
    return await _interrupted(stage, rtc.SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT)


@entry
async def full(stage: Stage) -> Json:
    """The session is begun anew."""
    return await _interrupted(stage, rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT)


@entry
async def server_leave(stage: Stage) -> Json:
    """The server asks one to leave and come back."""
    return await _interrupted(stage, rtc.SimulateScenarioKind.SIMULATE_SERVER_LEAVE)


@entry
async def node_failure(stage: Stage) -> Json:
    """The server goes away without a word."""
    return await _interrupted(stage, rtc.SimulateScenarioKind.SIMULATE_NODE_FAILURE)


@entry
async def signal_twice(stage: Stage) -> Json:
    """The signalling connection breaks once more while it is resumed."""
    return await _interrupted(stage, rtc.SimulateScenarioKind.SIMULATE_DISCONNECT_SIGNAL_ON_RESUME)


@entry
async def messages_meanwhile(stage: Stage) -> Json:
    """What is sent to somebody while its signalling connection is away arrives, once."""
    alice, bob = await stage.cast("alice", "bob")
    await bob.room.simulate_scenario(rtc.SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT)
    for number in range(20):
        await alice.local.publish_data(str(number))
    await until(lambda: bob.told("reconnected") and len(bob.received) >= 20, 12)
    return [packet[1] for packet in bob.received]
