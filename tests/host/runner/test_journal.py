"""The window of records, without a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from curb_client.errors import InvalidPayloadError
from curb_client.host.runner.journal import Journal, Producer, RecordsGoneError
from curb_client.protocol.records import TurnBody


def turn(text: str) -> Any:
    return lambda seq, at: TurnBody(type="turn", seq=seq, at=at, role="user", text=text)


def envelopes(lines: list[bytes]) -> list[int]:
    return [json.loads(line)["envelope"] for line in lines]


async def test_envelopes_have_no_gap_and_each_producer_counts_for_itself() -> None:
    journal = Journal()
    one, other = Producer(journal, "one"), Producer(journal, "other")
    assert (journal.oldest, journal.newest) == (1, 0)
    for producer in (one, other, one, one, other):
        producer.append("conversation", turn("x"))
    records = [json.loads(line) for line in journal.lines_after(0, 10**6)]
    assert [(record["envelope"], record["producer"], record["seq"]) for record in records] == [
        (1, "one", 1),
        (2, "other", 1),
        (3, "one", 2),
        (4, "one", 3),
        (5, "other", 2),
    ]


async def test_the_window_is_bounded_by_records_and_by_bytes() -> None:
    journal = Journal(retained=3)
    producer = Producer(journal, "call")
    for _ in range(10):
        producer.append("conversation", turn("x"))
    assert (journal.oldest, journal.newest) == (8, 10)
    assert envelopes(journal.lines_after(7, 10**6)) == [8, 9, 10]
    assert envelopes(journal.lines_after(7, 1)) == [8], "a batch has at least one"
    with pytest.raises(RecordsGoneError):
        journal.lines_after(6, 10**6)

    journal = Journal(retained_bytes=1000)
    producer = Producer(journal, "call")
    for _ in range(10):
        producer.append("conversation", turn("x" * 300))
    assert journal.newest - journal.oldest + 1 == 2
    producer.append("conversation", turn("x" * 5000))
    assert (journal.oldest, journal.newest) == (11, 11), "the newest is held whatever its size"


async def test_what_cannot_be_written_takes_no_number() -> None:
    journal = Journal()
    producer = Producer(journal, "call")
    with pytest.raises(InvalidPayloadError):
        producer.append("conversation", turn("\ud800"))
    assert producer.append("conversation", turn("x")) == 1
    assert json.loads(journal.lines_after(0, 1)[0])["seq"] == 1


async def test_waiting_ends_with_a_record_or_with_the_last_one_or_in_time() -> None:
    journal = Journal()
    producer = Producer(journal, "call")
    waiting = [asyncio.ensure_future(journal.more_after(0, 30)) for _ in range(3)]
    await asyncio.sleep(0)
    producer.append("conversation", turn("x"))
    assert await asyncio.gather(*waiting) == [True, True, True]
    assert await journal.more_after(0, 30) is True
    assert await journal.more_after(1, 0.01) is False
    last = asyncio.ensure_future(journal.more_after(1, 30))
    await asyncio.sleep(0)
    journal.close()
    assert await last is True
    assert producer.append("conversation", turn("too late")) == 1
    assert journal.lines_after(1, 1) == []
