"""A call under test: a fresh room, a client in it, an agent if need be, and what is expected of their messages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from typing_extensions import Self

from curb_client.errors import ConnectFailedError, ExpectationError
from curb_client.protocol.contract import CHAT_TOPIC
from curb_client.protocol.envelope import check_key
from curb_client.protocol.settings import Adjustable
from curb_client.protocol.types import EffectiveSettings
from curb_client.room.arguments import check_timeout
from curb_client.room.sdk import finish_within
from curb_client.room.trace import NOTHING
from curb_client.testing.agent_process import AgentProcess
from curb_client.testing.call_room import CLIENT_IDENTITY, CallRoom
from curb_client.testing.expectations import ANYTHING, difference
from curb_client.testing.recorder import shortened
from curb_client.testing.server import LiveKitAddress, LiveKitServerHandle

__all__ = ["CurbCall"]

EXPECT_SECONDS: Final = 5.0
NOTHING_SECONDS: Final = 0.5
SHOWN_STEPS: Final = 20
ALL_STEPS: Final = 500
_SETTLE_SECONDS: Final = 0.05
_SETTLED_WITHIN: Final = 0.5
_LOOK_AGAIN_SECONDS: Final = 0.25
_OUTPUT_LINES: Final = 20


class CurbCall(CallRoom):
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
        super().__init__(server, agent_identity, {"settings": settings, "adjustable": adjustable})
        self.strict = strict
        self._exchange_in_errors = exchange_in_errors

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
            if left <= 0 or self._ended_process():
                self._tracer.step("expected", key=key, error=f"it did not come within {within:g} s")
                raise self._failure(self._missing(key, payload, within))
            await self._mailbox.wait(min(left, _LOOK_AGAIN_SECONDS))
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
        try:
            agent = await self.agent_is_there(within)
            assert self._client_room is not None
            self._tracer.step("note", detail=f"{CLIENT_IDENTITY} says {shortened(text)}")
            sending = self._client_room.local_participant.send_text(
                text, topic=CHAT_TOPIC, destination_identities=[agent]
            )
            await finish_within(sending, max(deadline - time.monotonic(), 0))
        except ExpectationError as error:
            raise self._failure(f"could not say {text!r}: {error}") from None
        except TimeoutError:
            raise self._failure(f"could not say {text!r}: LiveKit did not take it within {within:g} s") from None

    async def expect_said(self, text: object = ANYTHING, *, within: float = EXPECT_SECONDS) -> str:
        """Returns what an agent says next that fits, said already or yet to be said: the words of its speech, or its
        answer to typed text, as LiveKit's transcriptions give them (the text stream topic ``lk.transcription``).

        Args:
            text: the words, or a function that says whether some fit.
            within: seconds.

        Raises:
            ExpectationError: it did not say that in time; it tells what it said.
        """
        __tracebackhide__ = True
        deadline = time.monotonic() + check_timeout(within, default=EXPECT_SECONDS)
        assert self.client is not None
        assert self._hearing is not None
        while (said := self._hearing.take(text)) is None:
            self._check_client()
            left = deadline - time.monotonic()
            if left <= 0 or self._ended_process():
                wanted = "anything" if text is ANYTHING else shortened(text)
                others = "".join(f"\n  {shortened(each)}" for each in self._hearing.texts)
                so_far = f"; what was said:{others}" if others else ""
                raise self._failure(f"nobody said {wanted} within {within:g} s{so_far}")
            await self._mailbox.wait(min(left, _LOOK_AGAIN_SECONDS))
        return said

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
        if ended := self._ended_process():
            lines = [f"the agent sent no message {key!r}{wanted}, and its process ended (status {ended.exit_status})"]
        for message in self._mailbox.messages:
            if message.key == key:
                reason = "an earlier expectation took it" if message.expected else difference(payload, message.payload)
                lines.append(f"  {message} came: {reason}")
        if others := [str(message) for message in self._mailbox.untaken() if message.key != key]:
            lines.append(f"  not expected so far: {', '.join(others)}")
        if self._client is not None and not self._client.presence.is_there:
            lines.append(f"  the agent is {self._client.presence.state.value!r}: is it started, and in this room?")
        return "\n".join(lines)

    def _ended_process(self) -> AgentProcess | None:
        return next((process for process in self._processes if process.exit_status is not None), None)

    def _failure(self, reason: str) -> ExpectationError:
        if self._exchange_in_errors:
            reason = f"{reason}\n{self.report(SHOWN_STEPS)}"
        return ExpectationError(reason)

    def report(self, most: int = ALL_STEPS) -> str:
        """What waits for an answer, the last steps of the call, what was made to go wrong in it, and the last output of
        agent processes, for people."""
        parts = [self.recorder.report(time.monotonic(), most)]
        if self._faults is not None and (faults := self._faults.report()):
            parts.append("\n  ".join(["faults, and how often each has happened:", *faults]))
        for process in self._processes:
            output = process.output_tail(_OUTPUT_LINES)
            parts.append(f"the last output of {process}:\n{output}" if output else f"{process} printed nothing")
        return "\n".join(parts)

    # The end

    def check(self) -> None:
        """Whether all was expected; what was not is an error only where the call is strict.

        Raises:
            ExpectationError: the agent sent what nothing took.
            UnexpectedRequestError: a scripted agent was sent what it was not scripted for.
            ConnectFailedError: somebody never joined.
        """
        __tracebackhide__ = True
        for identity, task in self._joining.items():
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise ConnectFailedError(f"{identity} could not join: {error}") from error
        for agent in self._scripted if self.strict else ():
            agent.check()
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
