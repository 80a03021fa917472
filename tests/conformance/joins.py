"""Who gets in, and what the others see of them."""

from __future__ import annotations

import asyncio
import datetime as dt

from livekit import api, rtc

from tests.conformance.stage import Json, Member, Stage, entry, outcome, until

GRANTS = api.VideoGrants(room_join=True, room="elsewhere")


@entry
async def refusals(stage: Stage) -> Json:
    """What the SDK says of tokens that let nobody in."""
    key, secret = stage.server.api_key, stage.server.api_secret
    listing = api.VideoGrants(room_list=True)
    tokens = {
        "bad secret": _token(key, "not the secret of this server, but as long"),
        "bad key": _token("nobody", secret),
        "expired": _token(key, secret, lasts=-3600),
        "no roomJoin": _token(key, secret, grants=api.VideoGrants(room="elsewhere")),
        "another grant": _token(key, secret, grants=listing),
        "no token": "nonsense",
        "no identity": _token(key, secret, identity=""),
        "long identity": _token(key, secret, identity="i" * 257),
        "long room": _token(key, secret, grants=api.VideoGrants(room_join=True, room="r" * 257)),
    }
    results = await asyncio.gather(*(_refusal(stage, token) for token in tokens.values()))
    return dict(zip(tokens, results, strict=True))


def _token(
    key: str, secret: str, *, lasts: float = 60, grants: api.VideoGrants = GRANTS, identity: str = "somebody"
) -> str:
    token = api.AccessToken(key, secret).with_identity(identity).with_grants(grants)
    return token.with_ttl(dt.timedelta(seconds=lasts)).to_jwt()


async def _refusal(stage: Stage, token: str) -> Json:
    room = rtc.Room()
    result = await outcome(room.connect(stage.server.url, token))
    await room.disconnect()
    if result is None:
        return "let in"
    # The rest of the text quotes the reason of a library that checks tokens; the status is what clients act on.
    status = next((code for code in ("401", "403", "404", "400") if code in result["text"]), "other")
    return [result["error"], status]


@entry
async def what_is_seen(stage: Stage) -> Json:
    """Identity, kind, name, metadata and attributes, as seen by the others and by oneself."""
    watcher = await stage.join("watcher")
    plain = await stage.join("plain", metadata="m", name="Plain", attributes={"a": "1", "b": "2"})
    agent = await stage.join("agent", kind="agent", can_update_own_metadata=False)
    bare = await stage.join("bare", can_publish=False, can_publish_data=False)
    await stage.acquaint(watcher, plain, agent, bare)
    seen = {identity: _look(who) for identity, who in watcher.room.remote_participants.items()}
    return {"by another": dict(sorted(seen.items())), "by itself": [_look(who.local) for who in (plain, agent, bare)]}


def _look(who: rtc.Participant) -> Json:
    kind = rtc.ParticipantKind.Name(who.kind)
    may = who.permissions
    rights = [may.can_publish, may.can_publish_data, may.can_subscribe, may.can_update_metadata, may.hidden]
    return [who.identity, kind, who.name, who.metadata, dict(sorted(who.attributes.items())), rights]


@entry
async def hidden(stage: Stage) -> Json:
    """Somebody hidden sees and is not seen; its packets arrive without a sender, and it can be called by nobody."""
    alice, bob = await stage.cast("alice", "bob")
    ghost = await stage.join("ghost", hidden=True)
    bob.answers(echo=lambda call: f"{call.caller_identity}:{call.payload}")
    ghost.answers(echo=lambda call: call.payload)
    alice.takes_text("t")
    await ghost.local.publish_data(b"boo", topic="p")
    await ghost.local.send_text("boo", topic="t")
    called = await asyncio.gather(ghost.ask("bob", "echo"), alice.ask("ghost", "echo", wait=9))
    await alice.local.publish_data(b"to all")
    await until(lambda: len(alice.received) >= 2 and ghost.received)
    return {
        "ghost sees": sorted(ghost.room.remote_participants),
        "alice sees": sorted(alice.room.remote_participants),
        "alice received": sorted(alice.received, key=str),
        "ghost received": ghost.received,
        "ghost calls, alice calls ghost": called,
        "alice's events": alice.events,
    }


@entry
async def early_calls(stage: Stage) -> Json:
    """A call and a text at once on ``participant_connected`` reach who has only just joined."""
    alice = await stage.join("alice")
    calls: list[asyncio.Task[Json]] = []

    async def greet(identity: str) -> Json:
        await alice.local.send_text("welcome", topic="t", destination_identities=[identity])
        answer: Json = None
        for _ in range(100):  # the SDK lets one register methods only once one is connected
            answer = await alice.ask(identity, "echo")
            if answer == "hi" or answer["code"] != 1400:
                break
            await asyncio.sleep(0.1)
        return answer

    alice.room.on("participant_connected", lambda who: calls.append(asyncio.ensure_future(greet(who.identity))))
    bob = await stage.join("bob", lambda member: member.takes_text("t"))
    bob.answers(echo=lambda call: call.payload)
    await until(lambda: calls)
    answers = await asyncio.gather(*calls)
    await until(lambda: bob.received)
    return {"answers": answers, "bob received": bob.received}


@entry
async def early_packets(stage: Stage) -> Json:
    """What one sends right after joining reaches those who are there, whether or not they were told of it."""
    alice = await stage.join("alice", lambda member: member.takes_text("t"))
    bob = await stage.join("bob")
    await bob.local.publish_data(b"first", topic="p")
    await bob.local.send_text("first", topic="t")
    await until(lambda: len(alice.received) >= 2)
    return sorted(_without_sender(alice), key=str)


def _without_sender(member: Member) -> list[Json]:
    return [received[1:] for received in member.received]  # the SDK names only those that it was told of
