"""What every client does as agents and connections come and go: ``ALONE``, scenarios with a room for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.e2e.conftest import until
from tests.parity.scene import WITHIN, Scenario, Scene, has_come

__all__ = ["ALONE"]

ALONE: Final[list[Scenario]] = []
Play = Callable[[Scene], Awaitable[None]]


def scenario(name: str) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        ALONE.append(Scenario(name, play, own_room=True))
        return play

    return add


@scenario("an ask made before the room is connected")
async def before_connect(scene: Scene) -> None:
    assert await scene.app.got("presence") == {"state": "unconnected", "identity": None}
    failure = await scene.app.failure("ask", "echo", 1, {"timeout": 0.2})
    assert failure == {"name": "AgentUnavailableError", "state": "unconnected"}
    async with scene.joined_agent():
        asked = await scene.app.begin("ask", "echo", 1, {"timeout": 30})
        await scene.connect()
        assert await asked == ["ok", 1]
        await has_come(scene.app, "told", lambda told: told[0] == "unconnected" and told[-1] == "ready")


@scenario("no agent in time, then an ask that waits for it")
async def late_agent(scene: Scene) -> None:
    await scene.connect()
    failure = await scene.app.failure("send", "note", {}, {"timeout": 0.5})
    assert failure == {"name": "AgentUnavailableError", "state": "absent"}
    asked = await scene.app.begin("ask", "echo", 1, {"timeout": 30})
    async with scene.joined_agent():
        assert await asked == ["ok", 1]
        await scene.agent_is_ready()


@scenario("a message that the agent sends as soon as it has joined")
async def first_words(scene: Scene) -> None:
    await scene.app.got("on", "welcome", "welcome")
    await scene.connect()
    async with scene.joined_agent(ready=False):
        await scene.say_text('{"key":"welcome","payload":{"n":1}}')
        assert await has_come(scene.app, "log", bool, "welcome") == [[{"n": 1}, "agent"]]


@scenario("an agent that is not ready holds the request")
async def held(scene: Scene) -> None:
    await scene.connect()
    async with scene.joined_agent(ready=False) as agent:
        asked = await scene.app.begin("ask", "echo", 1, {"timeout": 30})
        await has_come(scene.app, "presence", lambda presence: presence["state"] == "ready")
        assert not asked.done()
        await agent.ready()
        assert await asked == ["ok", 1]


@scenario("an agent without the protocol's methods")
async def no_methods(scene: Scene) -> None:
    await scene.connect()
    async with scene.stage.room("agent", kind="agent") as agent:
        await agent.local_participant.set_attributes({"here": "1"})
        await has_come(scene.app, "presence", lambda presence: presence["state"] == "active")
        failure = await scene.app.failure("send", "note", {}, {"timeout": 1})
        assert failure == {"name": "AgentUnavailableError", "state": "active"}


@scenario("the room is left while an ask waits")
async def left(scene: Scene) -> None:
    async with scene.joined_agent():
        await scene.connect()
        await scene.agent_is_ready()
        asked = await scene.app.begin("ask", "slow", {}, {"messageId": "left", "timeout": 60})
        waiting = await scene.app.begin("waitFor", "never", {"timeout": 60})
        listening = await scene.app.begin("messages", "status", 1)
        await scene.until_begun("left")
        await scene.app.got("disconnect")
        lost = {"name": "AgentUnavailableError", "state": "lost"}
        assert await asked == ["failed", {"name": "RpcError", "code": 1503}]
        assert await waiting == await listening == ["failed", lost]
        assert await scene.app.got("presence") == {"state": "lost", "identity": None}
        assert await scene.app.failure("send", "note", {}) == lost


@scenario("the agent leaves while an ask waits, and the next one takes over")
async def next_agent(scene: Scene) -> None:
    await scene.connect()
    async with scene.joined_agent():
        await scene.agent_is_ready()
        asked = await scene.app.begin("ask", "slow", {}, {"messageId": "next", "timeout": 60})
        await scene.until_begun("next")
    assert await asked == ["failed", {"name": "RpcError", "code": 1503}]
    await has_come(scene.app, "presence", lambda presence: presence == {"state": "absent", "identity": None})
    async with scene.joined_agent("second"):
        assert await scene.app.got("ask", "echo", 2, {"timeout": 30}) == 2
        assert await scene.app.got("presence") == {"state": "ready", "identity": "second"}
        await scene.agent_is_ready()
        waiting = await scene.app.begin("waitFor", "status", {"timeout": 30})
        await scene.app.got("presence")
        await scene.say("status", {"n": 1})
        assert await waiting == ["ok", {"n": 1}]


@scenario("the agent leaves in the middle of a message")
async def broken_message(scene: Scene) -> None:
    await scene.connect()
    async with scene.joined_agent() as agent:
        await scene.agent_is_ready()
        writer = await agent.room.local_participant.stream_text(topic="curb.message", destination_identities=["caller"])
        await writer.write('{"key":"status"')
        await scene.app.got("ask", "echo", 1)
    counts = await has_come(scene.app, "counts", lambda counts: counts["incomplete"] == 1)
    assert counts["malformed"] == 0


async def _reconnects(scene: Scene, kind: str) -> None:
    await scene.connect()
    async with scene.joined_agent() as agent:
        await scene.agent_is_ready()
        before = agent.room.remote_participants["caller"].sid
        await scene.app.got("on", "status", "status")
        await scene.app.got("simulate", kind)
        if kind == "full-reconnect":
            await until(
                lambda: getattr(agent.room.remote_participants.get("caller"), "sid", before) != before,
                within=WITHIN,
                what="the app is back",
            )
        assert await scene.app.got("ask", "echo", 2, {"timeout": 30}) == 2
        await scene.agent_is_ready()
        await scene.say("status", {"n": 1})
        assert await has_come(scene.app, "log", bool, "status") == [[{"n": 1}, "agent"]]
        assert "lost" not in await scene.app.got("told")


@scenario("a signal reconnect")
async def signal_reconnect(scene: Scene) -> None:
    await _reconnects(scene, "signal-reconnect")


@scenario("a full reconnect")
async def full_reconnect(scene: Scene) -> None:
    await _reconnects(scene, "full-reconnect")
