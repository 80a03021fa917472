"""A host that dials for agents that transfer a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from curb_client.host import Ask, Transfer, TransferFailedError
from curb_client.host.asks import AskDesk
from curb_client.host.transfers import add_transfer_handlers
from tests.host.scripted_runner import asked, ready, until
from tests.host.test_follower import following


async def answers_to(
    dial: Callable[[Transfer], Any], *records: Any, count: int = 1, **options: Any
) -> list[dict[str, Any]]:
    async with following() as (feed, host):
        host.on_transfer(dial, **options)
        feed.say(ready(), *records)
        await until(lambda: len(feed.messages) == count)
    return [message["payload"] for message in feed.messages]


START = asked(2, "a-1", "curb.transfer.start", {"target": "sales", "summary": "wants to buy"})


async def test_a_transfer_is_dialled() -> None:
    seen: list[Transfer] = []

    async def dial(transfer: Transfer) -> str:
        seen.append(transfer)
        return "sip-sales"

    assert await answers_to(dial, START) == [{"outcome": "connected", "identity": "sip-sales"}]
    assert seen == [Transfer("call-1", "sales", "wants to buy")]


async def test_a_transfer_that_fails_says_why() -> None:
    async def busy(transfer: Transfer) -> str:
        raise TransferFailedError("busy")

    assert await answers_to(busy, START) == [{"outcome": "failed", "code": "busy"}]
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))

    async def broken(transfer: Transfer) -> str:
        raise OSError("no line")

    assert await answers_to(broken, START) == [{"outcome": "failed", "code": "transfer_failed"}]
    assert told == ["curb_client: dialling 'sales' for call call-1 failed: OSError: no line"]
    wrong = asked(2, "a-1", "curb.transfer.start", {"target": ""})
    assert await answers_to(busy, wrong) == [{"outcome": "failed", "code": "invalid_transfer"}]


async def test_what_was_dialled_is_forgotten_with_its_call_and_with_the_next_transfer() -> None:
    hung_up: list[str] = []
    desk = AskDesk()

    async def dial(transfer: Transfer) -> str:
        if transfer.target == "busy":
            raise TransferFailedError("busy")
        return "sip-sales"

    remove = add_transfer_handlers(desk, dial, lambda transfer: hung_up.append(transfer.target), None, None, None)
    (start, _), (cancel, _) = desk._handlers.values()

    async def told(handler: Any, payload: Any) -> None:
        await handler(Ask("call-1", "a", "transfer", payload, 0))

    await told(start, {"target": "sales"})
    desk.call_over("call-1")
    await told(cancel, {})
    await told(start, {"target": "sales"})
    await told(start, {"target": "busy"})
    await told(cancel, {})
    assert hung_up == []
    await told(start, {"target": "support"})
    await told(cancel, {})
    assert hung_up == ["support"]
    remove()
    assert not desk._over_listeners


async def test_a_transfer_that_is_called_off() -> None:
    hung_up: list[Transfer] = []

    async def ring(transfer: Transfer) -> str:
        await asyncio.Event().wait()
        return ""

    off = asked(3, "a-2", "curb.transfer.cancel", {})
    answers = await answers_to(ring, START, off, count=2, hang_up=hung_up.append)
    assert sorted(answers, key=len) == [{}, {"outcome": "failed", "code": "transfer_cancelled"}]
    assert hung_up == []

    async with following() as (feed, host):

        async def dial(transfer: Transfer) -> str:
            return "sip-sales"

        host.on_transfer(dial, hang_up=hung_up.append)
        feed.say(ready(), START)
        await until(lambda: len(feed.messages) == 1)
        feed.say(off)
        await until(lambda: len(feed.messages) == 2)
    assert [transfer.target for transfer in hung_up] == ["sales"]
