"""livekit-client in Chromium: tracks that the page publishes, and what it does with those of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from livekit import rtc
from playwright.async_api import BrowserContext

from tests.browser.livekit_page import LiveKitPage, call_of, open_livekit_page
from tests.browser.peer import Peer
from tests.browser.problems import CONNECTION_ENDS, Problems
from tests.browser.site import Site
from tests.e2e.conftest import Stage, until

pytestmark = [pytest.mark.livekit, pytest.mark.asyncio(loop_scope="module")]

AUDIO, VIDEO = rtc.TrackKind.KIND_AUDIO, rtc.TrackKind.KIND_VIDEO
MICROPHONE, CAMERA = rtc.TrackSource.SOURCE_MICROPHONE, rtc.TrackSource.SOURCE_CAMERA


async def check_calls(tab: LiveKitPage, agent: Peer) -> None:
    for number in range(5):
        assert await agent.ask("caller", payload=str(number)) == f"agent:{number}"
        assert await tab.ask("agent", "echo", str(number)) == ["ok", f"caller:{number}"]


def published(agent: Peer) -> list[tuple[int, int, bool]]:
    """Kind, source and whether it is muted, of all that the caller publishes."""
    tracks = agent.room.remote_participants["caller"].track_publications.values()
    return sorted((each.kind, each.source, each.muted) for each in tracks)


async def test_a_page_that_publishes(tab: LiveKitPage, stage: Stage, problems: Problems) -> None:
    problems.expect(CONNECTION_ENDS)
    async with call_of(tab, stage) as agent:
        await tab.run("room.localParticipant.setMicrophoneEnabled(true).then(() => 1)")
        await until(lambda: published(agent) == [(AUDIO, MICROPHONE, False)], what="the microphone")
        assert await tab.run("room.localParticipant.isMicrophoneEnabled")
        await check_calls(tab, agent)
        await agent.local.send_text("to the page", topic="t")
        await tab.until("texts.length === 1")

        await tab.run("room.localParticipant.setCameraEnabled(true).then(() => 1)")
        both = [(AUDIO, MICROPHONE, False), (VIDEO, CAMERA, False)]
        await until(lambda: published(agent) == both, what="the camera")
        await check_calls(tab, agent)

        await tab.run("room.localParticipant.setMicrophoneEnabled(false).then(() => 1)")
        await until(lambda: (AUDIO, MICROPHONE, True) in published(agent), what="the microphone is muted")
        await tab.run("room.localParticipant.setMicrophoneEnabled(true).then(() => 1)")
        await until(lambda: published(agent) == both, what="the microphone is heard again")
        await tab.run("room.localParticipant.setCameraEnabled(false).then(() => 1)")
        unpublish = "room.localParticipant.unpublishTrack([...room.localParticipant.videoTrackPublications.values()][0]"
        await tab.run(f"{unpublish}.track).then(() => 1)")
        await until(lambda: published(agent) == [(AUDIO, MICROPHONE, False)], what="the camera is gone")
        await check_calls(tab, agent)


@pytest.mark.parametrize("scenario", ["signal-reconnect", "full-reconnect"], ids=["resumed", "made anew"])
async def test_a_published_track_survives(tab: LiveKitPage, stage: Stage, problems: Problems, scenario: str) -> None:
    problems.expect(CONNECTION_ENDS)
    async with call_of(tab, stage) as agent:
        await tab.run("room.localParticipant.setMicrophoneEnabled(true).then(() => 1)")
        await until(lambda: published(agent) == [(AUDIO, MICROPHONE, False)], what="the microphone")
        await tab.run("(scenario) => room.simulateScenario(scenario).then(() => 1)", scenario)
        await tab.reconnected()
        sid = await tab.run("room.localParticipant.sid")
        await until(lambda: agent.sid_of("caller") == sid, within=30, what="the caller is back")
        await agent.sees("caller")
        await until(lambda: published(agent) == [(AUDIO, MICROPHONE, False)], within=30, what="the microphone")
        await tab.sees("agent")
        await check_calls(tab, agent)


@asynccontextmanager
async def speaking(agent: Peer) -> AsyncIterator[str]:
    """The agent publishes audio without an end; the sid of its track."""
    source = rtc.AudioSource(48_000, 1)
    track = rtc.LocalAudioTrack.create_audio_track("voice", source)
    options = rtc.TrackPublishOptions(source=MICROPHONE)
    publication = await asyncio.wait_for(agent.local.publish_track(track, options), 30)

    async def speak() -> None:
        while True:
            await source.capture_frame(rtc.AudioFrame.create(48_000, 1, 480))

    task = asyncio.ensure_future(speak())
    try:
        yield publication.sid
    finally:
        task.cancel()
        await asyncio.wait([task])
        await source.aclose()


async def test_an_agent_that_publishes(tab: LiveKitPage, stage: Stage, context: BrowserContext, site: Site) -> None:
    second = await open_livekit_page(context, site, tab.version)
    flows = stage.server.title.startswith("livekit-server")
    voice = ["voice", "audio", "microphone", False]
    async with call_of(tab, stage) as agent:
        async with speaking(agent) as sid:
            await tab.told("trackPublished", "voice", "agent")
            if flows:
                await tab.told("trackSubscribed")
            assert (await tab.sees("agent"))["tracks"] == [[*voice, flows]]
            await check_calls(tab, agent)
            await second.join(stage.url, stage.token("late"))
            assert (await second.sees("agent"))["tracks"][0][:4] == voice
            assert await second.ask("agent") == ["ok", "late:hello"]
            await agent.local.unpublish_track(sid)
        await tab.told("trackUnpublished", "voice", "agent")
        assert (await tab.sees("agent"))["tracks"] == []
        await check_calls(tab, agent)
