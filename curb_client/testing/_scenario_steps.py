"""What each kind of step does in a call, and how what came differs from what it expects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from livekit import rtc

from curb_client.errors import AgentRefusedError, CurbError, ExpectationError
from curb_client.room.arguments import NO_PAYLOAD
from curb_client.room.trace import NOTHING, describe_failure
from curb_client.testing.call import CurbCall
from curb_client.testing.expectations import ANYTHING, difference
from curb_client.testing.recorder import shortened
from curb_client.testing.scenario_file import Ask, Expect, ExpectNothing, Request, Say, Send, Step, Update, Wait

__all__ = ["perform"]

AnswerT = TypeVar("AnswerT")


async def perform(step: Step, call: CurbCall, within: float) -> None:
    """Does a step.

    Args:
        within: seconds, for the steps that wait for the agent.

    Raises:
        ExpectationError, CurbError: what came is not what the step expects, or nothing came.
    """
    await _WAYS[type(step)](step, call, within)


async def _send(step: Send, call: CurbCall, within: float) -> None:
    await _answer(call.client.send(step.key, _payload(step), timeout=within), step)


async def _ask(step: Ask, call: CurbCall, within: float) -> None:
    reply = await _answer(call.client.ask(step.key, _payload(step), timeout=within), step)
    if step.refused is None and step.reply is not NOTHING:
        _compare("the reply differs", step.reply, reply)
    if step.reply_has is not NOTHING:
        _compare("the reply differs", AtLeast(step.reply_has), reply)


async def _update(step: Update, call: CurbCall, within: float) -> None:
    settings = await _answer(call.client.update(step.change, timeout=within), step)
    if settings is not None and step.settings is not NOTHING:
        _compare("the settings differ", AtLeast(step.settings), settings.to_wire())


async def _expect(step: Expect, call: CurbCall, within: float) -> None:
    payload = ANYTHING if step.payload is NOTHING else step.payload
    if step.payload_has is not NOTHING:
        payload = AtLeast(step.payload_has)
    await call.expect(step.key, payload, within=within)


async def _expect_nothing(step: ExpectNothing, call: CurbCall, within: float) -> None:  # noqa: ARG001
    await call.expect_nothing(step.silence.key, within=step.silence.within)


async def _say(step: Say, call: CurbCall, within: float) -> None:
    try:
        await call.say(step.words, within=within)
    except CurbError:
        raise
    except Exception as error:  # LiveKit's, of several types in its versions
        raise ExpectationError(f"LiveKit did not carry it: {type(error).__name__}: {error}") from error


async def _wait(step: Wait, call: CurbCall, within: float) -> None:  # noqa: ARG001
    await asyncio.sleep(step.seconds)


_WAYS: Final[Mapping[type[Step], Callable[[Any, CurbCall, float], Awaitable[None]]]] = {
    Send: _send,
    Ask: _ask,
    Update: _update,
    Expect: _expect,
    ExpectNothing: _expect_nothing,
    Say: _say,
    Wait: _wait,
}


def _payload(step: Send | Ask) -> object:
    return NO_PAYLOAD if step.payload is NOTHING else step.payload


# What came


async def _answer(request: Awaitable[AnswerT], step: Request) -> AnswerT | None:
    """The agent's answer, None for a refusal that is expected."""
    try:
        answer = await request
    except AgentRefusedError as refusal:
        _check_refusal(step, refusal)
        return None
    except rtc.RpcError as error:
        name, reason = describe_failure(error)
        raise ExpectationError(f"no answer came: {reason} (LiveKit's {name})") from None
    if step.refused is not None:
        came = "no reply" if answer is None else shortened(answer)
        raise ExpectationError(
            f"the agent did not refuse it\n  expected  the refusal {step.refused}\n  came      {came}"
        )
    return answer


def _check_refusal(step: Request, refusal: AgentRefusedError) -> None:
    code, particulars = describe_failure(refusal)
    came = f"{code} ({particulars})" if particulars else code
    if step.refused is None:
        raise ExpectationError(f"the agent refused it\n  came      {came}")
    if refusal.code != step.refused:
        raise ExpectationError(f"the refusal differs\n  expected  {step.refused}\n  came      {came}")
    if isinstance(step, Update) and step.path not in (None, refusal.path):
        raise ExpectationError(f"the refusal has another path\n  expected  {step.path}\n  came      {refusal.path}")
    paths = {".".join(map(str, issue.path)) for issue in refusal.issues}
    if step.issues is not None and paths != set(step.issues):
        raise ExpectationError(
            f"the refusal has other issues\n  expected  {_listed(step.issues)}\n  came      {_listed(paths)}"
        )


def _listed(paths: Any) -> str:
    return ", ".join(path or "(root)" for path in sorted(set(paths))) or "none"


def _compare(what: str, expected: object, came: object) -> None:
    found = expected.difference(came) if isinstance(expected, AtLeast) else difference(expected, came)
    if found is not None:
        wanted = repr(expected) if isinstance(expected, AtLeast) else shortened(expected)
        raise ExpectationError(f"{what}: {found}\n  expected  {wanted}\n  came      {shortened(came)}")


class AtLeast:
    """Equal to every object with at least these properties, likewise inside it; to anything else like the value."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: object) -> None:
        self._value = value

    def difference(self, came: object) -> str | None:
        """See :func:`curb_client.testing.expectations.difference`."""
        return difference(self._value, _asked_for(self._value, came))

    def __eq__(self, came: object) -> bool:
        return self.difference(came) is None

    def __repr__(self) -> str:
        return f"at least {shortened(self._value)}"


def _asked_for(expected: object, came: object) -> object:
    """What came, without the properties that are not expected."""
    if isinstance(expected, dict) and isinstance(came, dict):
        return {name: _asked_for(expected[name], value) for name, value in came.items() if name in expected}
    if isinstance(expected, list) and isinstance(came, list):
        rest = came[len(expected) :]
        return [*(_asked_for(wanted, value) for wanted, value in zip(expected, came, strict=False)), *rest]
    return came
