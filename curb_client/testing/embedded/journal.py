"""What an embedded server remembers of its doings, for whoever has to find out why a test failed."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque

__all__ = ["Journal"]

LINES_KEPT = 1000

_logger = logging.getLogger("curb_client.testing.embedded")


class Journal:
    """The server's last lines: joins, leaves, refusals, and what was wrong with what clients sent."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """How often each thing that is written once happened."""
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)

    def write(self, line: str) -> None:
        """One line, which gets the time before it."""
        now = time.time()
        self._lines.append(f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now % 1 * 1000):03d} {line}")
        _logger.debug("%s", line)

    def once(self, what: str, line: str) -> None:
        """Counts ``what``, and writes the line the first time only: a client may do it thousands of times."""
        self.counts[what] += 1
        if self.counts[what] == 1:
            self.write(f"{line} (said once: {what})")

    def tail(self, lines: int) -> str:
        """The last lines, as one text."""
        return "\n".join(list(self._lines)[-lines:]) if lines > 0 else ""
