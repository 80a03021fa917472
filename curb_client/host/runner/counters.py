"""What a runner counts, for its metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Counters"]


@dataclass
class Counters:
    """Plain numbers that grow, and the number of readers.

    Attributes:
        calls_started: calls taken.
        calls_ended: by reason; those that hosts make up are counted together, as ``other``.
        messages: app messages, by direction and outcome (``ok`` or a refusal's code).
        requests: HTTP requests, by route and status.
        readers: of the event stream, right now.
        readers_cut: readers that were too slow.
    """

    calls_started: int = 0
    calls_ended: Counter[str] = field(default_factory=Counter)
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    readers: int = 0
    readers_cut: int = 0
