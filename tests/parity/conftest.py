"""Each scenario with each client; what comes of it is compared with docs/parity.md, or noted for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from curb_client.testing import LiveKitServerHandle
from tests.browser.conftest import browser, chromium, site
from tests.e2e.conftest import Stage
from tests.js.conftest import js
from tests.parity.apps import App
from tests.parity.scene import Scenario, Scene, playing
from tests.parity.table import PAGE, PASS, Cell, cells_of, note

__all__ = ["Plays", "browser", "chromium", "js", "site"]

MakeApp = Callable[[], App]


class Plays:
    """The scenarios of one module: with its clients, and the rooms that scenarios share."""

    def __init__(self, server: LiveKitServerHandle, on_server: str) -> None:
        self.server = server
        self.on_server = on_server
        self.stack = AsyncExitStack()
        self._shared: dict[str, Scene] = {}
        self._rooms = 0

    def stage(self, client: str) -> Stage:
        self._rooms += 1
        return Stage(self.server, f"parity-{client}-{os.getpid()}-{self._rooms}")

    async def end(self) -> None:
        """Leaves the shared rooms."""
        self._shared.clear()
        await self.stack.aclose()

    async def play(self, scenario: Scenario, client: str, make_app: MakeApp) -> None:
        """Plays it, and compares what comes of it with the page."""
        playing = self._play_alone if scenario.own_room else self._play_shared
        await asyncio.wait_for(playing(scenario, client, make_app), 120)
        self._tell((scenario.name, client, self.on_server), PASS)

    async def _play_alone(self, scenario: Scenario, client: str, make_app: MakeApp) -> None:
        scene = Scene(self.stage(client), make_app())
        await scene.app.got("open")
        try:
            await scenario.play(scene)
        finally:
            await scene.app.do("disconnect")
        await scene.app.got("close")

    async def _play_shared(self, scenario: Scenario, client: str, make_app: MakeApp) -> None:
        scene = self._shared.pop(client, None)  # a scenario that fails leaves it in no state for the next one
        if scene is None:
            scene = await self.stack.enter_async_context(playing(self.stage(client), make_app()))
        await scene.app.got("open")
        await scene.agent_is_ready()
        await scenario.play(scene)
        await scene.app.got("close")
        self._shared[client] = scene

    def _tell(self, cell: Cell, outcome: str) -> None:
        folder = os.environ.get("CURB_PARITY")
        if folder:
            note(Path(folder), cell, outcome)
            return
        told = cells_of(PAGE.read_text(encoding="utf-8")).get(cell) if PAGE.exists() else None
        assert told == outcome, f"docs/parity.md has {told!r} for {cell}, and it is {outcome!r}; run: make parity"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plays(pytestconfig: pytest.Config, curb_livekit: LiveKitServerHandle) -> AsyncIterator[Plays]:
    choice = pytestconfig.getoption("curb_livekit") or os.environ.get("CURB_LIVEKIT_URL") or "embedded"
    plays = Plays(curb_livekit, "embedded" if choice == "embedded" else "server")
    yield plays
    await plays.end()
