"""The parts of a scripted agent: its rules, what came, and its time in a room."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from livekit import rtc
from livekit.rtc.room import EventTypes

from curb_client.errors import MessageTimeoutError, UsageError
from curb_client.protocol.contract import RefusalCode
from curb_client.room.agent import AgentCall
from curb_client.room.handlers import RequestMeta
from curb_client.room.sdk import STANDARD_KIND, is_active
from curb_client.room.trace import TraceEvent
from curb_client.testing.script_file import Message, Rule, check_reachable

__all__ = ["ReceivedRequest", "RequestLog", "RuleTable", "Stay"]

_REFUSALS: Final = frozenset(code.value for code in RefusalCode)
_JOIN_EVENTS: Final[tuple[EventTypes, ...]] = ("participant_connected", "participant_active", "reconnected")


@dataclass
class _Turn:
    """A rule, and how often it may still be used; None is always."""

    rule: Rule
    left: int | None


class RuleTable:
    """The rules by key, tried in the order in which they were added."""

    def __init__(self) -> None:
        self._turns: dict[str, list[_Turn]] = {}

    @property
    def keys(self) -> list[str]:
        return list(self._turns)

    def add(self, key: str, rule: Rule) -> None:
        """Raises:
        UsageError: an earlier rule takes all that this one would.
        """
        turns = [*self._turns.get(key, []), _Turn(rule, rule.times)]
        try:
            check_reachable([turn.rule for turn in turns])
        except ValueError as error:
            raise UsageError(f"the rules of {key!r:.80}: {error}, or clear({key!r:.80}) first") from None
        self._turns[key] = turns

    def clear(self, key: str) -> None:
        self._turns.pop(key, None)

    def use(self, key: str, payload: object) -> Rule | None:
        """The rule that answers, counted as used. Raises whatever a function given as ``when`` raises."""
        for turn in self._turns.get(key, ()):
            if turn.left != 0 and turn.rule.takes(payload):
                turn.left = None if turn.left is None else turn.left - 1
                return turn.rule
        return None

    def why_not(self, key: str) -> str:
        """Why no rule answered."""
        turns = self._turns.get(key, [])
        if not turns:
            return "no rule has this key"
        used_up = sum(turn.left == 0 for turn in turns)
        return f"none of its {len(turns)} rule(s) took it" + (f", {used_up} used up" if used_up else "")


@dataclass(frozen=True)
class ReceivedRequest:
    """A message of the app under test.

    Attributes:
        payload: as it came; any JSON value.
        id: unique per sender and call; a repeat of a request that was answered is not received again.
        sender_identity: the app's participant.
    """

    key: str
    payload: Any
    id: str
    sender_identity: str


class RequestLog:
    """What came, from the steps that the agent's side reports.

    Args:
        why: says of a key that was refused why no rule answers.
    """

    def __init__(self, why: Callable[[str], str]) -> None:
        self.received: list[ReceivedRequest] = []
        self.unexpected: list[tuple[ReceivedRequest, str]] = []
        self._why = why
        self._known: dict[tuple[str | None, str], ReceivedRequest] = {}
        self._taken: set[tuple[str | None, str]] = set()
        self._not_waited_for: dict[str, deque[ReceivedRequest]] = {}
        self._waiting: set[asyncio.Future[None]] = set()

    def new_call(self) -> None:
        """An id is unique in one call only."""
        self._known.clear()
        self._taken.clear()

    def taken(self, meta: RequestMeta) -> None:
        """A rule answers it, be it with ``no_handler``."""
        self._taken.add((meta.sender_identity, meta.id))

    def record(self, event: TraceEvent) -> None:
        request = (event.peer, event.id)
        if not event.id:  # a change of settings, or nothing that could be read
            return
        if event.step == "request" and request not in self._known:
            self._arrived(request, ReceivedRequest(event.key, event.payload, event.id, event.peer))
        elif event.step == "reply" and event.error in _REFUSALS:
            self._refused(request, event.error)

    def _arrived(self, request: tuple[str, str], received: ReceivedRequest) -> None:
        self._known[request] = received
        self.received.append(received)
        self._not_waited_for.setdefault(received.key, deque()).append(received)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def _refused(self, request: tuple[str, str], code: str | None) -> None:
        """The id of a refused request may come again, as another one."""
        received = self._known.pop(request, None)
        was_taken = request in self._taken
        self._taken.discard(request)
        if received is not None and code == RefusalCode.NO_HANDLER.value and not was_taken:
            self.unexpected.append((received, self._why(received.key)))

    async def next_of(self, key: str, seconds: float) -> Any:
        loop = asyncio.get_running_loop()
        given_up = loop.time() + seconds
        while not self._not_waited_for.get(key):
            left = given_up - loop.time()
            if left <= 0:
                counts = Counter(request.key for request in self.received)
                came = ", ".join(f"{other!r} ({count})" for other, count in counts.items()) or "nothing"
                raise MessageTimeoutError(f"the app sent no message {key!r} within {seconds:g} s; it sent {came}")
            waiting: asyncio.Future[None] = loop.create_future()
            self._waiting.add(waiting)
            try:
                await asyncio.wait({waiting}, timeout=left)
            finally:
                self._waiting.discard(waiting)
        return self._not_waited_for[key].popleft().payload


class Stay:
    """The agent's time in one room: its handlers, whom it has greeted, and what it will send."""

    def __init__(
        self,
        call: AgentCall,
        client_identity: str | None,
        answer: Callable[[str, Any, RequestMeta], Any],
        greetings: Callable[[], Sequence[Message]],
    ) -> None:
        self.call = call
        self._client_identity = client_identity
        self._answer = answer
        self._greetings = greetings
        self._removals: dict[str, Callable[..., Any]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._greeted: set[str] = set()
        self._ended = False

    def handle(self, key: str) -> None:
        if key not in self._removals:
            self._removals[key] = self.call.on_message(key, partial(self._answer, key))

    def stop_handling(self, key: str) -> None:
        if key in self._removals:
            self._removals.pop(key)()

    def begin(self) -> None:
        for event in _JOIN_EVENTS:
            self.call.room.on(event, self._greet)
        self._greet()

    def end(self) -> None:
        self._ended = True
        for event in _JOIN_EVENTS:
            self.call.room.off(event, self._greet)
        for timer in self._timers:
            timer.cancel()

    def send(self, message: Message, to: str | None = None) -> None:
        """Send to all clients, or to one, in its time; not when the call ends before."""

        def now() -> None:
            self._timers.discard(timer)
            self.call.send.to_client(message.key, message.payload, to=to)

        if not message.after:
            self.call.send.to_client(message.key, message.payload, to=to)
        elif not self._ended:
            timer = asyncio.get_running_loop().call_later(message.after, now)
            self._timers.add(timer)

    def _greet(self, *_: object) -> None:
        """A client gets what is sent to it only once it is active."""
        for client in self.call.room.remote_participants.values():
            if client.sid not in self._greeted and is_active(client) and self._is_client(client):
                self._greeted.add(client.sid)
                for message in self._greetings():
                    self.send(message, client.identity)

    def _is_client(self, participant: rtc.RemoteParticipant) -> bool:
        if self._client_identity is not None:
            return participant.identity == self._client_identity
        return participant.kind == STANDARD_KIND
