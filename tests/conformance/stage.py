"""What the entries of the script are made of: members of a room, and what they were told."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from livekit import api, rtc

from curb_client.room import sdk
from curb_client.testing import LiveKitServerHandle

__all__ = ["ENTRIES", "QUIET", "TOLD_WITHIN", "Entry", "Json", "Member", "Stage", "digest", "entry", "outcome", "until"]

Json = Any
"""What goes into the record: objects, lists, texts, numbers, booleans and null."""
Entry = Callable[["Stage"], Awaitable[Json]]

ENTRIES: dict[str, Entry] = {}
"""By their names in the record, such as ``rpc.sizes``."""
TOLD_WITHIN = 40.0
"""Seconds in which something has to come, however busy the machine is."""
QUIET = 0.3
"""Seconds in which what must not come would have come, where the machine is not busy."""


def entry(function: Any) -> Any:
    """Makes a function an entry of the script, named after its module and itself."""
    ENTRIES[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = function
    return function


async def until(condition: Callable[[], object]) -> None:
    """Waits for what has to come, and a little for what must not; what has not come by then is not in the record."""
    end = time.monotonic() + TOLD_WITHIN
    while not condition() and time.monotonic() < end:  # noqa: ASYNC110 - a condition may be anything
        await asyncio.sleep(0.02)
    await asyncio.sleep(QUIET)


async def outcome(work: Awaitable[Any]) -> Json:
    """The result of something, or the kind of its failure."""
    try:
        return await asyncio.wait_for(work, TOLD_WITHIN)
    except rtc.RpcError as error:
        return {"code": error.code, "message": error.message, "data": error.data}
    except api.TwirpError as error:
        return {"twirp": error.code, "status": error.status}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)[:120]}


def digest(data: str | bytes) -> Json:
    """Short data as they are, long ones as their length and first character."""
    text = data.decode("latin-1") if isinstance(data, bytes) else data
    return text if len(text) <= 64 else f"{len(text)} of {text[0]!r}"


class Member:
    """A participant of an entry's room, with all that it is told."""

    def __init__(self, room: rtc.Room) -> None:
        self.room = room
        self.events: list[list[Json]] = []
        """Each with its name first."""
        self.received: list[Json] = []
        """Packets and streams."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._listen()

    @property
    def local(self) -> rtc.LocalParticipant:
        return self.room.local_participant

    def remote(self, identity: str) -> rtc.RemoteParticipant | None:
        return self.room.remote_participants.get(identity)

    def told(self, *names: str) -> list[list[Json]]:
        """The events of these names, in the order they came."""
        return [event for event in self.events if event[0] in names]

    def _listen(self) -> None:
        note = self.events.append
        on: Any = self.room.on
        on("participant_connected", lambda who: note(["connected", who.identity]))
        on("participant_disconnected", lambda who: note(["left", who.identity, reason(who.disconnect_reason)]))
        on(
            "participant_attributes_changed",
            lambda new, who: note(["attributes", who.identity, dict(sorted(new.items()))]),
        )
        # The SDK's old values are the new ones where it has handled two events together.
        on("participant_metadata_changed", lambda who, old, new: note(["metadata", who.identity, new]))
        on("participant_name_changed", lambda who, old, new: note(["name", who.identity, new]))
        on("participant_permissions_changed", lambda who, new: note(["permissions", who.identity, new.can_publish]))
        on("room_metadata_changed", lambda old, new: note(["room metadata", new]))
        on("track_published", lambda what, who: note(["published", who.identity, what.name, int(what.kind)]))
        on("track_unpublished", lambda what, who: note(["unpublished", who.identity, what.name]))
        on("track_muted", lambda who, what: note(["muted", who.identity, what.name]))
        on("track_subscribed", lambda track, what, who: note(["subscribed", who.identity, what.name]))
        on("track_unsubscribed", lambda track, what, who: note(["unsubscribed", who.identity, what.name]))
        on("data_track_published", lambda track: note(["data track", track.publisher_identity, track.info.name]))
        on("data_track_unpublished", lambda sid: note(["data track gone"]))
        on(
            "transcription_received",
            lambda segments, who, what: note(["transcription", who and who.identity, [each.text for each in segments]]),
        )
        on("reconnecting", lambda: note(["reconnecting"]))
        on("reconnected", lambda: note(["reconnected"]))
        on("disconnected", lambda why: note(["disconnected", reason(why)]))
        on("data_received", self._packet)

    def _packet(self, packet: rtc.DataPacket) -> None:
        sender = packet.participant.identity if packet.participant else None
        reliable = packet.kind == rtc.DataPacketKind.KIND_RELIABLE
        self.received.append([sender, digest(packet.data), packet.topic or "", "reliable" if reliable else "lossy"])

    def takes_text(self, topic: str) -> None:
        """Reads the text streams of a topic into ``received``."""
        self.room.register_text_stream_handler(topic, lambda reader, sender: self._do(self._read(reader, sender)))

    async def _read(self, reader: rtc.TextStreamReader, sender: str) -> None:
        content = await outcome(reader.read_all())
        text = digest(content) if isinstance(content, str) else content["error"]
        self.received.append([sender, text, reader.info.topic, dict(reader.info.attributes or {})])

    def takes_bytes(self, topic: str) -> None:
        """Reads the byte streams of a topic into ``received``."""
        self.room.register_byte_stream_handler(topic, lambda reader, sender: self._do(self._read_bytes(reader, sender)))

    async def _read_bytes(self, reader: rtc.ByteStreamReader, sender: str) -> None:
        content = b""
        try:
            async for chunk in reader:
                content += chunk
        except rtc.StreamError:
            content += b" (broken off)"
        info = reader.info
        attributes = dict(info.attributes or {})
        self.received.append([sender, digest(content), info.topic, attributes, info.name, info.mime_type, info.size])

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def answers(self, **methods: Callable[[rtc.RpcInvocationData], Any]) -> None:
        """Registers RPC methods."""
        for name, handler in methods.items():
            self.local.register_rpc_method(name, handler)

    async def ask(self, identity: str, method: str, payload: str = "hi", wait: float = 15.0) -> Json:
        """What an RPC results in: the digest of its answer, or the error."""
        call = self.local.perform_rpc(
            destination_identity=identity, method=method, payload=payload, response_timeout=wait
        )
        result = await outcome(call)
        return digest(result) if isinstance(result, str) else result


def reason(value: Any) -> str:
    """A reason's name."""
    return "none" if value is None else str(rtc.DisconnectReason.Name(value))


class Stage:
    """An entry's own room on the server."""

    def __init__(self, server: LiveKitServerHandle, room: str, stack: contextlib.AsyncExitStack) -> None:
        self.server = server
        self.room = room
        self._stack = stack
        self._api: api.LiveKitAPI | None = None

    @property
    def api(self) -> api.LiveKitAPI:
        """The server's API, with its own key."""
        if self._api is None:
            url = self.server.url.replace("ws", "http", 1)
            self._api = api.LiveKitAPI(url, self.server.api_key, self.server.api_secret)
            self._stack.push_async_callback(self._api.aclose)
        return self._api

    async def join(
        self,
        identity: str,
        prepare: Callable[[Member], None] = lambda member: None,
        options: rtc.RoomOptions | None = None,
        **token: Any,
    ) -> Member:
        """A new member; ``prepare`` gets it before it connects."""
        member = Member(rtc.Room())
        prepare(member)
        access = self.server.token(identity, self.room, **token)
        await sdk.connect(self.server.url, access, room=member.room, options=options)
        self._stack.push_async_callback(sdk.disconnect, member.room)
        return member

    async def cast(self, *identities: str, **token: Any) -> list[Member]:
        """Members that see each other, and have been told nothing since."""
        members = [await self.join(identity, **token) for identity in identities]
        await self.acquaint(*members)
        return members

    async def acquaint(self, *members: Member) -> None:
        """Waits until these members see each other, and forgets what they were told until then."""
        names = {member.local.identity for member in members}
        await until(
            lambda: all(is_seen(member, name) for member in members for name in names - {member.local.identity})
        )
        for member in members:
            member.events.clear()
            member.received.clear()


def is_seen(member: Member, identity: str) -> bool:
    """Whether a member sees somebody who can receive data."""
    other = member.remote(identity)
    return other is not None and sdk.is_active(other)
