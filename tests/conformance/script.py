"""The script: every entry, each in a room of its own, a few at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets

from curb_client.testing import LiveKitServerHandle
from tests.conformance import (  # noqa: F401 - they add their entries
    endings,
    joins,
    packets,
    reconnects,
    room_service,
    rpc,
    state,
    streams,
    tracks,
)
from tests.conformance.stage import ENTRIES, Entry, Json, Stage

__all__ = ["run_script"]

AT_A_TIME = 8
"""Rooms of the SDK cost threads; most entries only wait."""
LONGEST = ("tracks.no_permission", "joins.hidden", "rpc.", "endings.told_to_leave")
"""They sit out deadlines of the SDK, and so come first."""
ENTRY_WITHIN = 120.0


async def run_script(server: LiveKitServerHandle, only: str = "") -> dict[str, Json]:
    """What each entry whose name begins with ``only`` results in on this server."""
    turns = asyncio.Semaphore(AT_A_TIME)

    async def play(name: str, entry: Entry) -> tuple[str, Json]:
        async with turns:
            return name, await _play(server, name, entry)

    chosen = [(name, entry) for name, entry in ENTRIES.items() if name.startswith(only)]
    chosen.sort(key=lambda each: not each[0].startswith(LONGEST))
    return dict(sorted(await asyncio.gather(*(play(name, entry) for name, entry in chosen))))


async def _play(server: LiveKitServerHandle, name: str, entry: Entry) -> Json:
    room = f"{name}-{secrets.token_hex(4)}"  # a server that runs already may know the room of an earlier run
    async with contextlib.AsyncExitStack() as stack:
        try:
            result = await asyncio.wait_for(entry(Stage(server, room, stack)), ENTRY_WITHIN)
            return json.loads(json.dumps(result))  # as it is before everybody leaves
        except Exception as error:  # the other entries shall still be compared
            return {"failed": f"{type(error).__name__}: {error}".replace(room, "ROOM")[:300]}
