"""The server's API, and what those in the room see of it."""

from __future__ import annotations

from livekit import api

from tests.conformance.stage import Json, Stage, entry, outcome, until


@entry
async def looking(stage: Stage) -> Json:
    """Rooms and participants, as listed, and those that there are none of."""
    await stage.cast("alice", "bob", metadata="m", attributes={"k": "v"})
    room = stage.api.room
    rooms = (await room.list_rooms(api.ListRoomsRequest(names=[stage.room]))).rooms
    there = (await room.list_participants(api.ListParticipantsRequest(room=stage.room))).participants
    one = await room.get_participant(api.RoomParticipantIdentity(room=stage.room, identity="bob"))
    nobody = api.RoomParticipantIdentity(room=stage.room, identity="nobody")
    return {
        "rooms": len(rooms),
        "participants": sorted([each.identity, each.state, each.metadata, dict(each.attributes)] for each in there),
        "one": [one.identity, one.metadata],
        "nobody": await outcome(room.get_participant(nobody)),
        "nobody removed": await outcome(room.remove_participant(nobody)),
        "no room": await outcome(room.delete_room(api.DeleteRoomRequest(room=f"{stage.room}-other"))),
        "participants of no room": await outcome(_of_no_room(stage)),
    }


async def _of_no_room(stage: Stage) -> Json:
    found = await stage.api.room.list_participants(api.ListParticipantsRequest(room=f"{stage.room}-other"))
    return len(found.participants)


@entry
async def updating(stage: Stage) -> Json:
    """Changes of a participant: told to it and to the others."""
    alice, bob = await stage.cast("alice", "bob", attributes={"k": "v", "l": "w"})
    change = api.UpdateParticipantRequest(
        room=stage.room, identity="bob", metadata="set", name="Bob", attributes={"k": "changed", "l": ""}
    )
    await stage.api.room.update_participant(change)
    await until(lambda: len(alice.events) >= 3)
    return {"alice's events": sorted(alice.events, key=str), "bob's events": sorted(bob.events, key=str)}


@entry
async def updating_the_room(stage: Stage) -> Json:
    """The room's metadata: told to those in it, and known to newcomers."""
    alice, bob = await stage.cast("alice", "bob")
    change = api.UpdateRoomMetadataRequest(room=stage.room, metadata="about it")
    result = await outcome(stage.api.room.update_room_metadata(change))
    await until(lambda: alice.told("room metadata") and bob.told("room metadata"), 4)
    newcomer = await stage.join("carol")
    return {
        "result": result["twirp"] if isinstance(result, dict) else result.metadata,
        "events": [member.told("room metadata") for member in (alice, bob)],
        "known": [alice.room.metadata, newcomer.room.metadata],
    }


@entry
async def sending(stage: Stage) -> Json:
    """Packets from the server: to all, to one, to somebody absent."""
    alice, bob = await stage.cast("alice", "bob")
    for number, names in enumerate(([], ["bob"], ["nobody"])):
        data = f"{number}".encode()
        await stage.api.room.send_data(
            api.SendDataRequest(room=stage.room, data=data, destination_identities=names, topic="p")
        )
    await until(lambda: len(bob.received) >= 2)
    return {"alice": sorted(alice.received, key=str), "bob": sorted(bob.received, key=str)}


@entry
async def withdrawing(stage: Stage) -> Json:
    """A permission that is taken away: told to whom it is about, and obeyed at once."""
    alice, bob = await stage.cast("alice", "bob")
    rights = api.ParticipantPermission(can_subscribe=True, can_publish=False, can_publish_data=False)
    change = api.UpdateParticipantRequest(room=stage.room, identity="bob", permission=rights)
    await stage.api.room.update_participant(change)
    await until(lambda: bob.told("permissions"))
    await bob.local.publish_data(b"nothing")
    await until(lambda: alice.received, 0.5)
    return {
        "bob's events": bob.told("permissions"),
        "received": alice.received,
        "may": bob.local.permissions.can_publish,
    }
