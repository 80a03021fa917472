"""docs/parity.md: what each client does on each server, as the tests found it.

``make parity`` runs the tests with ``CURB_PARITY`` naming a folder, in which each process notes what it found, and
then ``python -m tests.parity.table FOLDER``, which writes the page. Without it each test compares what it finds with
the page.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.parity.comings import ALONE
from tests.parity.scenarios import SHARED

__all__ = [
    "CLIENTS",
    "PAGE",
    "PASS",
    "SCENARIOS",
    "SERVERS",
    "Cell",
    "all_cells",
    "cells_of",
    "note",
    "noted",
    "page_of",
]

PAGE: Final = Path(__file__).parents[2] / "docs" / "parity.md"
PASS: Final = "pass"
SCENARIOS: Final = [*SHARED, *ALONE]
CLIENTS: Final = {
    "python": "Python",
    "chromium-2.9.9": "Chromium, livekit-client 2.9.9",
    "chromium-2.23.0": "Chromium, livekit-client 2.23.0",
    "node": "Node.js, rtc-node 1.1",
}
SERVERS: Final = ("embedded", "server")
Cell = tuple[str, str, str]
"""Names of a scenario, a client and a server."""

HEAD: Final = """# The clients, compared

One list of scenarios is played by the client in Python, the one in JavaScript in a browser, and the same in Node.js,
each against an agent in Python, on the embedded server and on livekit-server. The tests compare what they find with
this table; `make parity` writes it anew.

Where the SDKs differ, and a client cannot make it up:

- livekit-client puts what arrives into the memory of its stream before the client can read it. The limits on messages
  that are not whole hold for what the client keeps; in Python and Node.js they end the stream as well.
- livekit-client before 2.13 and `@livekit/rtc-node` have no event for a participant that can now receive data: the
  client in JavaScript looks once a second while the agent has joined and is not active.

"""


def note(folder: Path, cell: Cell, outcome: str) -> None:
    """Adds what a test found to its process's file in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps([*cell, outcome]) + "\n")


def noted(folder: Path) -> dict[Cell, str]:
    """What all processes found."""
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text(encoding="utf-8").splitlines()]
    return {(scenario, client, server): outcome for scenario, client, server, outcome in map(json.loads, lines)}


def all_cells() -> list[Cell]:
    """What the table must have."""
    return [(each.name, client, server) for each in SCENARIOS for client in CLIENTS for server in SERVERS]


def page_of(outcomes: Mapping[Cell, str]) -> str:
    """The page.

    Raises:
        ValueError: a cell is missing.
    """
    missing = [cell for cell in all_cells() if cell not in outcomes]
    if missing:
        raise ValueError(f"{len(missing)} of {len(all_cells())} cells are missing, the first is {missing[0]}")
    titles = [f"{title}: {server}" for title in CLIENTS.values() for server in SERVERS]
    rows = [["scenario", *titles], ["---"] * (len(titles) + 1)]
    rows += [
        [each.name, *(outcomes[each.name, client, server] for client in CLIENTS for server in SERVERS)]
        for each in SCENARIOS
    ]
    return HEAD + _lines(rows)


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cells_of(page: str) -> dict[Cell, str]:
    """What a page says."""
    rows = [line.strip("| \n").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    columns = [(client, server) for client in CLIENTS for server in SERVERS]
    return {(row[0], *column): cell for row in rows for column, cell in zip(columns, row[1:], strict=True)}


def main(folder: str) -> None:
    PAGE.write_text(page_of(noted(Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
