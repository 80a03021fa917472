"""Pages in Chromium: a process of it for the run, a fresh context for each test.

Playwright belongs to one event loop, so a module with such tests keeps one: ``pytestmark =
pytest.mark.asyncio(loop_scope="module")``, and its async fixtures are ``@pytest_asyncio.fixture(loop_scope="module")``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from curb_client.testing import LiveKitServerHandle
from tests.browser.chromium import INSTALL, ChromiumError, find_chromium, running_chromium
from tests.browser.livekit_page import VERSIONS, LiveKitPage, open_livekit_page
from tests.browser.problems import Problems
from tests.browser.site import Site, serving
from tests.e2e.conftest import Stage

STEP_WITHIN = 60.0
"""Seconds for each step in a page, on a busy machine."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[str]:
    """Where a Chromium listens for ``connect_over_cdp``; under xdist one for each worker."""
    program = find_chromium()
    if program is None:
        if os.environ.get("CI"):
            pytest.fail(INSTALL)
        pytest.skip(INSTALL)
    try:
        with running_chromium(program) as url:
            yield url
    except ChromiumError as error:
        pytest.fail(str(error), pytrace=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(chromium, timeout=STEP_WITHIN * 1000)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    """Files for the pages of a module."""
    async with serving() as site:
        yield site


@pytest.fixture
def problems(request: pytest.FixtureRequest) -> Problems:
    """What went wrong in the pages of a test, which fails it, unless it is said to be expected."""
    mark = request.node.get_closest_marker("asyncio")
    if mark is None or mark.kwargs.get("loop_scope") != "module":
        pytest.fail('a page needs: pytestmark = pytest.mark.asyncio(loop_scope="module")', pytrace=False)
    return Problems()


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Browser, problems: Problems) -> AsyncIterator[BrowserContext]:
    """A fresh context, in which a test may open further pages."""
    context = await browser.new_context()
    context.set_default_timeout(STEP_WITHIN * 1000)
    problems.watch(context)
    yield context
    await context.close()
    problems.check()


@pytest_asyncio.fixture(loop_scope="module")
async def page(context: BrowserContext) -> Page:
    """A blank page in a fresh context."""
    return await context.new_page()


@pytest.fixture(params=VERSIONS)
def livekit_version(request: pytest.FixtureRequest) -> str:
    """Of livekit-client."""
    return str(request.param)


@pytest_asyncio.fixture(loop_scope="module")
async def tab(context: BrowserContext, site: Site, livekit_version: str) -> LiveKitPage:
    """A page with livekit-client, in no room yet."""
    return await open_livekit_page(context, site, livekit_version)


@pytest_asyncio.fixture(loop_scope="module")
async def tabs(context: BrowserContext, site: Site) -> list[LiveKitPage]:
    """A page for each version: what takes long is done in all of them at once."""
    return [await open_livekit_page(context, site, version) for version in VERSIONS]


@pytest.fixture
def stage(curb_livekit: LiveKitServerHandle) -> Stage:
    """A room of its own on the run's server."""
    return Stage(curb_livekit, f"browser-{uuid.uuid4().hex[:8]}")
