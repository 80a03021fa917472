"""Tracks: that they are seen to come and go. What is in them is none of this record's business."""

from __future__ import annotations

from livekit import rtc

from tests.conformance.stage import Json, Stage, entry, outcome, until


def microphone() -> tuple[rtc.LocalAudioTrack, rtc.TrackPublishOptions]:
    track = rtc.LocalAudioTrack.create_audio_track("voice", rtc.AudioSource(48_000, 1))
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
