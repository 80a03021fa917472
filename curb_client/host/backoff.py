"""How long to wait before the next try."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Backoff"]


@dataclass(frozen=True)
class Backoff:
    """Waits that double, each one shortened at random so that many hosts do not come back at once.

    Attributes:
        first: seconds, at most, before the second try.
        most: seconds, at most, before any.
        random: one that is seeded makes the waits repeatable.
    """

    first: float = 0.2
    most: float = 10.0
    random: random.Random = field(default_factory=random.Random, repr=False)

    def delays(self) -> Iterator[float]:
        """Seconds before the second try, before the third, and so on, without end."""
        longest = min(self.first, self.most)
        while True:
            yield longest * self.random.uniform(0.5, 1.0)
            longest = min(longest * 2, self.most)
