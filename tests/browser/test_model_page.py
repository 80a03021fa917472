"""The page of a recording, opened in Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page

from curb_client.model import RecordedRequest
from curb_client.model.view.html import html_page
from tests.model.conversation import CONVERSATION

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_requests_side_by_side_with_what_changed(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    recorded = [RecordedRequest(0, request.body) for request in CONVERSATION]
    path.write_text(html_page(recorded, "A parcel desk"), encoding="utf-8")
    await page.goto(path.as_uri())
    assert await page.title() == "A parcel desk"
    columns = page.locator("article")
    assert await columns.count() == len(CONVERSATION)
    boxes = [await columns.nth(number).bounding_box() for number in range(len(CONVERSATION))]
    lefts = [box["x"] for box in boxes if box is not None]
    assert lefts == sorted(set(lefts)), "each is to the right of the one before"
    third = columns.nth(2)
    assert await third.locator("li.gone:visible").all_inner_texts() == [
        "find_order",
        "instruction: Ask for the number.",
        "content: No order\n  is known.",
        "tool: find_order() [page]",
    ]
    assert "instruction: Ask what broke." in await third.locator("li.new:visible").all_inner_texts()
    assert await columns.nth(0).locator("li.new").count() == 0
    assert not await third.locator("details", has_text="system").first.evaluate("section => section.open")
