"""Reading requests: time over size, and over a bare loop on the same lines; interleaved."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from curb_client.model import CurrentContext

__all__ = ["TARGETS", "measure_reading", "print_reading"]

ROUNDS = 15
MEGABYTES = 2**20
TARGETS = {"reading 4 MB to 2 MB": 2.3, "reading to a bare loop": 3.0}


def context_of(size: int) -> str:
    """A context of about so many bytes: contents with further lines, instructions, tools."""
    lines = [
        "content: The shelf 17 holds parcels for the next round, sorted by street.",
        "  It is full, and the next one is free.",
        "instruction: Ask for the number of the order, and read it back to the caller.",
        "tool: find_order(number*, year) [page]",
    ]
    repeats = size // sum(len(line) + 1 for line in lines)
    return "\n".join(["<current_context>", "Today is some day", *lines * repeats, "</current_context>"])


def bare_loop(text: str) -> list[tuple[str, str, str]]:
    """What reading cannot do without."""
    return [line.partition(": ") for line in text.split("\n")]


def measure_reading() -> dict[str, Any]:
    """Medians of reading 2 MB and 4 MB, and of the bare loop over the 4 MB."""
    half, whole = context_of(2 * MEGABYTES), context_of(4 * MEGABYTES)
    ways: dict[str, Callable[[], object]] = {
        "2 MB": lambda: CurrentContext.parse(half),
        "4 MB": lambda: CurrentContext.parse(whole),
        "bare 4 MB": lambda: bare_loop(whole),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            gc.collect()  # of what the round before left
            started = time.perf_counter()
            read = way()
            seconds[name].append(time.perf_counter() - started)
            del read
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    return {
        "seconds": medians,
        "reading 4 MB to 2 MB": medians["4 MB"] / medians["2 MB"],
        "reading to a bare loop": medians["4 MB"] / medians["bare 4 MB"],
    }


def print_reading(result: dict[str, Any]) -> None:
    """The ratios and their targets."""
    print("\nreading a context")
    for name, target in TARGETS.items():
        print(f"{name:24}{result[name]:10.2f}   target {target}")


if __name__ == "__main__":
    print_reading(measure_reading())
