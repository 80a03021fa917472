"""Many runners as one: placing calls on them, and following them all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, TypeAlias

from typing_extensions import Self

from curb_client.errors import EventStreamError, RunnerError, RunnerUnreachableError, UsageError
from curb_client.host.backoff import Backoff
from curb_client.host.client import RunnerClient, start_request
from curb_client.host.cursors import CursorStore, MemoryCursorStore
from curb_client.host.failures import report
from curb_client.host.follower import GAP_SECONDS, HostSide, StreamPump, state_of
from curb_client.host.pool_members import Member, MemberState, RunnerLost
from curb_client.host.pool_placing import Elsewhere, PlacedCall, least_loaded, none_took, start_at
from curb_client.host.stream_items import CallCut, StreamItem, ends
from curb_client.host.views import ItemView
from curb_client.protocol.contract import RUNNER_PRODUCER
from curb_client.protocol.host_requests import StartCallRequest
from curb_client.protocol.host_types import RunnerStatus, StartCallAnswer
from curb_client.protocol.records import JournalRecord, LifecycleDraining, LifecycleReady
from curb_client.room.arguments import check_timeout

__all__ = ["PoolItem", "RunnerPool"]

DEAD_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 5.0

PoolItem: TypeAlias = tuple[str, StreamItem | RunnerLost]
"""The runner's name and what came of its stream."""


class RunnerPool(HostSide):
    """Many runners, each with its client, used in an ``async with`` block.

    ::

        async with RunnerPool({"a": RunnerClient(...), "b": RunnerClient(...)}) as pool:
            pool.on_ask("human.requested", decide)
            record = pool.call_events("call-42")
            placed = await pool.start_call(session_id="call-42", ...)
            await placed.client.send("call-42", "ops.notice", {...})

    A runner is taken for dead when its process is said to have ended, or nothing was heard of it for ``dead_after``
    seconds: a :class:`RunnerLost` names its calls, and each one's view gets a :class:`CallCut`. It is looked after
    further, and used again when it is back. The pool keeps nothing: which runner holds a call is what the runners say.

    Args:
        runners: by name; the pool closes their clients. More come with :meth:`add`.
        cursors: makes the store of a runner's cursor, given its name; by default in memory.
        dead_after: seconds.
        look_every: seconds between two looks at each runner's status.
        backoff: the waits while a start has no definite answer, and before a dead runner is tried again.
        rng: decides between runners that are equally loaded.
    """

    def __init__(
        self,
        runners: Mapping[str, RunnerClient] | None = None,
        *,
        cursors: Callable[[str], CursorStore] | None = None,
        dead_after: float = DEAD_SECONDS,
        look_every: float = LOOK_SECONDS,
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__()
        self._cursors = cursors
        self._dead_after = check_timeout(dead_after, default=DEAD_SECONDS)
        self._look_every = check_timeout(look_every, default=LOOK_SECONDS)
        self._backoff = backoff or Backoff(first=0.2, most=5.0)
        self._rng = rng or random.Random()
        self._members: dict[str, Member] = {}
        self._homes: dict[str, Member] = {}
        self._placing: dict[str, set[str]] = {}  # with the names of runners that told its end meanwhile
        self._changed = asyncio.Event()
        self._is_open = False
        for name, client in (runners or {}).items():
            self.add(name, client)

    # Runners

    def add(self, name: str, client: RunnerClient, *, is_alive: Callable[[], bool] | None = None) -> None:
        """Use one more runner.

        Args:
            is_alive: says False once its process has ended, to know it sooner than by silence:
                ``lambda: process.is_running``.

        Raises:
            UsageError: the name is taken.
        """
        if name in self._members:
            raise UsageError(f"the pool has a runner {name!r}; give each one a name of its own")
        store = MemoryCursorStore() if self._cursors is None else self._cursors(name)
        member = self._members[name] = Member(name, client, store, is_alive)
        if self._is_open:
            self._watch(member)

    async def remove(self, name: str) -> None:
        """Stop using and following a runner, and close its client; its calls go on there, and their views end."""
        member = self._members.pop(name, None)
        if member is None:
            raise UsageError(f"the pool has no runner {name!r}; it has {', '.join(self._members) or 'none'}")
        await self._leave(member)

    @property
    def runners(self) -> dict[str, MemberState]:
        """What each runner is, by name."""
        return {name: member.state for name, member in self._members.items()}

    @property
    def calls(self) -> dict[str, str]:
        """The calls that run, as far as it is known, with their runners' names."""
        return {session_id: member.name for session_id, member in self._homes.items()}

    def runner_of(self, session_id: str) -> RunnerClient:
        """The runner of a call, to talk to it.

        Raises:
            UsageError: no runner of this pool is known to hold it.
        """
        member = self._homes.get(session_id)
        if member is None:
            raise UsageError(
                f"no runner of this pool is known to hold the call {session_id!r}: it has ended, or never began"
            )
        return member.client

    def items(self) -> ItemView[PoolItem]:
        """Everything from now on, as pairs of a runner's name and what came."""
        view: ItemView[PoolItem] = ItemView(self._all.discard)
        self._all.add(view)
        return view

    # Placing

    async def start_call(self, *, wait: float = 0.0, **request: Any) -> PlacedCall:
        """:meth:`place` with the arguments of :meth:`RunnerClient.start_call`."""
        return await self.place(start_request(**request), wait=wait)

    async def place(self, request: StartCallRequest, *, wait: float = 0.0) -> PlacedCall:
        """Place a call on the least loaded runner that takes it.

        Args:
            wait: seconds to wait for a runner that takes it, when none does.

        Raises:
            UsageError: it is being placed at this moment.
            NoRunnerError: none took it; ``reasons`` has each one's.
            RunnerUnreachableError: one may have taken it and gives no definite answer, though it is not dead. Place it
                again: it goes to the same runner.
            RunnerRefusedError: it is refused for a reason that every runner would have.
        """
        session_id = request.session_id
        if session_id in self._placing:
            raise UsageError(f"the call {session_id!r} is being placed already; await that")
        clock = asyncio.get_running_loop().time
        deadline = clock() + check_timeout(wait, default=0.0)
        self._placing[session_id] = set()
        try:
            while True:
                self._changed.clear()
                reasons: dict[str, str] = {}
                placed = await self._place_once(request, reasons, is_last=clock() >= deadline)
                if placed is not None:
                    return placed
                if clock() >= deadline:
                    raise none_took(session_id, reasons)
                await self._until_changed(min(deadline - clock(), self._look_every))
        finally:
            del self._placing[session_id]

    async def _place_once(
        self, request: StartCallRequest, reasons: dict[str, str], *, is_last: bool
    ) -> PlacedCall | None:
        await asyncio.gather(*(self._look(member) for member in self._members.values() if member.state == "new"))
        home = self._homes.get(request.session_id)
        tried: set[str] = set()
        while True:
            untried = [member for member in self._members.values() if member.name not in tried]
            able = [member for member in untried if member.takes_calls and (is_last or not member.is_full)]
            member = home if home is not None and home.name not in tried else least_loaded(able, self._rng)
            if member is None:
                reasons.update({member.name: member.reason or "it is full" for member in untried})
                return None
            tried.add(member.name)
            try:
                answer = await self._start_at(member, request)
            except Elsewhere as elsewhere:
                reasons[member.name] = str(elsewhere)
                continue
            return PlacedCall(request.session_id, member.name, member.client, answer.accepted)

    async def _start_at(self, member: Member, request: StartCallRequest) -> StartCallAnswer:
        session_id = request.session_id
        try:
            answer = await start_at(member, request, self._dead_after, self._backoff)
        except RunnerUnreachableError:
            if member.name in self._placing[session_id]:  # its stream told the call's end: a definite answer too
                return StartCallAnswer(session_id=session_id, accepted=False)
            self._homes[session_id] = member  # perhaps: it is the only one that may be asked
            raise
        except Elsewhere:
            if self._homes.get(session_id) is member:
                self._forget(session_id)
            raise
        member.cut.discard(session_id)
        is_over = not answer.accepted and await state_of(member.client, session_id) in ("ended", "unknown")
        if is_over or member.name in self._placing[session_id]:  # in this order: its end may be told meanwhile
            if self._homes.get(session_id) is member:  # noted where an earlier placing had no answer
                self._forget(session_id)
            member.ended(session_id)
            return answer
        self._homes[session_id] = member
        if member.is_gone:  # it died behind its answer
            await self._lose(member, [session_id])
        return answer

    async def _until_changed(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except asyncio.TimeoutError:
            return

    # Following

    async def __aenter__(self) -> Self:
        """Returns when each runner was asked for its status once: calls that run already are known then."""
        self._is_open = True
        await asyncio.gather(*(self._look(member) for member in self._members.values()))
        for member in self._members.values():
            self._watch(member)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop following, store the cursors and close the clients; calls go on at their runners."""
        self._is_open = False
        await self._desk.aclose()
        await asyncio.gather(*(self._leave(member) for member in self._members.values()))
        self._finish_views(None)

    async def _leave(self, member: Member) -> None:
        if member.pump is not None:
            await member.pump.aclose()
        for task in member.tasks:
            task.cancel()
        if member.tasks:
            await asyncio.wait(member.tasks, timeout=_CLOSE_SECONDS)
        calls = [call for call, home in self._homes.items() if home is member]
        for session_id in calls:
            del self._homes[session_id]
        self._leave_calls(calls)
        await member.client.aclose()

    def _watch(self, member: Member) -> None:
        for job in (self._look_often, self._follow):
            member.tasks.append(asyncio.ensure_future(job(member)))

    async def _look_often(self, member: Member) -> None:
        while True:
            await asyncio.sleep(self._look_every * self._rng.uniform(0.8, 1.0))
            if not member.is_gone:
                await self._look(member)

    async def _look(self, member: Member) -> None:
        is_first = member.state == "new"
        try:
            status = await member.client.status()
        except RunnerUnreachableError as error:
            if member.takes_calls:
                member.mark("unreachable", str(error))
        except (RunnerError, UsageError) as error:  # the second: removed meanwhile, and its client closed
            member.mark("unusable", str(error))
        else:
            member.take_status(status)
            for live in status.sessions if is_first else ():
                if live.state != "ended":
                    self._learn(member, live.session_id)
            self._changed.set()
            await self._cut_unlisted(member, status)

    async def _cut_unlisted(self, member: Member, status: RunnerStatus) -> None:
        """A runner that restarted and has caught up with the cursor meanwhile cannot be told by its stream."""
        now = asyncio.get_running_loop().time()
        for session_id in member.long_unlisted(self._calls_at(member), status, now, GAP_SECONDS):
            state = await state_of(member.client, session_id)
            if state is None or member.pump is None or not member.pump.stream.is_waiting:
                return  # where a view is slow, the calls' ends may have come and not been read
            if state == "unknown" and session_id in self._calls_at(member):
                await member.pump.deliver(CallCut(session_id, "restarted"))

    async def _follow(self, member: Member) -> None:
        """Its stream, and after its death that of the one that comes back."""
        while True:
            reason = await self._follow_once(member)
            await self._lose(member, self._calls_at(member), reason)
            await self._until_back(member)

    async def _follow_once(self, member: Member) -> str:
        stream = member.client.events(member.store, give_up_after=self._dead_after, backoff=self._backoff)
        member.pump = StreamPump(
            self,
            member.client,
            stream,
            lambda item: self._noted(member, item),
            lambda: self._calls_at(member),
            member.cut,
        )
        running = asyncio.ensure_future(member.pump.run())
        try:
            while not running.done():
                await asyncio.wait({running}, timeout=None if member.is_alive is None else 0.2)
                if member.is_alive is not None and not member.is_alive():
                    member.mark("dead", "its process has ended")
                    await asyncio.wait({running}, timeout=1.0)  # what it wrote last
                    return member.reason
            running.result()
        except EventStreamError as error:
            member.mark("dead", str(error))
        except RunnerError as error:
            member.mark("unusable", str(error))
            report(f"the runner {member.name} cannot be followed", error)
        except Exception as error:
            member.mark("unusable", f"{type(error).__name__}: {error}")
            report(f"following the runner {member.name} failed", error)
        else:
            member.mark("ended", "it ended")
        finally:
            running.cancel()
            await asyncio.wait({running}, timeout=_CLOSE_SECONDS)
            await stream.aclose()
        return member.reason

    async def _until_back(self, member: Member) -> None:
        for delay in Backoff(self._look_every, self._dead_after, self._backoff.random).delays():
            await asyncio.sleep(delay)
            try:
                await member.client.health()
            except RunnerError:
                continue
            if member.is_alive is None or member.is_alive():
                member.state, member.reason = "new", ""
                await self._look(member)
                return

    # What is known of calls

    def _calls_at(self, member: Member) -> list[str]:
        return [call for call, home in self._homes.items() if home is member and call not in self._placing]

    def _noted(self, member: Member, item: StreamItem) -> PoolItem:
        if ends(item):
            session_id = item.producer if isinstance(item, JournalRecord) else getattr(item, "session_id", "")
            if session_id in self._placing:
                self._placing[session_id].add(member.name)
            if self._homes.get(session_id) is member:
                self._forget(session_id)
        elif isinstance(item, JournalRecord) and item.producer != RUNNER_PRODUCER:
            self._learn(member, item.producer)
        elif isinstance(item, JournalRecord) and isinstance(item.body, LifecycleDraining):
            member.mark("draining", "it drains")
        elif isinstance(item, JournalRecord) and isinstance(item.body, LifecycleReady) and member.state != "unusable":
            member.state, member.reason = "open", ""
        return member.name, item

    def _learn(self, member: Member, session_id: str) -> None:
        if session_id not in self._homes and session_id not in self._placing:
            self._homes[session_id] = member
            member.calls.add(session_id)

    def _forget(self, session_id: str) -> None:
        self._homes.pop(session_id).ended(session_id)
        self._changed.set()

    async def _lose(self, member: Member, calls: Iterable[str], reason: str = "it died") -> None:
        calls = sorted(calls)
        assert member.pump is not None
        if calls or member.state != "ended":
            lost = member.name, RunnerLost(member.name, tuple(calls), reason)
            for view in list(self._all):
                await view.put(lost, lambda: None)
        for session_id in calls:
            await member.pump.deliver(CallCut(session_id, "runner_lost"))
        member.cut.update(calls)
