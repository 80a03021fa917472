"""curb-client in Chromium: what happens to pages alone, and an agent that dies in the middle of a message."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext

from curb_client.testing.agent_process import AgentProcess, agent_environment
from tests.browser.problems import Problems
from tests.browser.site import Site
from tests.e2e.conftest import Stage, until
from tests.parity.apps import App
from tests.parity.pages import EXPECTED, VERSIONS, open_apps
from tests.parity.scene import WITHIN, Scene, has_come

pytestmark = [pytest.mark.livekit, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Of livekit-client."""
    return str(request.param)


async def join(app: App, stage: Stage, identity: str) -> None:
    await app.got("open")
    await app.got("connect", stage.url, stage.token(identity))


async def agent_is_ready(app: App) -> None:
    await has_come(app, "presence", lambda presence: presence["state"] == "ready")


async def test_an_agent_is_killed_in_the_middle_of_a_message(
    context: BrowserContext, site: Site, stage: Stage, problems: Problems
) -> None:
    problems.expect(EXPECTED)
    apps = [(await open_apps(context, site, version)).app() for version in VERSIONS]
    for number, app in enumerate(apps):
        await join(app, stage, f"caller-{number}")
    command = [sys.executable, str(Path(__file__).with_name("half_message.py"))]
    with AgentProcess(command, environment=agent_environment(stage.server, stage.room_name)) as agent:
        for app in apps:
            await agent_is_ready(app)
        for number, app in enumerate(apps):
            await app.got("send", "begin", {}, {"timeout": 30, "messageId": f"m-{number}"})
        asked = [await app.begin("ask", "slow", {}, {"timeout": 4}) for app in apps]
        await apps[0].got("presence")
        assert agent.pid is not None
        os.kill(agent.pid, signal.SIGKILL)
        for outcome in asked:
            state, error = await asyncio.wait_for(outcome, WITHIN)
            assert (state, error["name"]) == ("failed", "RpcError")
            assert error["code"] in (1501, 1502, 1503), "no answer, or nobody there any more"
    for app in apps:
        counts = await has_come(app, "counts", lambda counts: counts["incomplete"] == 1)
        assert (counts["malformed"], counts["unhandled"]) == (0, {})
        await has_come(app, "presence", lambda presence: presence["state"] == "absent")
    async with Scene(stage, apps[0]).joined_agent("second"):
        for version, app in zip(VERSIONS, apps, strict=True):
            asking = app.do("ask", "echo", 2, {"timeout": 20})
            assert await asyncio.wait_for(asking, WITHIN) == ["ok", 2], f"livekit-client {version}"


@pytest.mark.livekit_only("embedded", reason="faults are made by the embedded server alone")
async def test_requests_that_are_lost_are_sent_again(
    context: BrowserContext, site: Site, stage: Stage, problems: Problems
) -> None:
    problems.expect(EXPECTED)
    apps = [(await open_apps(context, site, version)).app() for version in VERSIONS]
    async with Scene(stage, apps[0]).joined_agent():
        for number, app in enumerate(apps):
            await join(app, stage, f"caller-{number}")
            await agent_is_ready(app)
        faults = stage.server.faults.in_room(stage.room_name)
        with faults.drop(len(apps), direction="to", participant="agent", method="curb.message") as lost:
            asked = [await app.begin("ask", "echo", 2, {"timeout": 20}) for app in apps]
            assert [await asyncio.wait_for(outcome, WITHIN) for outcome in asked] == [["ok", 2]] * len(apps)
        assert lost.count == len(apps)


async def test_a_page_that_is_loaded_again(
    context: BrowserContext, site: Site, stage: Stage, problems: Problems, version: str
) -> None:
    problems.expect(EXPECTED)
    apps = await open_apps(context, site, version)
    scene = Scene(stage, apps.app())
    async with scene.joined_agent() as agent:
        await join(scene.app, stage, "caller")
        await scene.agent_is_ready()
        before = agent.room.remote_participants["caller"].sid
        asked = await scene.app.begin("ask", "slow", {}, {"messageId": "gone"})
        await scene.until_begun("gone")
        await apps.page.reload()
        await asyncio.wait({asked}, timeout=WITHIN)
        assert asked.exception() or asked.result()[0] == "failed", "the page is gone, or the room as it went"
        app = scene.app = apps.app()
        await join(app, stage, "caller")
        assert await app.got("ask", "echo", 1, {"timeout": 30}) == 1
        caller = agent.room.remote_participants
        await until(
            lambda: "caller" in caller and caller["caller"].sid != before, within=WITHIN, what="the page is back"
        )
        await app.got("on", "status", "status")
        await scene.say("status", {"n": 1})
        assert await has_come(app, "log", bool, "status") == [[{"n": 1}, "agent"]]


async def test_two_tabs(context: BrowserContext, site: Site, stage: Stage, problems: Problems) -> None:
    problems.expect(EXPECTED)
    tabs = [(await open_apps(context, site, version)).app() for version in VERSIONS]
    scene = Scene(stage, tabs[0])
    async with scene.joined_agent() as agent:
        agent.on_message("who", lambda payload, meta: meta.sender_identity)
        for number, tab in enumerate(tabs):
            await join(tab, stage, f"caller-{number}")
            await tab.got("on", "status", "status")
        for number, tab in enumerate(tabs):
            assert await tab.got("ask", "who", {}, {"timeout": 30}) == f"caller-{number}"
        here = agent.room.remote_participants
        await until(lambda: {"caller-0", "caller-1"} <= set(here), within=WITHIN, what="both tabs are seen")
        await scene.say("status", {"to": "all"})
        assert await agent.send.to_client("status", {"to": "one"}, to="caller-1")
        assert len(await has_come(tabs[1], "log", lambda log: len(log) == 2, "status")) == 2
        assert await has_come(tabs[0], "log", bool, "status") == [[{"to": "all"}, "agent"]]
        await tabs[0].got("disconnect")
        assert await tabs[1].got("ask", "echo", 1, {"timeout": 30}) == 1


async def test_offline_and_online_again(
    context: BrowserContext, site: Site, stage: Stage, problems: Problems, version: str
) -> None:
    problems.expect(f"{EXPECTED}|Failed to fetch|CORS policy|net::ERR|websocket error during connection establishment")
    problems.expect("ConnectionError: Internal error")  # no socket while offline, and online again when it asks why
    scene = Scene(stage, (await open_apps(context, site, version)).app())
    async with scene.joined_agent():
        await join(scene.app, stage, "caller")
        await scene.agent_is_ready()
        await scene.app.got("on", "status", "status")
        await context.set_offline(True)
        back = await scene.app.begin("simulate", "signal-reconnect")
        await has_come(scene.app, "connection", lambda state: state != "connected")
        await context.set_offline(False)
        assert await asyncio.wait_for(back, WITHIN) == ["ok", None]
        assert await scene.app.got("ask", "echo", 1, {"timeout": 30}) == 1
        await scene.agent_is_ready()
        await scene.say("status", {"n": 1})
        assert await has_come(scene.app, "log", bool, "status") == [[{"n": 1}, "agent"]]
        assert "lost" not in await scene.app.got("told")
