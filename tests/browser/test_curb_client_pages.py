"""The README's two web pages, in Chromium, and the picture of one of them."""

from __future__ import annotations

import os
import re
import shutil
import sys
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, async_playwright, expect

from curb_client import static
from curb_client.testing.agent_process import AgentProcess, agent_environment
from tests.browser.chromium import OPTIONS, find_chromium
from tests.browser.livekit_page import FOLDER
from tests.browser.problems import Problems
from tests.browser.site import Site
from tests.e2e.conftest import Stage
from tests.js.conftest import js
from tests.js.test_js_package import run
from tests.parity.pages import EXPECTED, VERSIONS

__all__ = ["js"]

pytestmark = [pytest.mark.livekit, pytest.mark.asyncio(loop_scope="module")]

ROOT = Path(__file__).parents[2]
WEB = ROOT / "examples" / "web"
PICTURE = ROOT / "docs" / "images" / "web-page.png"
PNG = b"\x89PNG\r\n"
WITHIN_MS = 30_000


@pytest.mark.parametrize(("kind", "file"), [("html", "index.html"), ("tsx", "main.tsx")])
async def test_the_readme_shows_the_page_in_15_lines(kind: str, file: str) -> None:
    shown = re.findall(rf"```{kind}\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    program = (WEB / file).read_text(encoding="utf-8")
    assert shown == [program]
    assert len([line for line in program.splitlines() if line.strip()]) <= 15


@pytest_asyncio.fixture(loop_scope="module")
async def query(stage: Stage, problems: Problems) -> AsyncIterator[str]:
    """What the pages need to know of the call; the agent of the README is in it."""
    problems.expect(EXPECTED)
    command = [sys.executable, str(ROOT / "examples" / "agent.py")]
    async with AgentProcess(command, environment=agent_environment(stage.server, stage.room_name)):
        yield "?" + urllib.parse.urlencode({"url": stage.url, "token": stage.token("caller")})


async def ask_for_the_price(page: Page, site: Site, query: str, version: str) -> None:
    site.put("/livekit-client.umd.js", FOLDER / "node_modules" / f"livekit-client-{version}/dist/livekit-client.umd.js")
    site.put("/curb-client.js", static.script_path())
    await page.goto(site.put("/index.html", WEB / "index.html") + query)
    await page.click("#ask")
    await expect(page.locator("#price")).to_have_text("12", timeout=WITHIN_MS)
    await expect(page.locator("#form")).to_have_text("Please tell us: name, policy", timeout=WITHIN_MS)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_page_with_script_tags(page: Page, site: Site, query: str, version: str) -> None:
    await ask_for_the_price(page, site, query, version)


async def test_the_picture_of_the_page(chromium: str, site: Site, query: str, tmp_path: Path) -> None:
    """In a browser that Playwright starts: it paints, where one that it only connects to paints now and then."""
    options = [option for option in OPTIONS if not option.startswith("--remote-debugging")]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(), args=options, chromium_sandbox=os.geteuid() != 0
        )
        page = await browser.new_page(viewport={"width": 640, "height": 60}, device_scale_factor=2)
        await ask_for_the_price(page, site, query, VERSIONS[-1])
        picture = tmp_path / PICTURE.name
        await page.screenshot(path=picture)
        await browser.close()
    if os.environ.get("CURB_PARITY"):  # make parity takes the pictures of the docs anew
        shutil.copy(picture, PICTURE)
    width_and_height = slice(16, 24)
    assert picture.read_bytes()[:6] == PICTURE.read_bytes()[:6] == PNG
    assert picture.read_bytes()[width_and_height] == PICTURE.read_bytes()[width_and_height], "outdated: make parity"


@pytest.mark.parametrize("mode", ["production", "development"])
async def test_the_react_page(
    context: BrowserContext, site: Site, query: str, js: Path, tmp_path: Path, mode: str
) -> None:
    """In development StrictMode mounts everything twice."""
    folders = {"CURB_DIST": str(tmp_path / "dist"), "CURB_EXAMPLE": str(tmp_path / "web"), "NODE_ENV": mode}
    run(js, "node", "build.mjs", "--no-types", "--example", **folders)
    site.put("/example.js", tmp_path / "web" / "example.js")
    body = '<script type="module" src="/example.js"></script>'
    page = await context.new_page()
    await page.goto(site.page("/react.html", body=body) + query)
    await expect(page.locator("button")).to_contain_text("The agent is ready: []", timeout=WITHIN_MS)
    await page.click("button")
    await expect(page.locator("button")).to_contain_text('{"plan":"basic","price":12}', timeout=WITHIN_MS)
    await expect(page.locator("button")).to_contain_text('{"fields":["name","policy"]}', timeout=WITHIN_MS)
