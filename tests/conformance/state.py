"""Metadata, name and attributes: what changes, and who is told."""

from __future__ import annotations

from collections.abc import Awaitable

from tests.conformance.stage import Json, Member, Stage, entry, outcome, until

KINDS = ("attributes", "metadata", "name")


def _told(*members: Member) -> Json:
    return {member.local.identity: member.told(*KINDS) for member in members}


def _held(member: Member, identity: str) -> Json:
    who = member.local if member.local.identity == identity else member.remote(identity)
    return None if who is None else [who.name, who.metadata, dict(sorted(who.attributes.items()))]


async def _told_of(change: Awaitable[None], *members: Member) -> None:
    told = [len(member.events) for member in members]
    await change
    await until(lambda: all(len(member.events) > count for member, count in zip(members, told, strict=True)))


@entry
async def updates(stage: Stage) -> Json:
    """One change after the other: setting, changing, removing, and setting what is so already."""
    alice, bob = await stage.cast("alice", "bob")
    local = bob.local
    await _told_of(local.set_attributes({"k": "v", "l": "w"}), alice, bob)
    await _told_of(local.set_attributes({"k": "changed"}), alice, bob)
    await local.set_attributes({"k": "changed"})  # nothing follows from it, or the next change would show it
    await _told_of(local.set_attributes({"l": ""}), alice, bob)
    await _told_of(local.set_metadata("about bob"), alice, bob)
    await local.set_metadata("")  # nor from it
    await _told_of(local.set_name("Bob"), alice, bob)
    return {"events": _told(alice, bob), "held": [_held(alice, "bob"), _held(bob, "bob")]}


@entry
async def for_newcomers(stage: Stage) -> Json:
    """What was changed before one joins is there when one does."""
    (bob,) = await stage.cast("bob", attributes={"first": "1", "gone": "1"}, metadata="old")
    await bob.local.set_attributes({"second": "2", "gone": ""})
    await bob.local.set_metadata("new")
    await until(lambda: bob.local.metadata == "new")  # the SDK sends what it knows of it with the name
    await bob.local.set_name("Bob")
    await until(lambda: bob.local.name == "Bob")
    alice = await stage.join("alice")
    return _held(alice, "bob")


@entry
async def no_permission(stage: Stage) -> Json:
    """Who may not change its own state does not, and is told nothing."""
    alice = await stage.join("alice")
    bob = await stage.join("bob", can_update_own_metadata=False, metadata="old", attributes={"k": "v"})
    await stage.acquaint(alice, bob)
    attempts = [bob.local.set_attributes({"k": "w"}), bob.local.set_metadata("new"), bob.local.set_name("Bob")]
    results = [await outcome(attempt) for attempt in attempts]
    await bob.local.publish_data(b"afterwards")
    await until(lambda: alice.received)
    return {"results": results, "events": _told(alice, bob), "held": [_held(alice, "bob"), _held(bob, "bob")]}


@entry
async def large(stage: Stage) -> Json:
    """Metadata, attributes and a name as large as they may be, and larger."""
    alice, bob = await stage.cast("alice", "bob")
    local = bob.local
    attempts = [local.set_metadata("m" * size) for size in (60_000, 600_000)]
    attempts += [local.set_attributes({"k": "v" * size}) for size in (30_000, 70_000)]
    attempts += [local.set_name("n" * size) for size in (257, 256)]
    results = [await outcome(attempt) for attempt in attempts]
    await until(lambda: len(alice.events) >= 3)
    seen = alice.remote("bob")
    lengths = None if seen is None else [len(seen.metadata), len(seen.attributes.get("k", "")), len(seen.name)]
    return {"results": results, "lengths": lengths, "events": [event[0] for event in alice.events]}
