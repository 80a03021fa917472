"""Interruptions that the SDK stages: what both sides are told, and that all works again."""

from __future__ import annotations

from functools import partial
from typing import Final

from livekit import rtc

from tests.conformance.stage import ENTRIES, Json, Stage, entry, until

KINDS: Final = rtc.SimulateScenarioKind
SCENARIOS: Final = {
    "signal": (KINDS.SIMULATE_SIGNAL_RECONNECT, False),
    "full": (KINDS.SIMULATE_FULL_RECONNECT, True),
    "node_failure": (KINDS.SIMULATE_NODE_FAILURE, True),
    "signal_twice": (KINDS.SIMULATE_DISCONNECT_SIGNAL_ON_RESUME, True),
}
"""Each with whether the session is begun anew, which the others are told of."""


async def _interrupted(stage: Stage, scenario: rtc.SimulateScenarioKind.ValueType, anew: bool) -> Json:
    alice, bob = await stage.cast("alice", "bob")
    for member in (alice, bob):
        member.answers(echo=lambda call: call.payload)
        member.takes_text("t")
    await bob.local.set_attributes({"k": "v"})
    await until(lambda: alice.told("attributes") and bob.told("attributes"))
    alice.events.clear()
    bob.events.clear()
    await bob.room.simulate_scenario(scenario)
    told = (lambda: alice.told("connected") and bob.told("connected")) if anew else lambda: True
    await until(lambda: bob.told("reconnected") and told())
    calls = [await alice.ask("bob", "echo"), await bob.ask("alice", "echo")]
    await alice.local.send_text("to bob", topic="t")
    await bob.local.send_text("to alice", topic="t")
    await until(lambda: alice.received and bob.received)
    seen = alice.remote("bob")
    return {
        "bob's events": bob.told("reconnecting", "reconnected", "disconnected"),
        "bob's events of others": bob.told("connected", "left"),
        # Without reasons: livekit-server tells them only where its clock ticks between the leave and the return.
        "alice's events": [event[:2] for event in alice.told("connected", "left", "disconnected")],
        "calls": calls,
        "texts": [alice.received, bob.received],
        "bob's attributes": [seen and seen.attributes, bob.local.attributes],
        "seen": [sorted(alice.room.remote_participants), sorted(bob.room.remote_participants)],
    }


for _name, (_scenario, _anew) in SCENARIOS.items():
    ENTRIES[f"reconnects.{_name}"] = partial(_interrupted, scenario=_scenario, anew=_anew)


@entry
async def messages_meanwhile(stage: Stage) -> Json:
    """What is sent to somebody while its signalling connection is away arrives, once."""
    alice, bob = await stage.cast("alice", "bob")
    await bob.room.simulate_scenario(KINDS.SIMULATE_SIGNAL_RECONNECT)
    for number in range(20):
        await alice.local.publish_data(str(number))
    await until(lambda: bob.told("reconnected") and len(bob.received) >= 20)
    return [packet[1] for packet in bob.received]
