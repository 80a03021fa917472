"""Calling the user's functions, and warning them once."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from curb_client.room.callbacks import Warnings, call_safely


@pytest.fixture
async def problems() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context))
    return found


async def test_a_plain_function_is_called_at_once(problems: list[dict[str, Any]]) -> None:
    got: list[tuple[int, int]] = []
    assert call_safely(lambda a, b: got.append((a, b)), 1, 2) is None
    assert got == [(1, 2)]
    assert problems == []


async def test_an_async_function_runs_as_a_task_that_survives_the_collector() -> None:
    got: list[int] = []
    let_go = asyncio.Event()

    async def handler(value: int) -> None:
        await let_go.wait()
        got.append(value)

    assert call_safely(handler, 1) is not None
    await asyncio.sleep(0)
    gc.collect()
    let_go.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert got == [1]


async def test_what_a_function_raises_goes_to_the_loops_exception_handler(problems: list[dict[str, Any]]) -> None:
    async def broken_async() -> None:
        await asyncio.sleep(0)
        raise LookupError("async")

    def broken() -> None:
        raise LookupError("plain")

    assert call_safely(broken) is None
    task = call_safely(broken_async)
    assert task is not None
    await asyncio.wait({task})
    await asyncio.sleep(0)
    assert [str(problem["exception"]) for problem in problems] == ["plain", "async"]
    assert "broken raised LookupError: plain" in problems[0]["message"]


async def test_a_cancelled_handler_is_no_problem(problems: list[dict[str, Any]]) -> None:
    task = call_safely(lambda: asyncio.sleep(30))
    assert task is not None
    task.cancel()
    await asyncio.wait({task})
    await asyncio.sleep(0)
    assert problems == []


async def test_an_interrupt_is_not_caught() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_safely(interrupted)


def test_a_warning_is_logged_once_for_its_subject_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    warnings = Warnings()
    with caplog.at_level(logging.WARNING, "curb_client"):
        for _ in range(3):
            warnings.once("the message 'a'", "no handler", "dropped")
        warnings.once("the message 'a'", "malformed", "dropped")
        warnings.once("the message 'b'", "no handler", "dropped")
        Warnings().once("the message 'a'", "no handler", "dropped")
    assert caplog.messages == [
        "the message 'a': no handler; dropped",
        "the message 'a': malformed; dropped",
        "the message 'b': no handler; dropped",
        "the message 'a': no handler; dropped",
    ]


def test_warnings_end_before_they_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    warnings = Warnings()
    for number in range(1500):
        warnings.once(f"the message {number}", "no handler", "dropped")
    assert len(caplog.messages) == 1000
