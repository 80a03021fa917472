"""A room with an agent in Python and a caller's app: what the scenarios play in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pydantic

from curb_client import AgentCall, RequestMeta
from curb_client.protocol.contract import MESSAGE
from tests.e2e.conftest import SETTINGS, Stage, until
from tests.parity.apps import App

__all__ = ["WITHIN", "Scenario", "Scene", "has_come", "playing"]

WITHIN: Final = 30.0


class QuoteRequest(pydantic.BaseModel):
    """What the agent's handler of ``quote`` takes."""

    plan: str


@dataclass
class Scene:
    """Who plays.

    Attributes:
        begun: how many requests the agent's handlers have begun with, by id.
    """

    stage: Stage
    app: App
    call: AgentCall | None = None
    begun: Counter[str] = field(default_factory=Counter)

    @property
    def agent(self) -> AgentCall:
        assert self.call is not None, "the scenario has let no agent in yet"
        return self.call

    async def connect(self) -> None:
        """The app joins the room."""
        await self.app.got("connect", self.stage.url, self.stage.token("caller"))

    @asynccontextmanager
    async def joined_agent(self, identity: str = "agent", *, ready: bool = True) -> AsyncIterator[AgentCall]:
        """An agent that joins, with the handlers of all scenarios."""
        options: dict[str, Any] = {"settings": SETTINGS, "adjustable": {"client": ["tts.voice"]}}
        async with self.stage.agent(identity, ready=False, **options) as call:
            self._add_handlers(call)
            if ready:
                await call.ready()
            self.call = call
            yield call

    async def agent_is_ready(self) -> None:
        """The app knows that the agent is ready, and the agent knows of the app."""
        await has_come(self.app, "presence", lambda presence: presence["state"] == "ready")
        await until(lambda: "caller" in self.agent.room.remote_participants, within=WITHIN, what="the caller is seen")

    async def say(self, key: str, *payloads: Mapping[str, Any]) -> None:
        """The agent sends messages."""
        for payload in payloads:
            assert await self.agent.send.to_client(key, dict(payload))

    async def say_text(self, text: str) -> None:
        """The agent sends a text as a message."""
        options: dict[str, Any] = {"topic": MESSAGE, "destination_identities": ["caller"]}
        await self.agent.room.local_participant.send_text(text, **options)

    async def until_begun(self, message_id: str) -> None:
        await until(lambda: self.begun[message_id] > 0, within=WITHIN, what=f"the agent has begun with {message_id}")

    def _add_handlers(self, call: AgentCall) -> None:
        def note(payload: Any, meta: RequestMeta) -> None:
            """Takes anything."""

        def quote(request: QuoteRequest, meta: RequestMeta) -> dict[str, Any]:
            return {"plan": request.plan, "price": 12}

        async def open_form(payload: Any, meta: RequestMeta) -> None:
            await call.send.to_client("show-form", {"fields": ["name", "policy"]})

        def broken(payload: Any, meta: RequestMeta) -> None:
            raise RuntimeError("this handler always fails")

        async def slow(payload: Any, meta: RequestMeta) -> None:
            self.begun[meta.id] += 1
            await asyncio.sleep(60)

        def count(payload: Any, meta: RequestMeta) -> int:
            self.begun[meta.id] += 1
            return self.begun[meta.id]

        def echo(payload: Any, meta: RequestMeta) -> Any:
            return payload

        for key in ("note", "k", "k" * 256, "😀" * 128, " a key/with: anything "):
            call.on_message(key, note)
        call.on_message("quote", quote, schema=QuoteRequest)
        for handler in (open_form, broken, slow, count, echo):
            call.on_message(handler.__name__.replace("_", "-"), handler)


@dataclass(frozen=True)
class Scenario:
    """One line of the table.

    Attributes:
        name: as in the table.
        play: does it; fails where the app does not do what every app must.
        own_room: it needs a room to itself. The others share one, with an agent that is ready.
    """

    name: str
    play: Callable[[Scene], Awaitable[None]]
    own_room: bool = False


async def has_come(app: App, op: str, wanted: Callable[[Any], object], *arguments: Any) -> Any:
    """Waits until an operation gives what is wanted; what it gives."""
    loop = asyncio.get_running_loop()
    given_up = loop.time() + WITHIN
    while not wanted(value := await app.got(op, *arguments)):
        assert loop.time() < given_up, f"{op} {arguments} still gives {value!r:.500}"
        await asyncio.sleep(0.02)
    return value


@asynccontextmanager
async def playing(stage: Stage, app: App) -> AsyncIterator[Scene]:
    """An app and an agent that know each other, for the scenarios that share a room; each opens a client."""
    scene = Scene(stage, app)
    async with scene.joined_agent():
        await scene.connect()
        yield scene
        await app.got("disconnect")
