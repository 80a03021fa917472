"""An agent that answers as scripted, for those who test the caller's app: a kiosk, a bot.

::

    agent = ScriptedAgent()
    agent.reply("quote", {"price": 20}, when={"plan": "gold"})
    agent.reply("quote", {"price": 12})
    async with agent.join(server.url, server.token("agent", "my-room", kind="agent")):
        ...  # start the app
        assert await agent.wait_for("quote") == {"plan": "gold"}
    agent.check()

The rules of a key are tried in the order in which they were added, and the first that takes the payload answers: put
specific rules before general ones. A rule that could never be used is refused. A script may also be a YAML file, see
:mod:`curb_client.testing.script_file`.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from livekit import rtc
from typing_extensions import Self

from curb_client.errors import UnexpectedRequestError, UsageError
from curb_client.protocol.contract import RefusalCode
from curb_client.protocol.envelope import check_key
from curb_client.protocol.settings import Adjustable
from curb_client.protocol.types import EffectiveSettings, Issue
from curb_client.room.agent import AgentCall
from curb_client.room.arguments import NO_PAYLOAD, check_timeout
from curb_client.room.callbacks import logger
from curb_client.room.handlers import AgentMessageHandler, HandlerRefusal, RequestMeta
from curb_client.room.join import Token, connect_room
from curb_client.room.sdk import AGENT_KIND
from curb_client.room.trace import NOTHING, Trace, TraceEvent
from curb_client.testing._scripted_call import ReceivedRequest, RequestLog, RuleTable, Stay
from curb_client.testing.recorder import shortened
from curb_client.testing.script_file import Message, Rule, Script, read_script
from curb_client.testing.written_files import check_part

__all__ = ["ReceivedRequest", "ScriptedAgent", "Send"]

WAIT_SECONDS: Final = 5.0
_SHOWN_REQUESTS: Final = 20


@dataclass(frozen=True)
class Send:
    """A message of the agent to its clients, sent ``after`` seconds.

    Args:
        payload: a JSON object, ``{}`` unless given.
        after: 0 to 86,400 seconds.

    Raises:
        UsageError: one of them does not fit.
    """

    key: str
    payload: Any = field(default_factory=dict)
    after: float = 0.0

    def __post_init__(self) -> None:
        self.checked()

    def checked(self) -> Message:
        """As a part of a script."""
        form = {"send": self.key, "payload": self.payload, "after": self.after}
        return check_part(Message, form, f"the message {self.key!r:.80}")


class ScriptedAgent:
    """Answers the messages of the app under test, keeps them, and refuses what is not scripted with ``no_handler``.

    Args:
        settings: the agent's own.
        adjustable: the settings that ``client`` and ``host`` may change, none unless given.
        trace: told of every step of the agent's side; see :mod:`curb_client.room.trace`.

    Raises:
        UsageError: the settings do not fit, or ``adjustable`` names what does not exist.
    """

    def __init__(
        self,
        *,
        settings: EffectiveSettings | Mapping[str, Any] | None = None,
        adjustable: Adjustable | None = None,
        trace: Trace | None = None,
    ) -> None:
        form: dict[str, Any] = {}
        if settings is not None:
            form["settings"] = settings.to_wire() if isinstance(settings, EffectiveSettings) else settings
        if adjustable is not None:
            form["adjustable"] = adjustable
        self._script = check_part(Script, form, "ScriptedAgent")
        self._rules = RuleTable()
        self._greetings: list[Message] = []
        self._log = RequestLog(self._rules.why_not)
        self.trace = trace
        self._stay: Stay | None = None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, trace: Trace | None = None) -> Self:
        """The agent of a YAML file; see :mod:`curb_client.testing.script_file`.

        Raises:
            UsageError: it cannot be read, or is no script; with the file, the place in it, and what is allowed there.
        """
        return cls._of(read_script(path), trace)

    @classmethod
    def from_script(cls, script: Mapping[str, Any], *, trace: Trace | None = None) -> Self:
        """The agent of what a YAML file would say.

        Raises:
            UsageError: it is no script; with the place in it, and what is allowed there.
        """
        return cls._of(check_part(Script, script, "script"), trace)

    @classmethod
    def _of(cls, script: Script, trace: Trace | None) -> Self:
        agent = cls(trace=trace)
        agent._script = script
        agent._greetings = list(script.on_join)
        for key, rules in script.on.items():
            for rule in rules:
                agent._rules.add(key, rule)
        return agent

    # The script

    def reply(
        self,
        key: str,
        reply: AgentMessageHandler | Any = None,
        *,
        when: Callable[[Any], bool] | Any = NOTHING,
        after: float = 0.0,
        times: int | None = None,
        then: Send | Sequence[Send] = (),
    ) -> None:
        """Answer messages of this key; during a call too.

        Args:
            reply: a JSON value, model or dataclass of at most 15,360 bytes, or a function ``(payload, meta)``, plain or
                async, that returns one. One that raises makes the answer ``handler_failed``, and is logged.
            when: takes only payloads equal to this one, an object if it has at least these properties (likewise inside
                it), or those for which this function of the payload is true.
            after: seconds until the rule answers, 0 to 86,400.
            times: how often the rule is used at most; then the next one is tried.
            then: sent to all clients when the rule has answered, each ``after`` its own seconds.

        Raises:
            InvalidKeyError, UsageError: something does not fit, or an earlier rule takes all that this one would.
        """
        self._add(key, "reply", then, {"reply": reply, "after": after, "times": times}, when)

    def refuse(
        self,
        key: str,
        code: RefusalCode | str,
        *,
        issues: Sequence[Issue | Mapping[str, Any]] = (),
        when: Callable[[Any], bool] | Any = NOTHING,
        after: float = 0.0,
        times: int | None = None,
        then: Send | Sequence[Send] = (),
    ) -> None:
        """Refuse messages of this key; the other arguments are those of :meth:`reply`.

        Args:
            code: ``invalid_payload``, ``no_handler`` or ``handler_failed``.
            issues: with ``invalid_payload``, each with ``path``, a list of names and indexes, and ``message``.

        Raises:
            InvalidKeyError, UsageError: as :meth:`reply`; the codes of settings do not fit messages.
        """
        form: dict[str, Any] = {"refuse": code, "issues": issues, "after": after, "times": times}
        if isinstance(code, RefusalCode):
            form["refuse"] = code.value
        if isinstance(issues, (list, tuple)):
            form["issues"] = [issue.model_dump() if isinstance(issue, Issue) else issue for issue in issues]
        self._add(key, "refusal", then, form, when)

    def on_join_send(self, key: str, payload: object = NO_PAYLOAD, *, after: float = 0.0) -> None:
        """Send to each client that joins, or is there when the agent joins, ``after`` seconds.

        LiveKit tells the agent of a client up to three seconds after it joined; a client that does not listen yet
        misses what is sent.

        Raises:
            UsageError: the key, the payload (a JSON object) or the seconds do not fit.
        """
        self._greetings.append(Send(key, payload, after).checked())

    def clear(self, key: str) -> None:
        """Forget the rules of a key, to add others."""
        self._rules.clear(check_key(key))
        if self._stay is not None:
            self._stay.stop_handling(key)

    def _add(self, key: str, what: str, then: Any, form: dict[str, Any], when: object) -> None:
        name = f"the {what} to {check_key(key)!r:.80}"
        sends = then if isinstance(then, (list, tuple)) else [then]
        for send in sends:
            if not isinstance(send, Send):
                raise UsageError(f'{name}: then has {send!r:.80}; it must be Send("key", {{…}}), or a list of them')
        form["then"] = [{"send": send.key, "payload": send.payload, "after": send.after} for send in sends]
        rule = check_part(Rule, form if when is NOTHING else form | {"when": when}, name)
        self._rules.add(key, rule)
        if self._stay is not None:
            self._stay.handle(key)

    # In a room

    @asynccontextmanager
    async def join(
        self, url: str, token: Token, *, client_identity: str | None = None, timeout: float | None = None
    ) -> AsyncIterator[Self]:
        """Join a room as its agent, and leave it at the end of the block. It may be joined again then.

        Args:
            token: of kind agent, or a function that makes one.
            client_identity: the only participant taken as the app; every one of kind STANDARD unless given.
            timeout: seconds to connect in, 15 by default.

        Raises:
            ConnectFailedError: LiveKit's reason, or out of time.
            RoomInUseError, UsageError: see :meth:`in_room`.
        """
        async with connect_room(url, token, timeout=timeout) as room:
            if room.local_participant.kind != AGENT_KIND:
                logger.warning("the scripted agent's token is not of kind agent; apps find it only by its identity")
            async with self.in_room(room, client_identity=client_identity):
                yield self

    @asynccontextmanager
    async def in_room(self, room: rtc.Room, *, client_identity: str | None = None) -> AsyncIterator[Self]:
        """Be the agent of a room that is connected already, for the length of the block.

        Raises:
            RoomInUseError: the room has an agent's side already.
            UsageError: the room is not connected, or this agent is in a room.
        """
        if self._stay is not None:
            raise UsageError("this ScriptedAgent is in a room already; make another one for this room")
        call = AgentCall(
            room,
            settings=self._script.settings,
            adjustable=self._script.adjustable,
            client_identity=client_identity,
            trace=self,
        )
        stay = self._stay = Stay(call, client_identity, self._answer, lambda: self._greetings)
        try:
            self._log.new_call()
            async with call:
                for key in self._rules.keys:
                    stay.handle(key)
                await call.ready()
                try:
                    stay.begin()
                    yield self
                finally:
                    stay.end()
        finally:
            self._stay = None

    @property
    def call(self) -> AgentCall:
        """The agent's side of the call: its settings, its room.

        Raises:
            UsageError: the agent is in no room.
        """
        return self._here.call

    def send(self, key: str, payload: object = NO_PAYLOAD, *, to: str | None = None) -> asyncio.Future[bool]:
        """Send to every client, or to the one with the identity ``to``, now; see ``AgentCall.send.to_client``.

        Raises:
            InvalidKeyError, InvalidPayloadError: the payload must be a JSON object.
            UsageError: the agent is in no room.
        """
        return self.call.send.to_client(key, payload, to=to)

    @property
    def _here(self) -> Stay:
        if self._stay is None:
            raise UsageError("the scripted agent is in no room; use it inside `async with agent.join(url, token):`")
        return self._stay

    async def _answer(self, key: str, payload: Any, meta: RequestMeta) -> Any:
        stay, rule = self._here, self._rules.use(key, payload)
        if rule is None:
            raise HandlerRefusal(RefusalCode.NO_HANDLER)
        self._log.taken(meta)
        reply = rule.reply
        await asyncio.sleep(rule.after)
        if callable(reply):
            reply = reply(copy.deepcopy(payload), meta)
            if inspect.isawaitable(reply):
                reply = await reply
        for message in rule.then:
            stay.send(message)
        if rule.refuse is not None:
            raise HandlerRefusal(RefusalCode(rule.refuse), issues=rule.issues)
        return reply

    # What came

    def record(self, event: TraceEvent) -> None:
        """Take a step of the agent's side; it is told of each."""
        self._log.record(event)
        if self.trace is not None:
            self.trace.record(event)

    @property
    def received(self) -> list[ReceivedRequest]:
        """The messages of the app, in the order in which they came, those that were refused among them."""
        return list(self._log.received)

    def received_payloads(self, key: str) -> list[Any]:
        """The payloads of the messages of one key, in order."""
        return [request.payload for request in self._log.received if request.key == key]

    async def wait_for(self, key: str, *, timeout: float | None = None) -> Any:
        """The payload of the first message of this key that no ``wait_for`` returned yet; it may have come before.

        Args:
            timeout: seconds, 5 by default.

        Raises:
            InvalidKeyError, InvalidTimeoutError: nothing was waited for.
            MessageTimeoutError: it did not come in time; the text says what did.
        """
        return await self._log.next_of(check_key(key), check_timeout(timeout, default=WAIT_SECONDS))

    @property
    def unexpected(self) -> list[ReceivedRequest]:
        """The messages that no rule answered, in order; they were refused ``no_handler``."""
        return [request for request, _ in self._log.unexpected]

    def check(self) -> None:
        """Raises:
        UnexpectedRequestError: the app sent what no rule answers; its text names each and the keys of the script.
        """
        found = self._log.unexpected
        if not found:
            return
        lines = [
            f"{request.key!r} {shortened(request.payload)} from {request.sender_identity!r}: {why}"
            for request, why in found[:_SHOWN_REQUESTS]
        ]
        if len(found) > _SHOWN_REQUESTS:
            lines.append(f"… {len(found) - _SHOWN_REQUESTS} more")
        keys = ", ".join(map(repr, sorted(self._rules.keys))) or "nothing"
        text = "\n  ".join([f"the app sent {len(found)} message(s) that the script does not answer:", *lines])
        raise UnexpectedRequestError(f"{text}\nthe script answers {keys}", self.unexpected)
