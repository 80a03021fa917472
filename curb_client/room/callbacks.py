"""Calling the user's functions so that their failures reach somebody and disturb nobody else."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

__all__ = ["Warnings", "add_removable", "add_under", "call_safely", "logger"]

T = TypeVar("T")

logger = logging.getLogger("curb_client")

_running: set[asyncio.Future[Any]] = set()  # the loop itself holds tasks weakly


def add_removable(items: dict[object, T], item: T) -> Callable[[], None]:
    """Put ``item`` last; the returned function removes it, and may be called more than once."""
    token = object()
    items[token] = item

    def remove() -> None:
        items.pop(token, None)

    return remove


def add_under(items: dict[str, dict[object, T]], key: str, item: T) -> Callable[[], None]:
    """As :func:`add_removable`, in the items of a key; of a key without any, nothing is left."""
    group = items.setdefault(key, {})
    take_out = add_removable(group, item)

    def remove() -> None:
        take_out()
        if not group and items.get(key) is group:
            del items[key]

    return remove


def call_safely(function: Callable[..., Awaitable[Any] | Any], *args: Any) -> asyncio.Future[Any] | None:
    """Call a plain or async function. What it raises goes to the loop's exception handler, which logs it by default.

    Returns:
        the running task of an async function, None otherwise.
    """
    try:
        result = function(*args)
    except Exception as error:
        _report(function, error)
        return None
    if not inspect.isawaitable(result):
        return None
    task = asyncio.ensure_future(result)
    _running.add(task)

    def finished(done: asyncio.Future[Any]) -> None:
        _running.discard(done)
        if not done.cancelled() and done.exception() is not None:
            _report(function, done.exception())

    task.add_done_callback(finished)
    return task


def _report(function: Callable[..., Any], error: BaseException | None) -> None:
    name = getattr(function, "__qualname__", repr(function))
    asyncio.get_running_loop().call_exception_handler(
        {"message": f"curb_client: {name} raised {type(error).__name__}: {error}", "exception": error}
    )


class Warnings:
    """Warnings that are logged once for each subject and reason, by the logger ``curb_client``."""

    _MOST = 1000

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def once(self, subject: str, reason: str, advice: str) -> None:
        """Log unless this subject and reason were told before, or a thousand others."""
        if (subject, reason) not in self._told and len(self._told) < self._MOST:
            self._told.add((subject, reason))
            logger.warning("%s: %s; %s", subject, reason, advice)
