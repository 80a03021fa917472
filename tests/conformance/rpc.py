"""Remote calls: results, errors and sizes.

Three of LiveKit's codes cannot come about: the SDK gives no 1401 (it waits for a recipient, and gives 1501), and 1403
and 1404 are for servers and clients that are older than what is tested here. 1504 is for callers that know only the
first version of RPC.
"""

from __future__ import annotations

import asyncio
from typing import Any

from livekit import rtc

from tests.conformance.stage import TOLD_WITHIN, Json, Member, Stage, entry

SIZES = (15_359, 15_360, 15_361)
"""Around the most bytes that the first version of RPC carries; the second one carries more."""


async def _fail(call: rtc.RpcInvocationData) -> str:
    raise rtc.RpcError(int(call.payload), "custom", '{"why": "so"}')


async def _fail_at_length(call: rtc.RpcInvocationData) -> str:
    raise rtc.RpcError(4220, "m" * 300, "d" * 20_000)


async def _break(call: rtc.RpcInvocationData) -> str:
    raise ValueError("internal")


async def _stall(call: rtc.RpcInvocationData) -> str:
    await asyncio.sleep(2 * TOLD_WITHIN)
    return "too late"


def _methods(*members: Member) -> None:
    for member in members:
        member.answers(
            echo=lambda call: f"{call.caller_identity}:{call.payload}",
            mirror=lambda call: call.payload,
            grow=lambda call: "g" * int(call.payload),
            nothing=lambda call: "",
            fail=_fail,
            fail_at_length=_fail_at_length,
            broken=_break,
            stall=_stall,
        )


@entry
async def results(stage: Stage) -> Json:
    """Calls that end well, in both directions, and with text that is no ASCII."""
    alice, bob = await stage.cast("alice", "bob")
    _methods(alice, bob)
    return {
        "alice asks": await alice.ask("bob", "echo"),
        "bob asks": await bob.ask("alice", "echo"),
        "empty": [await alice.ask("bob", "mirror", ""), await alice.ask("bob", "nothing")],
        "not ASCII": await alice.ask("bob", "mirror", "Grüße \U0001f642 \x00"),
    }


@entry
async def errors(stage: Stage) -> Json:
    """Every error that a call to somebody present ends in."""
    alice, bob = await stage.cast("alice", "bob")
    _methods(bob)
    found = {
        "unsupported": await alice.ask("bob", "unknown"),
        "broken handler": await alice.ask("bob", "broken"),
        "custom": [await alice.ask("bob", "fail", str(code)) for code in (4220, 0, 2**32 - 1)],
        "no answer in time": await alice.ask("bob", "stall", wait=2),
    }
    long = await alice.ask("bob", "fail_at_length")
    return {**found, "cut": [len(long["message"]), len(long["data"])]}


@entry
async def absent(stage: Stage) -> Json:
    """Calls to somebody who is not there, around the limit and over it, and to oneself."""
    (alice,) = await stage.cast("alice")
    _methods(alice)
    calls = [alice.ask("nobody", "echo", "x" * size) for size in SIZES]
    return await asyncio.gather(*calls, alice.ask("alice", "echo"))


@entry
async def sizes(stage: Stage) -> Json:
    """Payloads around the limit of the first version of RPC, and far over it, both ways."""
    alice, bob = await stage.cast("alice", "bob")
    _methods(bob)
    limits = (*SIZES, 200_000)
    return {
        "requests": [await alice.ask("bob", "mirror", "x" * size) for size in limits],
        "responses": [await alice.ask("bob", "grow", str(size)) for size in limits],
    }


@entry
async def many(stage: Stage) -> Json:
    """Fifty calls at once are each answered with their own."""
    alice, bob = await stage.cast("alice", "bob")
    _methods(bob)
    numbers = [str(number) for number in range(50)]
    answers = await asyncio.gather(*(alice.ask("bob", "echo", number) for number in numbers))
    return [answer for number, answer in zip(numbers, answers, strict=True) if answer != f"alice:{number}"]


@entry
async def leaving(stage: Stage) -> Json:
    """A call whose callee leaves the room, and one whose caller does: its own side ends it."""
    alice, bob, carol = await stage.cast("alice", "bob", "carol")
    callee = await _broken_off(alice, bob, who_leaves=bob)
    return {"the callee": callee, "the caller": await _broken_off(alice, carol, who_leaves=alice)}


async def _broken_off(caller: Member, callee: Member, who_leaves: Member) -> Json:
    begun = asyncio.Event()

    async def stall(call: rtc.RpcInvocationData) -> Any:
        begun.set()
        return await _stall(call)

    callee.answers(stall=stall)
    call = asyncio.ensure_future(caller.ask(callee.local.identity, "stall", wait=TOLD_WITHIN))
    await asyncio.wait_for(begun.wait(), TOLD_WITHIN)
    await who_leaves.room.disconnect()
    return await call


@entry
async def no_permission(stage: Stage) -> Json:
    """Who may not publish data can neither call nor answer."""
    alice = await stage.join("alice")
    mute = await stage.join("mute", can_publish_data=False)
    await stage.acquaint(alice, mute)
    _methods(alice, mute)
    calls = [mute.ask("alice", "echo", wait=9), alice.ask("mute", "echo", wait=9)]
    return dict(zip(("mute asks", "mute is asked"), await asyncio.gather(*calls), strict=True))
