"""A call under test: a fresh room, a client in it, an agent if need be, and what is expected of their messages."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final

from livekit import rtc
from typing_extensions import Self, Unpack

from curb_client.errors import ConnectFailedError, ExpectationError, UsageError
from curb_client.protocol.envelope import check_key
from curb_client.protocol.settings import Adjustable
from curb_client.protocol.types import EffectiveSettings
from curb_client.room.agent import AgentCall
from curb_client.room.arguments import check_timeout
from curb_client.room.client import AgentClient
from curb_client.room.join import connect_room
from curb_client.room.sdk import connect, disconnect
from curb_client.room.trace import NOTHING, Tracer
from curb_client.testing.expectations import ANYTHING, Mailbox, WatchedClient, difference
from curb_client.testing.recorder import Recorder, shortened
from curb_client.testing.server import LiveKitAddress, LiveKitServerHandle
from curb_client.testing.tokens import TokenOptions

__all__ = ["CurbCall"]

CLIENT_IDENTITY: Final = "caller"
AGENT_IDENTITY: Final = "agent"
CHAT_TOPIC: Final = "lk.chat"
EXPECT_SECONDS: Final = 5.0
NOTHING_SECONDS: Final = 0.5
SHOWN_STEPS: Final = 20
ALL_STEPS: Final = 500
_SETTLE_SECONDS: Final = 0.05
_SETTLED_WITHIN: Final = 0.5
_CLOSE_SECONDS: Final = 10.0

_numbers = itertools.count(1)


class CurbCall:
    """A room of its own on a LiveKit server. Nobody is in it until asked for: :attr:`client` and :attr:`agent` join
    when they are first used, in the loop that runs then, and requests wait for whoever is still joining.

    Args:
        server: where the room is; it is made by whoever joins first.
        strict: at the end, a message of the agent that neither a handler nor an expectation took is an error.
        agent_identity: the agent that :attr:`client` talks to, by default the first of kind AGENT.
        settings, adjustable: those of :attr:`agent`, see :class:`curb_client.AgentCall`.
        exchange_in_errors: whether an :class:`ExpectationError` also tells what passed.
    """

    def __init__(
        self,
        server: LiveKitServerHandle | LiveKitAddress,
        *,
        strict: bool = True,
        agent_identity: str | None = None,
        settings: EffectiveSettings | Mapping[str, Any] | None = None,
        adjustable: Adjustable | None = None,
        exchange_in_errors: bool = True,
    ) -> None:
        self.server = server
        self.room_name = f"curb-{os.getpid()}-{next(_numbers)}-{secrets.token_hex(3)}"
        self.strict = strict
        self.recorder = Recorder()
        """What passed so far."""
        self._mailbox = Mailbox()
        self._tracer = Tracer(self.recorder, "kit", lambda: "")
        self._agent_identity = agent_identity
        self._agent_options: dict[str, Any] = {"settings": settings, "adjustable": adjustable}
        self._exchange_in_errors = exchange_in_errors
        self._client: WatchedClient | None = None
        self._client_room: rtc.Room | None = None
        self._agent: AgentCall | None = None
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop in which somebody joined; None before."""

    @property
    def url(self) -> str:
        """The server's, for an app of yours: ``LIVEKIT_URL``."""
        return self.server.url

    def token(self, identity: str, **options: Unpack[TokenOptions]) -> str:
        """A token with which ``identity`` can join this room; options as in :class:`~.tokens.TokenOptions`."""
        return self.server.token(identity, self.room_name, **options)

    # Who is in the room

    @property
    def client(self) -> AgentClient:
        """A client in the room, as the participant ``caller``.

        Raises:
            UsageError: outside of a running asyncio loop.
        """
        if self._client is None:
            self._begin("client")
            self._client_room = rtc.Room()
            self._client = WatchedClient(
                self._mailbox, CLIENT_IDENTITY, agent_identity=self._agent_identity, trace=self.recorder
            )
            self._client.attach(self._client_room)
            self._start(CLIENT_IDENTITY, self._join_client(self._client, self._client_room))
        return self._client

    @property
    def agent(self) -> AgentCall:
        """An agent in the room, in this process: add its handlers. Requests reach it once it has joined.

        Raises:
            UsageError: outside of a running asyncio loop.
        """
        if self._agent is None:
            self._begin("agent")
            self._agent = AgentCall(rtc.Room(), trace=self.recorder, **self._agent_options)
            self._start(AGENT_IDENTITY, self._join_agent(self._agent))
        return self._agent

    @contextlib.asynccontextmanager
    async def join(self, identity: str, **token: Unpack[TokenOptions]) -> AsyncIterator[rtc.Room]:
        """Another participant, without anything of ours: ``async with call.join("supervisor") as room``.

        Args:
            token: options of the token, such as ``kind="agent"``; see :class:`~.tokens.TokenOptions`.
        """
        self._tracer.step("note", detail=f"{identity} joins")
        async with connect_room(self.url, self.token(identity, **token)) as room:
            try:
                yield room
            finally:
                self._tracer.step("note", detail=f"{identity} leaves")

    async def joined(self) -> None:
        """Returns when whoever was asked for so far is in the room.

        Raises:
            ConnectFailedError: somebody could not join.
        """
        for task in list(self._joining.values()):
            await asyncio.shield(task)

    def _begin(self, what: str) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                f"curb_call.{what} needs a running asyncio loop: use it inside an async test (LiveKit's SDK works with "
                "asyncio alone); a program without one joins with curb_client.blocking and curb_call.token()"
            ) from None
        if self.loop is not None and self.loop is not loop:
            raise UsageError("this call was begun in another event loop; use one loop in a test")
        self.loop = loop
        if self._keeper is None:
            self._keeper = asyncio.ensure_future(self._keep())

    def _start(self, identity: str, joining: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(joining)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # asked for when it matters
        self._joining[identity] = task

    async def _join_client(self, client: AgentClient, room: rtc.Room) -> None:
        try:
            await connect(self.url, self.token(CLIENT_IDENTITY), room=room)
        except Exception as error:
            self._tracer.step("note", detail=f"{CLIENT_IDENTITY} could not join: {error}")
            client.give_up(f", since it could not be joined at all: {error}")
            self._mailbox.wake()
            raise
        self._tracer.step("note", detail=f"{CLIENT_IDENTITY} has joined")

    async def _join_agent(self, agent: AgentCall) -> None:
        await connect(self.url, self.token(AGENT_IDENTITY, kind="agent"), room=agent.room)
        await agent.__aenter__()
        await agent.ready()
        self._tracer.step("note", detail=f"{AGENT_IDENTITY} has joined")

    # What is expected

    async def expect(self, key: str, payload: object = ANYTHING, *, within: float = EXPECT_SECONDS) -> Any:
        """Returns the payload of the agent's next message with this key that fits, come already or to come.

        A message answers one expectation. Those with other keys or payloads are left for other expectations.

        Args:
            payload: the payload, or a function that says whether one fits, or an object that compares itself by ``==``.
            within: seconds.

        Raises:
            ExpectationError: no such message in time; it tells how those that came differ.
        """
        __tracebackhide__ = True
        check_key(key)
        deadline = time.monotonic() + check_timeout(within, default=EXPECT_SECONDS)
        shown = NOTHING if payload is ANYTHING else payload
        self._tracer.step("expect", key=key, payload=shown)
        while (message := self._mailbox.take(key, payload)) is None:
            self._check_client()
            left = deadline - time.monotonic()
            if left <= 0 or not await self._mailbox.wait(left):
                self._tracer.step("expected", key=key, error=f"it did not come within {within:g} s")
                raise self._failure(self._missing(key, payload, within))
        self._tracer.step("expected", key=key)
        return message.payload

    async def expect_nothing(self, key: str | None = None, *, within: float = NOTHING_SECONDS) -> None:
        """Returns when so many seconds have passed without a message that nothing took, or none with this key.

        Raises:
            ExpectationError: one came, in that time or before it.
        """
        __tracebackhide__ = True
        deadline = time.monotonic() + check_timeout(within, default=NOTHING_SECONDS)
        while not (untaken := self._mailbox.untaken(key)):
            self._check_client()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            await self._mailbox.wait(left)
        came = "\n  ".join(map(str, untaken))
        raise self._failure(f"nothing was expected, and the agent sent:\n  {came}")

    async def say(self, text: str, *, within: float = EXPECT_SECONDS) -> None:
        """Types ``text`` to the agent: LiveKit's chat, the text stream topic ``lk.chat``.

        Raises:
            ExpectationError: there is no agent, or LiveKit did not take the text, within so many seconds.
        """
        __tracebackhide__ = True
        deadline = time.monotonic() + check_timeout(within, default=EXPECT_SECONDS)
        client = self.client
        arrived = asyncio.Event()
        stop = client.on_presence(lambda presence: arrived.set() if presence.is_there else None)
        try:
            if not client.presence.is_there:
                await asyncio.wait_for(arrived.wait(), deadline - time.monotonic())
            assert self._client_room is not None
            assert client.presence.identity is not None
            self._tracer.step("note", detail=f"{CLIENT_IDENTITY} says {shortened(text)}")
            sending = self._client_room.local_participant.send_text(
                text, topic=CHAT_TOPIC, destination_identities=[client.presence.identity]
            )
            await asyncio.wait_for(sending, max(deadline - time.monotonic(), 0))
        except asyncio.TimeoutError:
            state = client.presence.state.value
            raise self._failure(f"could not say {text!r} within {within:g} s: the agent is {state!r}") from None
        finally:
            stop()

    def _check_client(self) -> None:
        """Whoever expects a message must be in the room to get it."""
        __tracebackhide__ = True
        assert self.client is not None
        joining = self._joining[CLIENT_IDENTITY]
        if joining.done() and not joining.cancelled() and (error := joining.exception()):
            raise ConnectFailedError(f"the client of the test is not in the room: {error}") from error

    def _missing(self, key: str, payload: object, within: float) -> str:
        wanted = "" if payload is ANYTHING else f" with the payload {shortened(payload)}"
        lines = [f"the agent sent no message {key!r}{wanted} within {within:g} s"]
        for message in self._mailbox.messages:
            if message.key == key:
                reason = "an earlier expectation took it" if message.expected else difference(payload, message.payload)
                lines.append(f"  {message} came: {reason}")
        if others := [str(message) for message in self._mailbox.untaken() if message.key != key]:
            lines.append(f"  not expected so far: {', '.join(others)}")
        if self._client is not None and not self._client.presence.is_there:
            lines.append(f"  the agent is {self._client.presence.state.value!r}: is it started, and in this room?")
        return "\n".join(lines)

    def _failure(self, reason: str) -> ExpectationError:
        if self._exchange_in_errors:
            reason = f"{reason}\n{self.report(SHOWN_STEPS)}"
        return ExpectationError(reason)

    def report(self, most: int = ALL_STEPS) -> str:
        """What waits for an answer, and the last steps of the call, for people."""
        return self.recorder.report(time.monotonic(), most)

    # The end

    def check(self) -> None:
        """Raises ExpectationError for messages that nothing took, where the call is strict; ConnectFailedError where
        somebody never joined."""
        __tracebackhide__ = True
        for identity, task in self._joining.items():
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise ConnectFailedError(f"{identity} could not join: {error}") from error
        if self.strict and (untaken := self._mailbox.untaken()):
            came = "\n  ".join(map(str, untaken))
            raise self._failure(
                f"the agent sent what no handler and no expectation took:\n  {came}\n"
                "await curb_call.expect(key), add curb_call.client.on(key, ...), or allow it with "
                "@pytest.mark.curb(strict=False)"
            )

    async def settle(self) -> None:
        """Returns when no message has come for a moment: one may be on its way behind the reply that ended the test."""
        deadline = time.monotonic() + _SETTLED_WITHIN
        while await self._mailbox.wait(_SETTLE_SECONDS) and time.monotonic() < deadline:
            pass

    async def aclose(self) -> None:
        """Leave the room with everybody who joined through this object; nothing is checked."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper}, timeout=_CLOSE_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.settle()
        finally:
            await self.aclose()
        if error is None:
            self.check()

    async def _keep(self) -> None:
        """Ends everything when it is cancelled, by :meth:`aclose` or by the end of the test's loop."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        for task in self._joining.values():
            task.cancel()
        if self._joining:
            await asyncio.wait(self._joining.values(), timeout=_CLOSE_SECONDS)
        rooms: list[rtc.Room] = []
        if self._client is not None and self._client_room is not None:
            await self._client.aclose()
            rooms.append(self._client_room)
        if self._agent is not None:
            await self._agent.aclose()
            rooms.append(self._agent.room)
        await asyncio.gather(*(disconnect(room) for room in rooms))
