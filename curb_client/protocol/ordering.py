"""Handing messages out in the order in which their streams started, without letting a stuck one block the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from curb_client.protocol.contract import OVERTAKE_SECONDS

__all__ = ["Delivery", "InOrder"]

T = TypeVar("T")


@dataclass(frozen=True)
class Delivery(Generic[T]):
    """A message to hand out now.

    Attributes:
        late: messages that started after it were handed out before it.
    """

    message: T
    late: bool = False


class InOrder(Generic[T]):
    """One sender's streams. Times are seconds of any steady clock, given by the caller.

    A stream gets a number when it starts, then completes or fails. A complete message waits for the streams before
    it, each for at most ``overtake`` seconds after the first later message was complete; a stream overtaken like that
    is delivered late if it completes after all.
    """

    def __init__(self, overtake: float = OVERTAKE_SECONDS) -> None:
        self._overtake = overtake
        self._started = 0
        self._waiting: dict[int, float | None] = {}  # open, not overtaken: since when a later message has been complete
        self._complete: dict[int, T] = {}
        self._overtaken: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Whether every stream that started has been handed out or has failed."""
        return not (self._waiting or self._complete or self._overtaken)

    def start(self) -> int:
        """The number of a stream that starts now."""
        number = self._started
        self._started += 1
        self._waiting[number] = None
        return number

    def complete(self, number: int, message: T, now: float) -> list[Delivery[T]]:
        """What can be handed out now that this stream is complete."""
        if number in self._overtaken:
            self._overtaken.discard(number)
            return [Delivery(message, late=True)]
        del self._waiting[number]
        self._complete[number] = message
        for earlier, since in self._waiting.items():
            if earlier < number and since is None:
                self._waiting[earlier] = now
        return self._ready()

    def fail(self, number: int) -> list[Delivery[T]]:
        """What can be handed out now that this stream will never complete."""
        self._overtaken.discard(number)
        self._waiting.pop(number, None)
        return self._ready()

    def overtake(self, now: float) -> list[Delivery[T]]:
        """What can be handed out because the streams before it have had their time; see :meth:`next_deadline`."""
        for number, since in list(self._waiting.items()):
            if since is not None and now >= since + self._overtake:
                del self._waiting[number]
                self._overtaken.add(number)
        return self._ready()

    def next_deadline(self) -> float | None:
        """When to call :meth:`overtake`, or None while nothing waits for an earlier stream."""
        return min((since + self._overtake for since in self._waiting.values() if since is not None), default=None)

    def _ready(self) -> list[Delivery[T]]:
        first_open = min(self._waiting, default=self._started)
        ready = sorted(number for number in self._complete if number < first_open)
        return [Delivery(self._complete.pop(number)) for number in ready]
