"""What goes wrong in pages."""

from __future__ import annotations

import re

from playwright.async_api import BrowserContext, ConsoleMessage, WebError

__all__ = ["CONNECTION_ENDS", "Problems"]

CONNECTION_ENDS = "DataChannel error|closed unexpectedly|WebSocket connection to|resume failed|error sending data"
"""livekit-client's own words in the console while a connection ends or comes back; which of them is chance."""


class Problems:
    """Errors in the console, and what pages throw and nobody catches, also in promises."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._expected: list[str] = []

    def expect(self, pattern: str) -> None:
        """Lets pass what matches, whether it comes or not: a text of the browser's differs between versions."""
        self._expected.append(pattern)

    def watch(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.found.append(f"console: {message.text}")

    def _on_error(self, error: WebError) -> None:
        self.found.append(f"uncaught: {error.error}")

    def check(self) -> None:
        """Fails the test where there was something that it does not expect."""
        __tracebackhide__ = True
        unexpected = [each for each in self.found if not any(re.search(one, each) for one in self._expected)]
        if unexpected:
            raise AssertionError("problems in the test's pages:\n" + "\n".join(unexpected))
