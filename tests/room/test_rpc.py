"""Many calls at once through LiveKit's public interface, on a room that is made up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from livekit import rtc

from curb_client.room.rpc import start_rpc

Method = Callable[[str], Awaitable[str]]


class Calls:
    """A room whose calls are answered by ``method``, and how many of them ran at once."""

    def __init__(self, method: Method) -> None:
        self.in_flight = 0
        self.most = 0
        self.arguments: list[dict[str, Any]] = []
        self._method = method
        self.room = cast(rtc.Room, SimpleNamespace(local_participant=SimpleNamespace(perform_rpc=self._perform_rpc)))

    async def _perform_rpc(self, **arguments: Any) -> str:
        self.arguments.append(arguments)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            return await self._method(arguments["payload"])
        finally:
            self.in_flight -= 1

    def start(self, payload: str, timeout: float = 30) -> asyncio.Future[str]:
        return start_rpc(self.room, "agent", "curb.message", payload, timeout)


@pytest.fixture(autouse=True)
def public_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curb_client.room.rpc._can_share", False)


async def at_once(payload: str) -> str:
    await asyncio.sleep(0)
    return payload.upper()


async def hanging(payload: str) -> str:
    if payload == "slow":
        await asyncio.sleep(60)
    return payload


async def test_a_call_gets_seven_seconds_more_from_the_sdk_than_it_has() -> None:
    calls = Calls(at_once)
    assert await calls.start("text", 5) == "TEXT"
    assert calls.arguments == [
        {"destination_identity": "agent", "method": "curb.message", "payload": "text", "response_timeout": 12.0}
    ]


async def test_the_error_of_a_call_is_unchanged() -> None:
    error = rtc.RpcError(4220, "no_handler", "{}")

    async def refuse(payload: str) -> str:
        raise error

    with pytest.raises(rtc.RpcError) as raised:
        await Calls(refuse).start("text")
    assert raised.value is error


async def test_a_call_that_takes_too_long_ends_as_livekits_own_time_out_and_is_cancelled() -> None:
    calls = Calls(hanging)
    with pytest.raises(rtc.RpcError) as raised:
        await calls.start("slow", 0.05)
    assert raised.value.code == rtc.RpcError.ErrorCode.RESPONSE_TIMEOUT
    await asyncio.sleep(0.01)
    assert calls.in_flight == 0


async def test_cancelling_a_call_ends_it() -> None:
    calls = Calls(hanging)
    answer = calls.start("slow")
    await asyncio.sleep(0.01)
    assert calls.in_flight == 1
    answer.cancel()
    await asyncio.sleep(0.01)
    assert calls.in_flight == 0


async def test_a_thousand_quick_calls_run_sixty_four_at_a_time() -> None:
    calls = Calls(at_once)
    answers = await asyncio.gather(*(calls.start(f"n{number}") for number in range(1000)))
    assert answers == [f"N{number}" for number in range(1000)]
    assert calls.most == 64


async def test_a_quick_call_gets_through_behind_two_hundred_slow_ones() -> None:
    calls = Calls(hanging)
    slow = [calls.start("slow") for _ in range(200)]
    assert await asyncio.wait_for(calls.start("quick"), 5) == "quick"
    assert not any(answer.done() for answer in slow)
    assert calls.in_flight == 200
    for answer in slow:
        answer.cancel()
    await asyncio.sleep(0.01)
    assert calls.in_flight == 0

    # A slot that was given back early is not given back again at the end of its call.
    calls.most = 0
    for answer in [calls.start(f"n{number}") for number in range(500)]:
        await answer
    assert calls.most <= 64


async def test_calls_that_are_cancelled_while_they_wait_for_a_slot_take_none() -> None:
    calls = Calls(hanging)
    slow = [calls.start("slow") for _ in range(64)]
    waiting = [calls.start("slow") for _ in range(10)]
    await asyncio.sleep(0)
    assert calls.in_flight == 64
    for answer in [*waiting, *slow]:
        answer.cancel()
    await asyncio.sleep(0.01)
    assert calls.in_flight == 0
    calls.most = 0
    await asyncio.gather(*(calls.start("quick") for _ in range(200)))
    assert calls.most <= 64
