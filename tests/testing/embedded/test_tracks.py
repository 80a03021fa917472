"""Published tracks: seen by the others, and in nobody's way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from livekit import rtc
from livekit.protocol import models
from livekit.protocol import rtc as signal

from curb_client.testing.embedded.sdp import Offer, Section
from curb_client.testing.embedded.tracks import Tracks
from tests.testing.embedded.conftest import Stage, ask, events, is_active, serve_echo, until

# What offers say


def section(mid: str, kind: str = "audio", *, track: str = "", sends: bool = True) -> Section:
    return Section(kind, mid, "UDP/TLS/RTP/SAVPF", ("111",), sends, False, track, ())


def offer(*sections: Section) -> Offer:
    return Offer("user", (("sha-256", "AB"),), 5000, 65536, sections)


def microphone(cid: str = "c-1", **options: Any) -> signal.AddTrackRequest:
    return signal.AddTrackRequest(
        cid=cid, name="mic", type=models.TrackType.AUDIO, source=models.TrackSource.MICROPHONE, **options
    )


def test_a_track_is_published_with_the_offer_that_sends_it() -> None:
    tracks = Tracks()
    info = tracks.add(microphone())
    assert info is not None
    assert (info.name, info.source, tracks.infos) == ("mic", models.TrackSource.MICROPHONE, [])
    assert not tracks.offered(offer(section("0", sends=False)))
    assert tracks.offered(offer(section("0", sends=False), section("1", track="c-1")))
    assert [(track.sid, track.mid) for track in tracks.infos] == [(info.sid, "1")]
    assert not tracks.offered(offer(section("0", sends=False), section("1", track="c-1"))), "nothing new"
    assert tracks.knows(info.sid)
    assert tracks.offered(offer(section("0", sends=False), section("1", sends=False)))
    assert tracks.infos == []


def test_a_track_under_another_name_is_the_one_of_its_kind() -> None:
    tracks = Tracks()
    tracks.add(microphone())
    assert not tracks.offered(offer(section("0", "video", track="other")))
    assert tracks.offered(offer(section("0", "video", track="other"), section("1", track="other")))
    assert [track.mid for track in tracks.infos] == ["1"]


def test_a_track_that_cannot_be() -> None:
    assert Tracks().add(signal.AddTrackRequest(cid="c", type=models.TrackType.DATA)) is None


def test_muting() -> None:
    tracks = Tracks()
    info = tracks.add(microphone())
    assert info is not None
    assert tracks.mute(info.sid, True)
    assert not tracks.mute(info.sid, True)
    assert not tracks.mute("TR_other", True)
    tracks.offered(offer(section("0", track="c-1")))
    assert tracks.infos[0].muted


def test_another_codec_is_no_other_track() -> None:
    tracks = Tracks()
    info = tracks.add(microphone())
    assert info is not None
    tracks.offered(offer(section("0", track="c-1")))
    assert tracks.add(microphone("c-2", sid=info.sid)) == info
    assert len(tracks.infos) == 1


# With the SDK


@pytest.fixture
async def pair(stage: Stage) -> tuple[rtc.Room, rtc.Room]:
    agent, caller = await stage.join("agent", kind="agent"), await stage.join("caller")
    serve_echo(agent)
    await until(lambda: is_active(caller, "agent") and is_active(agent, "caller"))
    return caller, agent


async def publish(room: rtc.Room, name: str = "mic") -> rtc.LocalTrackPublication:
    source = rtc.AudioSource(48000, 1)
    track = rtc.LocalAudioTrack.create_audio_track(name, source)
    options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
    publication = await asyncio.wait_for(room.local_participant.publish_track(track, options), 10)
    for _ in range(10):
        await source.capture_frame(rtc.AudioFrame.create(48000, 1, 480))
    return publication


async def test_a_published_track_is_seen_and_data_goes_on(stage: Stage, pair: tuple[rtc.Room, rtc.Room]) -> None:
    caller, agent = pair
    told = events(agent, "track_published", "track_unpublished", "track_muted", "track_unmuted")
    publication = await publish(caller)
    await until(lambda: len(told) == 1)
    seen = agent.remote_participants["caller"].track_publications
    assert list(seen) == [publication.sid]
    assert (seen[publication.sid].name, seen[publication.sid].kind) == ("mic", rtc.TrackKind.KIND_AUDIO)
    await until(lambda: stage.server.node.context.journal.counts["media datagrams, which are discarded"] > 0)
    assert await ask(caller, "agent") == "caller:hello"

    caller.local_participant.set_track_subscription_permissions(allow_all_participants=False)
    assert publication.track is not None
    publication.track.mute()
    await until(lambda: told[-1][0] == "track_muted")
    publication.track.unmute()
    await until(lambda: told[-1][0] == "track_unmuted")
    late = await stage.join("late")
    assert list(late.remote_participants["caller"].track_publications) == [publication.sid]

    await caller.local_participant.unpublish_track(publication.sid)
    await until(lambda: told[-1][0] == "track_unpublished")
    assert agent.remote_participants["caller"].track_publications == {}
    assert await ask(caller, "agent") == "caller:hello"


@pytest.mark.parametrize(
    "scenario",
    [rtc.SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT, rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT],
    ids=["resumed", "made anew"],
)
async def test_a_track_survives_a_reconnect(
    pair: tuple[rtc.Room, rtc.Room], scenario: rtc.SimulateScenarioKind.ValueType
) -> None:
    caller, agent = pair
    await publish(caller)
    reconnected = asyncio.Event()
    caller.on("reconnected", reconnected.set)
    await caller.simulate_scenario(scenario)
    await asyncio.wait_for(reconnected.wait(), 15)
    await until(lambda: is_active(agent, "caller"))
    await until(lambda: len(agent.remote_participants["caller"].track_publications) == 1)
    assert await ask(caller, "agent") == "caller:hello"
