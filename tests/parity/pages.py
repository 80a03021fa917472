"""A page with livekit-client, the script that the Python package carries, and apps that use them."""

from __future__ import annotations

from playwright.async_api import BrowserContext

from curb_client import static
from tests.browser.livekit_page import put_livekit_client
from tests.browser.problems import CONNECTION_ENDS
from tests.browser.site import Site
from tests.parity.apps import FOLDER, PAGE_SCRIPT, PageApps

__all__ = ["EXPECTED", "VERSIONS", "open_apps"]

VERSIONS = ("2.9.9", "2.23.0")
EXPECTED = f"{CONNECTION_ENDS}|for unexpected RPC request"
"""LiveKit's own words in the console, also when an agent answers as it leaves."""


async def open_apps(context: BrowserContext, site: Site, version: str) -> PageApps:
    """Apps in a page with this version of livekit-client, which loads scripts by tags."""
    put_livekit_client(site, version)
    site.put("/curb-client.js", static.script_path())
    site.put("/app.js", FOLDER / "app.js")
    site.put("/apps.js", PAGE_SCRIPT)
    scripts = (f"/livekit-client-{version}.js", "/curb-client.js", "/app.js", "/apps.js")
    page = await context.new_page()
    await page.goto(site.page(f"/apps-{version}.html", scripts=scripts))
    return PageApps(page)
