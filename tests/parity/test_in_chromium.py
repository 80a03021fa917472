"""Every scenario with the script that the Python package carries, in a page with script tags."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.problems import Problems
from tests.browser.site import Site
from tests.parity.apps import PageApps
from tests.parity.conftest import Plays
from tests.parity.pages import EXPECTED, VERSIONS, open_apps
from tests.parity.scene import Scenario
from tests.parity.table import SCENARIOS

pytestmark = [pytest.mark.livekit, pytest.mark.asyncio(loop_scope="module")]

Apps = tuple[str, PageApps, Problems]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=VERSIONS)
async def apps(request: pytest.FixtureRequest, browser: Browser, site: Site, plays: Plays) -> AsyncIterator[Apps]:
    """A version of livekit-client, apps in a page with it, and what goes wrong there."""
    problems = Problems()
    problems.expect(EXPECTED)
    context = await browser.new_context()
    problems.watch(context)
    yield request.param, await open_apps(context, site, request.param), problems
    await plays.end()
    await context.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_page(plays: Plays, apps: Apps, scenario: Scenario) -> None:
    version, in_page, problems = apps
    await plays.play(scenario, f"chromium-{version}", in_page.app)
    problems.check()
