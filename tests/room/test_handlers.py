"""The agent's handlers and its memory of answers, without a room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from curb_client.errors import AuthoringError
from curb_client.protocol.contract import REMEMBERED_REQUESTS
from curb_client.protocol.envelope import Refusal
from curb_client.room.handlers import AnsweredRequests, HandlerTable, RequestMeta

CLIENT = RequestMeta("m-1", "client", "caller")
HOST = RequestMeta("h-1", "host", None)


async def refusal_of(table: HandlerTable, payload: object, meta: RequestMeta = CLIENT) -> Refusal:
    with pytest.raises(Refusal) as refused:
        await table.handle("job", payload, meta)
    return refused.value


# Handlers


async def test_handlers_run_in_the_order_they_were_added_and_the_last_ones_reply_counts() -> None:
    table = HandlerTable()
    ran: list[str] = []

    async def slow(payload: Any, meta: RequestMeta) -> str:
        await asyncio.sleep(0.01)
        ran.append("slow")
        return "slow"

    def quick(payload: Any, meta: RequestMeta) -> str:
        ran.append("quick")
        return "quick"

    remove_slow = table.add("job", "client", None, slow)
    table.add("job", "client", None, quick)
    table.add("job", "client", None, quick)
    assert await table.handle("job", 1, CLIENT) == "quick"
    assert ran == ["slow", "quick", "quick"]
    remove_slow()
    assert await table.handle("job", 1, CLIENT) == "quick"
    assert ran[3:] == ["quick", "quick"]


async def test_the_same_function_added_twice_is_removed_once() -> None:
    table = HandlerTable()
    ran: list[int] = []
    remove, _ = (table.add("job", "client", None, lambda payload, meta: ran.append(1)) for _ in range(2))
    remove()
    remove()
    await table.handle("job", 1, CLIENT)
    assert ran == [1]


async def test_keys_without_handlers_are_forgotten() -> None:
    table = HandlerTable()
    removals = [table.add(key, "client", None, lambda payload, meta: 1) for key in ("a", "a", "b")]
    removals[0]()
    assert await table.handle("a", 1, CLIENT) == 1
    for remove in removals:
        remove()
    assert table._handlers == {}


async def test_a_handler_removed_while_others_run_is_not_missed_by_them() -> None:
    table = HandlerTable()
    ran: list[str] = []

    def first(payload: Any, meta: RequestMeta) -> None:
        ran.append("first")
        remove_second()
        table.add("job", "client", None, lambda payload, meta: ran.append("third"))

    table.add("job", "client", None, first)
    remove_second = table.add("job", "client", None, lambda payload, meta: ran.append("second"))
    await table.handle("job", 1, CLIENT)
    assert ran == ["first", "second"], "what listened when the message came"


async def test_each_sender_has_its_own_handlers() -> None:
    table = HandlerTable()
    table.add("job", "host", None, lambda payload, meta: "host")
    assert (await refusal_of(table, 1)).code.value == "no_handler"
    table.add("job", "client", None, lambda payload, meta: "client")
    assert await table.handle("job", 1, CLIENT) == "client"
    assert await table.handle("job", 1, HOST) == "host"


async def test_one_schema_that_does_not_fit_keeps_all_handlers_from_running() -> None:
    table = HandlerTable()
    ran: list[object] = []
    table.add("job", "client", None, lambda payload, meta: ran.append(payload))
    table.add("job", "client", list[int], lambda payload, meta: ran.append(payload))
    refused = await refusal_of(table, [1, "two"])
    assert refused.code.value == "invalid_payload"
    assert [issue.path for issue in refused.issues] == [[1]]
    assert ran == []


async def test_all_handlers_run_though_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    table = HandlerTable()
    ran: list[str] = []

    def broken(payload: Any, meta: RequestMeta) -> None:
        raise LookupError("no such plan")

    async def cancelled_from_within(payload: Any, meta: RequestMeta) -> None:
        raise asyncio.CancelledError

    table.add("job", "client", None, broken)
    table.add("job", "client", None, cancelled_from_within)
    table.add("job", "client", None, lambda payload, meta: ran.append("last"))
    assert (await refusal_of(table, 1)).code.value == "handler_failed"
    assert ran == ["last"]
    assert "no such plan" in caplog.text


async def test_what_is_registered_wrongly() -> None:
    table = HandlerTable()
    with pytest.raises(AuthoringError, match="key has 257 UTF-16 units"):
        table.add("k" * 257, "client", None, print)
    with pytest.raises(AuthoringError, match="sender is 'bot'"):
        table.add("job", "bot", None, print)  # type: ignore[arg-type]
    with pytest.raises(AuthoringError, match="is no function but int"):
        table.add("job", "client", None, 3)  # type: ignore[arg-type]
    assert (await refusal_of(table, 1)).code.value == "no_handler"


# Answers


async def answered(value: str) -> str:
    return value


async def test_an_answer_is_found_by_sender_and_id() -> None:
    answers: AnsweredRequests[str] = AnsweredRequests()
    assert answers.find(("ann", "m-1")) is None
    await answers.run(("ann", "m-1"), lambda: answered("first"))
    found = answers.find(("ann", "m-1"))
    assert found is not None
    assert await found == "first"
    assert answers.find(("bob", "m-1")) is None
    assert answers.find((None, "m-1")) is None


async def test_a_failed_request_is_forgotten() -> None:
    answers: AnsweredRequests[str] = AnsweredRequests()

    async def fail() -> str:
        raise LookupError("no")

    with pytest.raises(LookupError):
        await answers.run(("ann", "m-1"), fail)
    await asyncio.sleep(0)
    assert answers.find(("ann", "m-1")) is None


async def test_the_oldest_answers_are_forgotten_first() -> None:
    answers: AnsweredRequests[str] = AnsweredRequests()
    for number in range(REMEMBERED_REQUESTS + 2):
        await answers.run(("ann", str(number)), lambda number=number: answered(str(number)))  # type: ignore[misc]
    await asyncio.sleep(0)
    known = [number for number in range(REMEMBERED_REQUESTS + 2) if answers.find(("ann", str(number))) is not None]
    assert known == list(range(2, REMEMBERED_REQUESTS + 2))


async def test_what_still_runs_is_never_forgotten() -> None:
    answers: AnsweredRequests[str] = AnsweredRequests(most=3)
    let_go = asyncio.Event()

    async def slow() -> str:
        await let_go.wait()
        return "slow"

    running = answers.run(("ann", "slow"), slow)
    for number in range(10):
        await answers.run(("ann", str(number)), lambda: answered("quick"))
    await asyncio.sleep(0)
    assert answers.find(("ann", "slow")) is running
    let_go.set()
    assert await running == "slow"
    await asyncio.sleep(0)
    left = [name for name in ("slow", *map(str, range(10))) if answers.find(("ann", name)) is not None]
    assert left == ["7", "8", "9"]


async def test_the_end_cancels_what_still_runs_and_keeps_the_answers() -> None:
    answers: AnsweredRequests[str] = AnsweredRequests()
    await answers.run(("ann", "m-1"), lambda: answered("first"))
    running = answers.run(("ann", "m-2"), lambda: asyncio.sleep(30, "never"))
    answers.cancel_all()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(0)
    assert answers.find(("ann", "m-1")) is not None
    assert answers.find(("ann", "m-2")) is None
