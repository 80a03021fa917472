"""A caller's page with one version of livekit-client in it, as tests see it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import BrowserContext, Page

from tests.browser.peer import Peer, peer_in
from tests.browser.site import Site
from tests.e2e.conftest import Stage

__all__ = ["CARRIES_LARGE_CALLS", "VERSIONS", "LiveKitPage", "call_of", "open_livekit_page"]

VERSIONS: Final = ("2.9.9", "2.15.16", "2.23.0")
CARRIES_LARGE_CALLS: Final = ("2.23.0",)
"""Those that take and send calls of more than 15 KiB."""
WITHIN: Final = 60.0

FOLDER: Final = Path(__file__).parent
INSTALL: Final = "the tests in a browser lack livekit-client: make tests/browser/node_modules/ready"


class LiveKitPage:
    """What ``caller.js`` has, for tests."""

    def __init__(self, page: Page, version: str) -> None:
        self.page = page
        self.version = version

    async def run(self, script: str, *arguments: Any) -> Any:
        """The value of an expression of JavaScript; it is called with the arguments where it is a function."""
        call = f"(args) => {{ const value = {script}; return typeof value === 'function' ? value(...args) : value }}"
        return await asyncio.wait_for(self.page.evaluate(call, list(arguments)), WITHIN)

    async def until(self, script: str, *arguments: Any) -> Any:
        """Waits until such an expression is neither false, null nor 0; its value."""
        call = f"(args) => {{ const value = {script}; return typeof value === 'function' ? value(...args) : value }}"
        try:
            handle = await self.page.wait_for_function(call, arg=list(arguments), polling=10, timeout=WITHIN * 1000)
        except Exception as error:
            told = await self.run("events")
            raise AssertionError(f"{script} with {arguments} did not become true; the room told {told}") from error
        return await handle.json_value()

    async def join(self, url: str, token: str) -> str:
        """Joins a room and says so by the attribute ``ready``, which is told at once; its sid there."""
        return str(await self.run("join", url, token))

    async def sees(self, identity: str, attribute: str = "ready") -> dict[str, Any]:
        """Waits until a participant is seen with an attribute that it has; what is seen of it."""
        found = await self.until(
            "(who, what) => what in (seen(who)?.attributes ?? {}) && seen(who)", identity, attribute
        )
        assert isinstance(found, dict)
        return found

    async def told(self, name: str, *first: Any) -> list[Any]:
        """Waits for an event; its arguments."""
        found = await self.until(
            "(...wanted) => events.find((event) => wanted.every((each, at) => event[at] === each))", name, *first
        )
        assert isinstance(found, list)
        return found[1:]

    async def reconnected(self) -> None:
        """Waits until the page is back. It says so a moment too early: what it answers then is never sent."""
        await self.told("reconnected")
        await self.until("!room.engine.attemptingReconnect")

    async def ask(self, identity: str, method: str = "echo", payload: str = "hello", **options: Any) -> list[Any]:
        """A call: ``["ok", reply]`` or ``["failed", error]``."""
        found = await self.run("ask", identity, method, payload, *options.values())
        assert isinstance(found, list)
        return found

    async def code_of(self, identity: str, method: str = "echo", payload: str = "hello", **options: Any) -> int:
        """The number of the error that a call ends with."""
        state, error = await self.ask(identity, method, payload, **options)
        assert state == "failed", error
        return int(error["code"])


@contextlib.asynccontextmanager
async def call_of(tab: LiveKitPage, stage: Stage) -> AsyncIterator[Peer]:
    """The page as ``caller``, and an agent in Python: each sees the other."""
    async with peer_in(stage, "agent", kind="agent", name="Ada", metadata="made of Python") as agent:
        await tab.join(stage.url, stage.token("caller"))
        await tab.sees("agent")
        await agent.sees("caller")
        yield agent


def put_livekit_client(site: Site, version: str) -> None:
    """The script of this version, on the site as ``/livekit-client-{version}.js``."""
    bundle = FOLDER / "node_modules" / f"livekit-client-{version}" / "dist" / "livekit-client.umd.js"
    if not bundle.is_file():
        if os.environ.get("CI"):
            pytest.fail(INSTALL)
        pytest.skip(INSTALL)
    site.put(f"/livekit-client-{version}.js", bundle)


async def open_livekit_page(context: BrowserContext, site: Site, version: str) -> LiveKitPage:
    """A page, which has joined no room yet."""
    put_livekit_client(site, version)
    site.put("/caller.js", FOLDER / "caller.js")
    url = site.page(f"/caller-{version}.html", scripts=(f"/livekit-client-{version}.js", "/caller.js"))
    page = await context.new_page()
    await page.goto(url)
    return LiveKitPage(page, version)
