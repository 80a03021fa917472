"""What the loop's thread hands to the caller's."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from curb_client.blocking.loop_thread import LOOK_AGAIN_SECONDS

__all__ = ["Mailbox"]

T = TypeVar("T")


class _End:
    def __init__(self, error: Exception) -> None:
        self.error = error


class Mailbox(Generic[T]):
    """A queue with an end, for any number of threads."""

    def __init__(self) -> None:
        self._items: SimpleQueue[T | _End] = SimpleQueue()

    def put(self, item: T) -> None:
        self._items.put(item)

    def end(self, error: Exception) -> None:
        """Nothing comes any more; who asks for more gets ``error``."""
        self._items.put(_End(error))

    def __len__(self) -> int:
        return self._items.qsize()

    def get(self, seconds: float | None) -> T:
        """The oldest item, waiting for one so many seconds; with None until the end.

        Raises:
            queue.Empty: none came. The end's error.
        """
        given_up = None if seconds is None else time.monotonic() + seconds
        while True:
            left = LOOK_AGAIN_SECONDS if given_up is None else max(given_up - time.monotonic(), 0.0)
            try:
                item = self._items.get(timeout=min(left, LOOK_AGAIN_SECONDS))
            except Empty:
                if given_up is None or left > LOOK_AGAIN_SECONDS:
                    continue
                raise
            if isinstance(item, _End):
                self._items.put(item)
                raise item.error
            return item
