"""User packets: who gets which."""

from __future__ import annotations

from livekit import rtc

from tests.conformance.stage import Json, Member, Stage, entry, outcome, until

MANY = 150


async def _settled(sender: Member, *others: Member, count: int = 0) -> Json:
    """What has arrived by the time that a last packet has, which goes to everybody, and ``count`` packets before it."""
    await sender.local.publish_data(b"end", topic="end")
    await until(lambda: all(any(each[2] == "end" for each in member.received) for member in others))
    await until(lambda: all(len(member.received) > count for member in others))
    packets = {member.local.identity: member.received for member in (sender, *others)}
    return {name: sorted((each for each in got if each[2] != "end"), key=str) for name, got in packets.items()}


@entry
async def addressed(stage: Stage) -> Json:
    """To all, to one, to two, to somebody absent and to oneself."""
    alice, bob, carol = await stage.cast("alice", "bob", "carol")
    for name in ([], ["bob"], ["bob", "carol"], ["nobody"], ["alice"], ["nobody", "carol"]):
        await alice.local.publish_data("to " + "+".join(name), destination_identities=name, topic="p")
    return await _settled(alice, bob, carol)


@entry
async def kinds(stage: Stage) -> Json:
    """Reliable and lossy, with and without a topic, empty and large."""
    alice, bob = await stage.cast("alice", "bob")
    for data, reliable, topic in ((b"r", True, "a"), (b"l", False, "a"), (b"n", True, ""), (b"", True, "empty")):
        await alice.local.publish_data(data, reliable=reliable, topic=topic)
    await alice.local.publish_data(b"x" * 60_000, topic="large")
    await alice.local.publish_data(b"x" * 1_200, reliable=False, topic="large, lossy")
    return await _settled(alice, bob, count=6)


@entry
async def order(stage: Stage) -> Json:
    """Reliable packets come in order and once."""
    alice, bob = await stage.cast("alice", "bob")
    for number in range(MANY):
        await alice.local.publish_data(str(number))
    await until(lambda: len(bob.received) >= MANY)
    return [[int(each[1]) for each in bob.received] == list(range(MANY)), len(bob.received)]


@entry
async def too_large(stage: Stage) -> Json:
    """A packet larger than a message of a data channel may be."""
    alice, bob = await stage.cast("alice", "bob")
    results = [await outcome(alice.local.publish_data(b"x" * size, topic="large")) for size in (60_000, 300_000)]
    failures = [result and result["error"] for result in results]
    return {"results": failures, **await _settled(alice, bob)}


@entry
async def transcriptions(stage: Stage) -> Json:
    """An agent may say what somebody else has said, a participant may not, whoever it names."""
    alice, bob, agent = await stage.join("alice"), await stage.join("bob"), await stage.join("agent", kind="agent")
    await stage.acquaint(alice, bob, agent)
    for member in (alice, agent):
        for named in ("alice", "agent"):
            segment = rtc.TranscriptionSegment(
                id=named, text=f"{member.local.identity} as {named}", start_time=0, end_time=1, language="", final=True
            )
            await member.local.publish_transcription(rtc.Transcription(named, "TR_none", [segment]))
    await until(lambda: len(bob.told("transcription")) >= 2)
    return sorted(bob.told("transcription"), key=str)


@entry
async def no_permission(stage: Stage) -> Json:
    """What somebody sends who may not goes nowhere; it still gets what others send."""
    alice = await stage.join("alice")
    mute = await stage.join("mute", can_publish_data=False)
    alice.takes_text("t")
    await stage.acquaint(alice, mute)
    await mute.local.publish_data(b"nothing", topic="p")
    await mute.local.send_text("nothing", topic="t")
    return await _settled(alice, mute)


@entry
async def no_subscription(stage: Stage) -> Json:
    """Who may not subscribe to tracks still gets data."""
    alice = await stage.join("alice")
    deaf = await stage.join("deaf", can_subscribe=False)
    await stage.acquaint(alice, deaf)
    await alice.local.publish_data(b"data", topic="p")
    return await _settled(alice, deaf)
