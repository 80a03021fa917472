"""Text and byte streams: who gets which, from whom, and in which order."""

from __future__ import annotations

import asyncio

from livekit import rtc

from tests.conformance.stage import Json, Member, Stage, entry, until

MANY = 100


def _got(*members: Member) -> Json:
    return {member.local.identity: sorted(member.received, key=str) for member in members}


@entry
async def texts(stage: Stage) -> Json:
    """To all, to one, to somebody absent; with attributes; large ones; written in parts; to a topic nobody takes."""
    alice, bob, carol = await stage.cast("alice", "bob", "carol")
    for member in (alice, bob, carol):
        member.takes_text("t")
    send = alice.local.send_text
    await send("to all", topic="t", attributes={"k": "v", "empty": ""})
    await send("to bob", topic="t", destination_identities=["bob"])
    await send("to nobody", topic="t", destination_identities=["nobody"])
    await send("for no handler", topic="other")
    await send("l" * 100_000, topic="t")
    await send("", topic="t")
    writer = await alice.local.stream_text(topic="t", attributes={"parts": "3"})
    for part in ("one ", "two ", "three"):
        await writer.write(part)
    await writer.aclose()
    await until(lambda: len(bob.received) >= 5 and len(carol.received) >= 4)
    return _got(alice, bob, carol)


@entry
async def order(stage: Stage) -> Json:
    """Streams sent one after the other are opened in that order."""
    alice, bob = await stage.cast("alice", "bob")
    opened: list[str] = []

    def note(reader: rtc.TextStreamReader, sender: str) -> None:
        opened.append((reader.info.attributes or {})["number"])
        reader.close()

    bob.room.register_text_stream_handler("t", note)
    for number in range(MANY):
        await alice.local.send_text("x", topic="t", attributes={"number": str(number)})
    await until(lambda: len(opened) >= MANY)
    return [opened == [str(number) for number in range(MANY)], len(opened)]


@entry
async def blobs(stage: Stage) -> Json:
    """Byte streams: content and what is told of them, to all and to one."""
    alice, bob, carol = await stage.cast("alice", "bob", "carol")
    for member in (bob, carol):
        member.takes_bytes("b")
    writer = await alice.local.stream_bytes(
        "f.bin", topic="b", mime_type="image/x", total_size=4, attributes={"k": "v"}
    )
    await writer.write(b"\x00\x01\xfe\xff")
    await writer.aclose()
    await alice.local.send_bytes(b"x" * 200_000, topic="b", name="large", destination_identities=["bob"])
    await until(lambda: len(bob.received) >= 2 and carol.received)
    return _got(bob, carol)


@entry
async def on_behalf(stage: Stage) -> Json:
    """Whose a text stream is that names another sender: an agent's, a participant's, of somebody present or not."""
    alice, bob = await stage.cast("alice", "bob")
    agent = await stage.join("agent", kind="agent")
    await stage.acquaint(alice, bob, agent)
    bob.takes_text("t")
    for member in (agent, alice):
        for named in ("carol", "alice" if member is agent else "agent", ""):
            writer = await member.local.stream_text(topic="t", sender_identity=named)
            await writer.write(f"{member.local.identity} as {named}")
            await writer.aclose()
    await until(lambda: len(bob.received) >= 6)
    return _got(bob)


@entry
async def sender_leaves(stage: Stage) -> Json:
    """A stream whose sender leaves in its middle."""
    alice, bob = await stage.cast("alice", "bob")
    bob.takes_text("t")
    writer = await alice.local.stream_text(topic="t")
    await writer.write("half a ")
    await asyncio.sleep(0.3)
    await alice.room.disconnect()
    await until(lambda: bob.received)
    return _got(bob)


@entry
async def both_ways(stage: Stage) -> Json:
    """Streams in both directions at once arrive whole."""
    alice, bob = await stage.cast("alice", "bob")
    for member in (alice, bob):
        member.takes_text("t")
    sends = [member.local.send_text(f"{number}" * 20_000, topic="t") for number in range(5) for member in (alice, bob)]
    await asyncio.gather(*sends)
    await until(lambda: len(alice.received) >= 5 and len(bob.received) >= 5)
    return _got(alice, bob)
