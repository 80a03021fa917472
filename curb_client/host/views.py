"""Handing the items of one stream to many consumers, each at its own pace, in bounded memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from typing_extensions import Self

from curb_client.errors import EventStreamError
from curb_client.protocol.cursor import EventCursor

__all__ = ["ItemView", "Release", "Unprocessed"]

T_co = TypeVar("T_co", covariant=True)
Release = Callable[[], None]

VIEW_ITEMS: Final = 256
"""How many items wait in one view before the stream waits for its consumer."""
STALL_SECONDS: Final = 60.0
"""For so long; then the view is given up, as it would hold up all others."""


class Unprocessed:
    """What was handed out and is still being worked on: a stored cursor must be before it."""

    def __init__(self, on_release: Release) -> None:
        self._before: dict[object, int | None] = {}  # in the order of the stream
        self._on_release = on_release

    def hold(self, before: int | None) -> Release:
        """Note an item, and the cursor that is before it; the returned function says that it has been processed."""
        token = object()
        self._before[token] = before

        def release() -> None:
            if self._before.pop(token, self) is not self:
                self._on_release()

        return release

    def forget(self) -> None:
        """Note that no cursor leads back to them: the runner numbers anew."""
        self._before.clear()

    def state(self, cursor: EventCursor) -> dict[str, Any]:
        """What to store: the cursor before the oldest of them, with the calls that are open."""
        state = cursor.to_json()
        if not self._before:
            return state
        # Without what was seen behind it, as that must be handed out again.
        open_calls = [{"producer": call, "isCall": True} for call in cursor.open_calls]
        return {**state, "cursor": next(iter(self._before.values())), "producers": open_calls}


class ItemView(AsyncIterator[T_co], Generic[T_co]):
    """An async iterator over items from its making on. Drop it, close it or leave its ``async with`` block when done.

    An item counts as processed when the next one is asked for. A view that nobody reads fills up, holds up the stream
    for a minute and is then given up with an EventStreamError. After the stream's end it hands out what it has, then
    ends or raises what the stream ended with.
    """

    def __init__(self, on_close: Callable[[ItemView[Any]], None]) -> None:
        self._on_close = on_close
        self._items: deque[tuple[Any, Release]] = deque()
        self._wake = asyncio.Event()  # set whenever anything has changed
        self._end: Exception | None = None
        self._release: Release | None = None

    @property
    def is_open(self) -> bool:
        """Whether anything may still come."""
        return self._end is None

    async def put(self, item: object, release: Release) -> None:
        """Add an item, once there is room for it; a view that is closed or given up takes it for processed."""
        deadline = asyncio.get_running_loop().time() + STALL_SECONDS
        while self._end is None and len(self._items) >= VIEW_ITEMS:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                self.finish(
                    EventStreamError(
                        f"this view was given up: {VIEW_ITEMS} items waited in it and none was taken for "
                        f"{STALL_SECONDS:g} s, which holds up the stream. Take them faster, or close the view"
                    )
                )
                break
            await self._changed(left)
        if self._end is None:
            self._items.append((item, release))
            self._wake.set()
        else:
            release()

    def finish(self, error: Exception | None = None) -> None:
        """Nothing more will come."""
        if self._end is None:
            self._end = error or StopAsyncIteration()
            self._wake.set()
            self._on_close(self)

    async def __anext__(self) -> T_co:
        self._processed()
        while not self._items:
            if self._end is not None:
                raise self._end
            await self._changed(None)
        item, self._release = self._items.popleft()
        self._wake.set()
        return item  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Stop listening. The item that was handed out last, and those that wait, count as processed."""
        self.finish()
        self._processed()
        while self._items:
            self._items.popleft()[1]()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:  # of a consumer that left its loop
        self._processed()
        for _, release in self._items:
            release()

    def _processed(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    async def _changed(self, seconds: float | None) -> None:
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except asyncio.TimeoutError:
            return
