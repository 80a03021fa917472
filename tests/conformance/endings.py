"""Every way to leave a room: reasons, on both sides."""

from __future__ import annotations

from livekit import api, rtc

from tests.conformance.stage import Json, Member, Stage, entry, outcome, until


def _ends(*members: Member) -> Json:
    """What these members were told of ends, one's own and the others'."""
    return [member.told("connected", "left", "disconnected") for member in members]


@entry
async def leaving(stage: Stage) -> Json:
    """By one's own will."""
    alice, bob = await stage.cast("alice", "bob")
    await bob.room.disconnect()
    await until(lambda: alice.told("left"))
    # Whether the SDK still tells bob of its own end is chance.
    return {"events": _ends(alice), "alice sees": sorted(alice.room.remote_participants)}


@entry
async def duplicate(stage: Stage) -> Json:
    """The same identity once more: the older one has to leave."""
    alice, bob = await stage.cast("alice", "bob")
    again = await stage.join("bob", name="Again")
    await until(lambda: bob.told("disconnected") and alice.told("connected"))
    again.answers(echo=lambda call: call.payload)
    seen = alice.remote("bob")
    return {
        "events": _ends(bob, alice),
        "the older is connected": bob.room.isconnected(),
        "the newer sees": sorted(again.room.remote_participants),
        "alice sees": seen and seen.name,
        "alice calls": await alice.ask("bob", "echo"),
    }


@entry
async def removed(stage: Stage) -> Json:
    """By the server's API."""
    alice, bob = await stage.cast("alice", "bob")
    await stage.api.room.remove_participant(api.RoomParticipantIdentity(room=stage.room, identity="bob"))
    await until(lambda: bob.told("disconnected") and alice.told("left"))
    return {"events": _ends(bob, alice), "connected": bob.room.isconnected()}


@entry
async def room_deleted(stage: Stage) -> Json:
    """Everybody, with the room."""
    alice, bob = await stage.cast("alice", "bob")
    await stage.api.room.delete_room(api.DeleteRoomRequest(room=stage.room))
    await until(lambda: bob.told("disconnected") and alice.told("disconnected"))
    ends = [member.told("disconnected") for member in (alice, bob)]  # who hears first that the other left is chance
    return {"events": ends, "connected": [alice.room.isconnected(), bob.room.isconnected()]}


@entry
async def told_to_leave(stage: Stage) -> Json:
    """By a server that shuts down; what still works afterwards."""
    alice, bob = await stage.cast("alice", "bob")
    await bob.room.simulate_scenario(rtc.SimulateScenarioKind.SIMULATE_SERVER_LEAVE)
    await until(lambda: bob.told("disconnected") and alice.told("left"))
    failure = await outcome(bob.local.send_text("to alice", topic="t"))
    return {
        "bob's events": bob.told("reconnecting", "reconnected", "disconnected"),
        "alice's events": [event[:2] for event in _ends(alice)[0]],
        "bob asks": await bob.ask("alice", "echo"),
        "bob sends": failure["error"],
        "alice asks": await alice.ask("bob", "echo"),
    }


@entry
async def coming_back(stage: Stage) -> Json:
    """Leaving and joining again under the same identity, with other attributes."""
    alice, bob = await stage.cast("alice", "bob")
    await bob.room.disconnect()
    await until(lambda: alice.told("left"))
    back = await stage.join("bob", attributes={"k": "2"})
    await until(lambda: alice.told("connected"))
    back.answers(echo=lambda call: call.payload)
    seen = alice.remote("bob")
    return {"events": _ends(alice), "seen": seen and seen.attributes, "answer": await alice.ask("bob", "echo")}
