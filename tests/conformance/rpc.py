"""Remote calls: results, errors and sizes."""

from __future__ import annotations

import asyncio

from livekit import rtc

from tests.conformance.stage import Json, Member, Stage, entry


async def _fail(call: rtc.RpcInvocationData) -> str:
    raise rtc.RpcError(int(call.payload), "custom", '{"why": "so"}')


async def _fail_at_length(call: rtc.RpcInvocationData) -> str:
    raise rtc.RpcError(4220, "m" * 300, "d" * 20_000)


async def _break(call: rtc.RpcInvocationData) -> str:
    raise ValueError("internal")


async def _stall(call: rtc.RpcInvocationData) -> str:
    await asyncio.sleep(30)
    return "too late"


def _methods(member: Member) -> None:
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
    _methods(alice)
    _methods(bob)
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
    """Calls to somebody who is not there, small and too large, and to oneself."""
    (alice,) = await stage.cast("alice")
    _methods(alice)
    calls = [alice.ask("nobody", "echo"), alice.ask("nobody", "echo", "x" * 15_361), alice.ask("alice", "echo")]
    return await asyncio.gather(*calls)


@entry
async def sizes(stage: Stage) -> Json:
    """Payloads around the limit of the first version of RPC, and far over it, both ways."""
    alice, bob = await stage.cast("alice", "bob")
    _methods(bob)
    limits = (15_360, 15_361, 20_000, 200_000)
    return {
        "requests": [await alice.ask("bob", "mirror", "x" * size) for size in limits],
        "responses": [await alice.ask("bob", "grow", str(size)) for size in limits],
    }


@entry
async def many(stage: Stage) -> Json:
    """Fifty calls at once are each answered with their own."""
    alice, bob = await stage.cast("alice", "bob")
    _methods(bob)
    return await asyncio.gather(*(alice.ask("bob", "echo", str(number)) for number in range(50)))


@entry
async def callee_leaves(stage: Stage) -> Json:
    """A call whose callee leaves the room."""
    alice, bob = await stage.cast("alice", "bob")
    _methods(bob)
    call = asyncio.ensure_future(alice.ask("bob", "stall", wait=25))
    await asyncio.sleep(0.5)
    await bob.room.disconnect()
    return await call


@entry
async def caller_leaves(stage: Stage) -> Json:
    """A call whose caller leaves the room: its own side ends it."""
    alice, bob = await stage.cast("alice", "bob")
    _methods(bob)
    call = asyncio.ensure_future(alice.ask("bob", "stall", wait=25))
    await asyncio.sleep(0.5)
    await alice.room.disconnect()
    return await call


@entry
async def no_permission(stage: Stage) -> Json:
    """Who may not publish data can still neither call nor answer: what becomes of both."""
    alice = await stage.join("alice")
    mute = await stage.join("mute", can_publish_data=False)
    await stage.acquaint(alice, mute)
    _methods(alice)
    _methods(mute)
    calls = [mute.ask("alice", "echo", wait=9), alice.ask("mute", "echo", wait=9)]
    return dict(zip(("mute asks", "mute is asked"), await asyncio.gather(*calls), strict=True))
