"""A host that writes down everything it is handed, to be killed at any moment: ``python -m tests.host.chaos_host``.

Its arguments are the runner's address, the file of the cursor and the file to write to, one JSON object a line. The
token is in ``CURB_MANAGEMENT_TOKEN``. It goes on until the runner has ended, or nothing was heard of it for so long.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from curb_client.errors import EventStreamError
from curb_client.host import (
    Backoff,
    CallCut,
    FileCursorStore,
    Gap,
    JournalRecord,
    LostRecords,
    Restarted,
    RunnerClient,
    StreamItem,
)

GIVE_UP_SECONDS = 60.0


def told(item: StreamItem) -> dict[str, Any]:
    """An item as a line of the file."""
    match item:
        case JournalRecord():
            line = {"envelope": item.envelope, "producer": item.producer, "seq": item.seq, "at": item.at}
            return {**line, "ends": item.ends_call, "body": item.model_dump(by_alias=True, mode="json")["body"]}
        case Gap():
            return {"gap": [item.first, item.last]}
        case LostRecords():
            return {"lost": [item.producer, item.first, item.last]}
        case Restarted():
            return {"restarted": item.cursor}
        case CallCut():
            return {"cut": item.session_id, "cause": item.cause}


async def main(address: str, cursor: str, file: str) -> None:
    options: dict[str, Any] = {
        "give_up_after": float(os.environ.get("GIVE_UP_SECONDS", GIVE_UP_SECONDS)),
        "backoff": Backoff(first=0.05, most=0.2),
        "save_every": 0.1,
    }
    # A line is in the file before the next item is asked for.
    with open(file, "a", encoding="utf-8", buffering=1) as out:  # noqa: ASYNC230

        def write(line: dict[str, Any]) -> None:
            out.write(json.dumps(line) + "\n")

        write({"host": os.getpid()})
        async with RunnerClient(address, os.environ["CURB_MANAGEMENT_TOKEN"]) as runner:
            try:
                async for item in runner.events(FileCursorStore(cursor), **options):
                    write(told(item))
            except EventStreamError as error:
                write({"over": "EventStreamError", "cut": list(error.cut)})
            else:
                write({"over": "ended"})


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
