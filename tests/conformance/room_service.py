"""The server's API, and what those in the room see of it."""

from __future__ import annotations

import asyncio

from livekit import api
from livekit.protocol import models

from tests.conformance.stage import QUIET, Json, Stage, entry, outcome, until
from tests.conformance.tracks import microphone


@entry
async def making(stage: Stage) -> Json:
    """A room is made as it was asked for, and one that is there stays as it is."""
    wanted = api.CreateRoomRequest(name=stage.room, metadata="m", empty_timeout=77, max_participants=2)
    made = await stage.api.room.create_room(wanted)
    alice = await stage.join("alice")
    again = await stage.api.room.create_room(api.CreateRoomRequest(name=stage.room, metadata="other", empty_timeout=1))
    await stage.join("bob")
    refused = await outcome(stage.join("carol"))
    there = await stage.api.room.list_participants(api.ListParticipantsRequest(room=stage.room))
    return {
        "made": [[each.metadata, each.empty_timeout, each.max_participants] for each in (made, again)],
        "the same": made.sid == again.sid,
        "known": alice.room.metadata,
        "a third": refused["error"] if isinstance(refused, dict) else "let in",
        "participants": sorted(each.identity for each in there.participants),
        "no name": await outcome(_made_with(stage, name="")),
        "too large": await outcome(_made_with(stage, metadata="m" * 600_000)),
        "unknown preset": await outcome(_made_with(stage, room_preset="unknown")),
    }


async def _made_with(stage: Stage, **fields: str) -> None:
    await stage.api.room.create_room(api.CreateRoomRequest(**{"name": f"{stage.room}-other", **fields}))  # type: ignore[arg-type]


@entry
async def dispatches(stage: Stage) -> Json:
    """Agents that are asked for with the room, and on their own; no worker is there to bring them."""
    agents = [api.RoomAgentDispatch(agent_name=f"{stage.room}-{name}", metadata=name) for name in ("one", "two")]
    await stage.api.room.create_room(api.CreateRoomRequest(name=stage.room, agents=agents))
    service = stage.api.agent_dispatch
    wanted = api.CreateAgentDispatchRequest(agent_name=f"{stage.room}-three", room=stage.room, metadata="three")
    made = await service.create_dispatch(wanted)
    listed = await service.list_dispatch(stage.room)
    one = await service.get_dispatch(made.id, stage.room)
    await service.delete_dispatch(made.id, stage.room)
    left = await service.list_dispatch(stage.room)
    return {
        "listed": sorted([each.metadata, each.room == stage.room, len(each.state.jobs)] for each in listed),
        "one": one and one.metadata,
        "left": sorted(each.metadata for each in left),
        "deleted twice": await outcome(service.delete_dispatch(made.id, stage.room)),
    }


@entry
async def looking(stage: Stage) -> Json:
    """Rooms and participants, as listed, and those that there are none of."""
    await stage.cast("alice", "bob", metadata="m", attributes={"k": "v"})
    room = stage.api.room
    rooms = (await room.list_rooms(api.ListRoomsRequest(names=[stage.room]))).rooms
    there = (await room.list_participants(api.ListParticipantsRequest(room=stage.room))).participants
    one = await room.get_participant(api.RoomParticipantIdentity(room=stage.room, identity="bob"))
    elsewhere = await room.list_participants(api.ListParticipantsRequest(room=f"{stage.room}-other"))
    return {
        "rooms": len(rooms),
        "participants": sorted([each.identity, each.state, each.metadata, dict(each.attributes)] for each in there),
        "one": [one.identity, one.metadata],
        "participants of no room": len(elsewhere.participants),
    }


@entry
async def refusals(stage: Stage) -> Json:
    """What is asked of rooms and participants that there are none of, and what is too large."""
    await stage.join("alice")
    room, other = stage.api.room, f"{stage.room}-other"
    nobody = api.RoomParticipantIdentity(room=stage.room, identity="nobody")
    update = api.UpdateParticipantRequest(room=stage.room, identity="nobody", metadata="m")
    large = [
        api.UpdateParticipantRequest(room=stage.room, identity="alice", name="n" * 257),
        api.UpdateParticipantRequest(room=stage.room, identity="alice", metadata="m" * 600_000),
        api.UpdateParticipantRequest(room=stage.room, identity="alice", attributes={"k": "v" * 70_000}),
    ]
    return {
        "nobody": await outcome(room.get_participant(nobody)),
        "nobody removed": await outcome(room.remove_participant(nobody)),
        "nobody updated": await outcome(room.update_participant(update)),
        "no room": await outcome(room.delete_room(api.DeleteRoomRequest(room=other))),
        "no room's metadata": await outcome(room.update_room_metadata(api.UpdateRoomMetadataRequest(room=other))),
        "too large": [await outcome(room.update_participant(each)) for each in large],
        "the room's metadata": await outcome(
            room.update_room_metadata(api.UpdateRoomMetadataRequest(room=stage.room, metadata="m" * 600_000))
        ),
    }


@entry
async def updating(stage: Stage) -> Json:
    """Changes of a participant: told to it and to the others."""
    alice, bob = await stage.cast("alice", "bob", attributes={"k": "v", "l": "w"})
    change = api.UpdateParticipantRequest(
        room=stage.room, identity="bob", metadata="set", name="Bob", attributes={"k": "changed", "l": ""}
    )
    answer = await stage.api.room.update_participant(change)
    await until(lambda: len(alice.events) >= 3 and len(bob.events) >= 3)
    return {
        "answer": [answer.identity, answer.name, answer.metadata, dict(answer.attributes)],
        "alice's events": sorted(alice.events, key=str),
        "bob's events": sorted(bob.events, key=str),
    }


@entry
async def updating_the_room(stage: Stage) -> Json:
    """The room's metadata: told to those in it, known to newcomers, and emptied again."""
    alice, bob = await stage.cast("alice", "bob")
    known, newcomers = [], []
    for number, text in enumerate(("about it", "")):
        answer = await stage.api.room.update_room_metadata(
            api.UpdateRoomMetadataRequest(room=stage.room, metadata=text)
        )
        await until(lambda: all(len(each.told("room metadata")) > number for each in (alice, bob)))  # noqa: B023
        newcomers.append((await stage.join(f"newcomer-{number}")).room.metadata)
        known.append([answer.metadata, alice.room.metadata, bob.room.metadata])
    return {
        "events": [member.told("room metadata") for member in (alice, bob)],
        "known": known,
        "newcomers": newcomers,
    }


@entry
async def sending(stage: Stage) -> Json:
    """Packets from the server: to all, to one by its name or its session's id, to somebody absent; lossy ones."""
    alice, bob = await stage.cast("alice", "bob")
    for number, wanted in enumerate(
        (
            {},
            {"destination_identities": ["bob"]},
            {"destination_identities": ["nobody"]},
            {"destination_sids": [bob.local.sid]},
            {"kind": models.DataPacket.LOSSY},
        )
    ):
        request = api.SendDataRequest(room=stage.room, data=f"{number}".encode(), topic="p", **wanted)  # type: ignore[arg-type]
        await stage.api.room.send_data(request)
    await stage.api.room.send_data(api.SendDataRequest(room=stage.room, data=b"no topic"))
    await until(lambda: len(bob.received) >= 5 and len(alice.received) >= 3)
    return {"alice": sorted(alice.received, key=str), "bob": sorted(bob.received, key=str)}


@entry
async def withdrawing(stage: Stage) -> Json:
    """A permission that is taken away: told to whom it is about, and obeyed at once; then given again."""
    alice, bob = await stage.cast("alice", "bob")
    rights = api.ParticipantPermission(can_subscribe=True, can_publish=False, can_publish_data=False)
    change = api.UpdateParticipantRequest(room=stage.room, identity="bob", permission=rights)
    await stage.api.room.update_participant(change)
    await until(lambda: bob.told("permissions"))
    await bob.local.publish_data(b"nothing")
    await asyncio.sleep(QUIET)
    may = bob.local.permissions.can_publish
    change.permission.can_publish = change.permission.can_publish_data = True
    await stage.api.room.update_participant(change)
    await until(lambda: len(bob.told("permissions")) > 1)
    await bob.local.publish_data(b"something")
    await until(lambda: alice.received)
    return {
        "bob's events": bob.told("permissions"),
        "received": alice.received,
        "may": [may, bob.local.permissions.can_publish],
    }


@entry
async def muting(stage: Stage) -> Json:
    """A track that is muted, which only its own participant may undo."""
    alice, bob = await stage.cast("alice", "bob")
    publication = await bob.local.publish_track(*microphone())
    await until(lambda: alice.told("published"))
    mute = api.MuteRoomTrackRequest(room=stage.room, identity="bob", track_sid=publication.sid, muted=True)
    answer = await stage.api.room.mute_published_track(mute)
    await until(lambda: alice.told("muted"))
    mute.muted = False
    return {
        "answer": [answer.track.name, answer.track.muted],
        "events": alice.told("muted"),
        "undone": await outcome(stage.api.room.mute_published_track(mute)),
    }
