"""Tracks: that they are seen to come and go. What is in them is none of this record's business."""

from __future__ import annotations

import asyncio

from livekit import rtc

from tests.conformance.stage import Json, Stage, entry, outcome, until


def microphone(name: str = "voice") -> tuple[rtc.LocalAudioTrack, rtc.TrackPublishOptions]:
    track = rtc.LocalAudioTrack.create_audio_track(name, rtc.AudioSource(48_000, 1))
    return track, rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)


@entry
async def audio(stage: Stage) -> Json:
    """Published, seen by those present and by newcomers, and unpublished."""
    alice, bob = await stage.cast("alice", "bob")
    publication = await bob.local.publish_track(*microphone())
    await until(lambda: alice.told("published"))
    carol = await stage.join("carol")
    seen = carol.remote("bob")
    known = [] if seen is None else [[each.name, int(each.kind)] for each in seen.track_publications.values()]
    await bob.local.unpublish_track(publication.sid)
    await until(lambda: alice.told("unpublished"))
    return {
        "alice's events": alice.told("published", "unpublished"),
        "a newcomer knows": known,
        "left over": [len(member.track_publications) for member in (bob.local, alice.room.remote_participants["bob"])],
    }


@entry
async def subscribers(stage: Stage) -> Json:
    """Who publishes hears of the first subscriber: of who takes everything, and of who asked for this track."""
    bob = await stage.join("bob")
    heard: list[str] = []
    bob.room.on("local_track_subscribed", lambda track: heard.append(track.name))
    dave = await stage.join("dave", options=rtc.RoomOptions(auto_subscribe=False))
    await stage.acquaint(bob, dave)
    await bob.local.publish_track(*microphone("asked for"))
    await until(lambda: dave.told("published"))
    await asyncio.sleep(1)
    unasked = list(heard)
    seen = dave.remote("bob")
    assert seen is not None
    for publication in seen.track_publications.values():
        publication.set_subscribed(True)
    await until(lambda: heard)
    asked = list(heard)
    alice = await stage.join("alice")
    await until(lambda: alice.remote("bob"))
    await bob.local.publish_track(*microphone("taken"))
    await until(lambda: "taken" in heard)
    return {"unasked": unasked, "asked": asked, "with one who takes all": heard}


@entry
async def no_permission(stage: Stage) -> Json:
    """Who may not publish does not, and data still pass."""
    alice = await stage.join("alice")
    bob = await stage.join("bob", can_publish=False)
    await stage.acquaint(alice, bob)
    result = await outcome(bob.local.publish_track(*microphone()))
    await bob.local.publish_data(b"data")
    await until(lambda: alice.received)
    kind = result["error"] if isinstance(result, dict) else "published"
    return {"result": kind, "events": alice.told("published"), "received": alice.received}


@entry
async def data(stage: Stage) -> Json:
    """A data track: told to the others when it comes and goes, also of who may publish no media."""
    alice = await stage.join("alice")
    bob = await stage.join("bob", can_publish=False)
    await stage.acquaint(alice, bob)
    track = await bob.local.publish_data_track(name="numbers")
    await until(lambda: alice.told("data track"))
    await track.unpublish()
    await until(lambda: alice.told("data track gone"))
    return alice.told("data track", "data track gone")
