"""The browser of the tests, by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.browser.problems import Problems
from tests.browser.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_page_with_scripts(page: Page, site: Site, tmp_path: Path) -> None:
    (tmp_path / "b.js").write_text("window.b = window.a + 1")
    (tmp_path / "secret").write_text("kept")
    site.put("/a.js", "window.a = 1")
    site.put("/folder", tmp_path)
    await page.goto(site.page("/", scripts=("/a.js", "/folder/b.js"), body="<p>hello</p>"))
    assert await page.evaluate("b") == 2
    assert await page.inner_text("p") == "hello"
    asked = "async (path) => (await fetch(path)).status"
    assert await page.evaluate(asked, "/folder/secret") == 200


async def test_what_a_page_may_not_have(page: Page, site: Site, problems: Problems, tmp_path: Path) -> None:
    problems.expect("404")
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "folder").mkdir()
    site.put("/inside", tmp_path / "folder")
    await page.goto(site.page("/"))
    asked = "async (path) => (await fetch(path)).status"
    assert await page.evaluate(asked, "/nothing") == 404
    assert await page.evaluate(asked, "/inside/%2e%2e%2fsecret") == 404


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("console.error('it', 'failed')", "console: it failed"),
        ("setTimeout(() => { throw new Error('thrown') })", "uncaught: .*thrown"),
        ("void Promise.reject(new Error('rejected'))", "uncaught: .*rejected"),
    ],
)
async def test_problems_of_a_page(page: Page, site: Site, problems: Problems, script: str, message: str) -> None:
    await page.goto(site.page("/"))
    async with page.expect_console_message(lambda message: message.text == "done"):
        await page.evaluate(f"() => {{ {script}; setTimeout(() => console.log('done'), 50) }}")
    with pytest.raises(AssertionError, match=message):
        problems.check()
    problems.expect(message)


async def test_pages_have_a_microphone(page: Page, site: Site) -> None:
    await page.goto(site.page("/"))
    kinds = "async () => (await navigator.mediaDevices.getUserMedia({audio: true})).getTracks().map(t => t.kind)"
    assert await page.evaluate(kinds) == ["audio"]
