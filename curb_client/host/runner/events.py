"""The route of the event stream: one reader of the journal (host protocol, Event stream)."""

from __future__ import annotations

import time
from typing import Final

from aiohttp import web

from curb_client.host.runner.counters import Counters
from curb_client.host.runner.journal import Journal, RecordsGoneError
from curb_client.host.runner.options import RunnerOptions
from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.protocol.contract import ErrorCode
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.records import PingLine
from curb_client.protocol.types import Issue
from curb_client.room.sdk import finish_within

__all__ = ["first_cursor", "stream_events"]

BATCH_BYTES: Final = 64 * 1024


def first_cursor(journal: Journal, wanted: int | None) -> int:
    """The envelope after which a reader begins: as asked for, or the newest.

    Raises:
        RunnerRefusal: ``cursor_too_old``; or a cursor from the future, which is another runner's.
    """
    if wanted is None:
        return journal.newest
    if wanted > journal.newest:
        issue = Issue(path=["from"], message=f"{wanted} is beyond the newest envelope, {journal.newest}")
        raise RunnerRefusal.invalid([issue])
    if wanted == 0:
        return journal.oldest - 1
    if wanted + 1 < journal.oldest:
        raise RunnerRefusal(
            ErrorCode.CURSOR_TOO_OLD,
            f"the oldest record held has the envelope {journal.oldest}",
            requested=wanted,
            oldest_retained=journal.oldest,
        )
    return wanted


async def stream_events(
    request: web.BaseRequest, journal: Journal, cursor: int, options: RunnerOptions, counters: Counters
) -> web.StreamResponse:
    """Write records as they come, pings while none do, and end after the runner's last record.

    Any other end is a broken connection, so that a reader can tell: one that takes nothing for a minute, or that the
    window has moved past, is cut off, and resumes by its cursor.
    """
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
    counters.readers += 1
    try:
        await response.prepare(request)
        while (data := await _next(journal, cursor, options.heartbeat_seconds)) is not None:
            text, cursor = data
            await finish_within(response.write(text), options.stalled_seconds)
        await finish_within(response.write_eof(), options.stalled_seconds)
    except (RecordsGoneError, TimeoutError):
        counters.readers_cut += 1
        _cut(request)
    finally:
        counters.readers -= 1
    return response


async def _next(journal: Journal, cursor: int, heartbeat: float) -> tuple[bytes, int] | None:
    """What to write, with the cursor after it; None at the end."""
    lines = journal.lines_after(cursor, BATCH_BYTES)
    if not lines:
        if journal.closed:
            return None
        if not await journal.more_after(cursor, heartbeat):
            return encode_json(PingLine(ping=int(time.time() * 1000))).encode() + b"\n", cursor
    return b"".join(lines), cursor + len(lines)


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
