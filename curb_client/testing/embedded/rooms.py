"""Rooms: who is in them, what goes from one to the others, and when they end."""

from __future__ import annotations

import secrets
import time
from typing import Final

from google.protobuf import json_format
from livekit.protocol import models, rtc
from livekit.protocol.room import RoomConfiguration

from curb_client.testing.embedded.context import SERVER_INFO, Context, Timers
from curb_client.testing.embedded.joins import Claims, Join, RefusedError
from curb_client.testing.embedded.participant import Participant
from curb_client.testing.embedded.routing import NonceMemory, Routed, addressed, is_for
from curb_client.testing.embedded.signal_socket import SignalSocket
from curb_client.testing.embedded.updates import Updates

__all__ = ["Room", "RoomWatcher", "Rooms"]

PING_INTERVAL: Final = 5
PING_TIMEOUT: Final = 15
"""Seconds; what clients are told to keep."""
SUBSCRIPTION_TAKES: Final = 0.05
"""Seconds. Where media flow, a subscription takes longer; a client that hears of one at once has not yet noted its
own track."""


class Room:
    """A room and its participants."""

    def __init__(self, context: Context, rooms: Rooms, name: str, config: RoomConfiguration) -> None:
        now = time.time()
        self._empty_timeout = config.empty_timeout or context.options.empty_timeout
        self._departure_timeout = config.departure_timeout or context.options.departure_timeout
        self.info = models.Room(
            sid=f"RM_{secrets.token_hex(6)}",
            name=name,
            empty_timeout=int(self._empty_timeout),
            departure_timeout=int(self._departure_timeout),
            max_participants=config.max_participants,
            metadata=config.metadata,
            creation_time=int(now),
            creation_time_ms=int(now * 1000),
        )
        self.participants: dict[str, Participant] = {}
        """By identity."""
        self.updates = Updates(self, context.options.state_batch)
        self.is_closed = False
        self._context = context
        self._rooms = rooms
        self._nonces = NonceMemory()
        self._timers = Timers()
        self._was_joined = False
        self._wait_for_end(self._empty_timeout)

    def change_metadata(self, metadata: str) -> None:
        """Changes what is known of the room, and tells everybody at once."""
        self.info.metadata = metadata
        self.updates.room_changed(immediate=True)

    # Joining and leaving

    def join(self, join: Join, socket: SignalSocket) -> Participant:
        """Lets somebody in; who had the same identity has to leave.

        Raises:
            RefusedError: the room is full.
        """
        self._rooms.watcher.joins(self, join.claims)
        before = self.participants.get(join.claims.identity)
        if before is not None:
            self.remove(before, models.DUPLICATE_IDENTITY)
        self._check_for_place(join)
        participant = Participant(self._context, self, join)
        self.participants[participant.identity] = participant
        self._count()
        participant.attach(socket)
        participant.signal_out(rtc.SignalResponse(join=self._join_response(participant)))
        participant.begin(join)
        if not participant.is_dependent:
            self._was_joined = True
            self._timers.cancel("end")
        self.updates.changed(participant)
        self.updates.room_changed()
        return participant

    def _check_for_place(self, join: Join) -> None:
        independent = sum(not participant.is_dependent for participant in self.participants.values())
        if 0 < self.info.max_participants <= independent and not Participant.depends(join.claims):
            raise RefusedError(503, "room has exceeded its max participants")

    def _join_response(self, participant: Participant) -> rtc.JoinResponse:
        return rtc.JoinResponse(
            room=self.info,
            participant=participant.info,
            other_participants=[info for info in self.visible() if info.sid != participant.sid],
            server_version=SERVER_INFO.version,
            server_info=SERVER_INFO,
            ping_interval=PING_INTERVAL,
            ping_timeout=PING_TIMEOUT,
            subscriber_primary=False,  # we have no media to offer: the client's own connection carries everything
            fast_publish=participant.info.permission.can_publish,
            sif_trailer=secrets.token_bytes(8),
        )

    def visible(self) -> list[models.ParticipantInfo]:
        """Everybody that the others may know of."""
        return [each.info for each in self.participants.values() if not each.info.permission.hidden]

    def remove(self, participant: Participant, reason: models.DisconnectReason, *, told: bool = True) -> None:
        """Ends a participant's stay.

        Args:
            reason: why, for itself and for the others.
            told: whether itself is told, with the request to stay away.
        """
        if participant.is_closed:
            return
        if self.participants.get(participant.identity) is participant:
            del self.participants[participant.identity]
        participant.close(reason, told=told)
        self._rooms.watcher.left(participant, reason)
        self._count()
        if self.is_closed:  # everybody leaves
            return
        self.updates.changed(participant)
        self.updates.room_changed()
        if all(each.is_dependent for each in self.participants.values()):
            self._wait_for_end(self._departure_timeout if self._was_joined else self._empty_timeout)

    def _count(self) -> None:
        people = self.participants.values()
        self.info.num_participants = sum(not each.is_dependent for each in people)
        self.info.num_publishers = sum(each.info.is_publisher for each in people)

    def _wait_for_end(self, seconds: float) -> None:
        self._timers.set("end", seconds, lambda: self.close(models.ROOM_CLOSED))

    def close(self, reason: models.DisconnectReason, *, told: bool = True) -> None:
        """Ends the room; whoever is in it is told why, unless ``told`` is false."""
        if self.is_closed:
            return
        self.is_closed = True
        self._timers.cancel_all()
        for participant in list(self.participants.values()):
            self.remove(participant, reason, told=told)
        self.updates.close()
        self._rooms.discard(self)
        self._context.journal.write(f"room {self.info.name} closed: {models.DisconnectReason.Name(reason)}")

    # Tracks

    def tell_of_subscribers(self) -> None:
        """Tells publishers, once of each track, that somebody subscribed to it: an agent does not speak before."""
        self._timers.set("subscribers", SUBSCRIPTION_TAKES, self._tell_of_subscribers)

    def _tell_of_subscribers(self) -> None:
        everybody = list(self.participants.values())
        for publisher in everybody:
            others = [each for each in everybody if each is not publisher]
            for sid in publisher.tracks.without_subscriber():
                if any(each.subscribes_to(sid) for each in others):
                    publisher.tracks.subscribed.add(sid)
                    publisher.signal_out(rtc.SignalResponse(track_subscribed=rtc.TrackSubscribed(track_sid=sid)))

    # Data

    def route(self, routed: Routed, sender: Participant | None) -> None:
        """Hands a packet to those it is for; never back to its sender."""
        packet = routed.packet
        if self._nonces.is_repeat(packet):
            return
        for participant in list(self.participants.values()):
            if participant is not sender and is_for(packet, participant.identity, participant.sid):
                participant.packet_out(routed)

    def send_data(self, packet: models.DataPacket, label: str) -> None:
        """Hands out a packet that comes from no participant."""
        self.route(addressed(packet, label), None)


class RoomWatcher:
    """Who wants to know what becomes of rooms."""

    def room_made(self, room: Room, config: RoomConfiguration) -> None:
        """Nobody is in it yet."""

    def room_closed(self, room: Room) -> None:
        """Everybody has left it."""

    def joins(self, room: Room, claims: Claims) -> None:
        """Somebody is about to join; raises RefusedError where that may not be."""

    def left(self, participant: Participant, reason: models.DisconnectReason) -> None:
        """Somebody's stay has ended."""


class Rooms:
    """The rooms of one server, by name."""

    def __init__(self, context: Context) -> None:
        self.watcher = RoomWatcher()
        self._context = context
        self._rooms: dict[str, Room] = {}

    def all(self) -> list[Room]:
        return list(self._rooms.values())

    def get(self, name: str) -> Room | None:
        return self._rooms.get(name)

    def get_or_create(self, name: str, config: RoomConfiguration | None = None) -> Room:
        """The room; made where there is none, as ``config`` has it. One that is there stays as it is."""
        room = self._rooms.get(name)
        if room is None:
            config = config or RoomConfiguration()
            room = self._rooms[name] = Room(self._context, self, name, config)
            self.watcher.room_made(room, config)
        return room

    def for_joining(self, claims: Claims) -> Room:
        """The room of a token; made where there is none, as the token's ``roomConfig`` has it."""
        config = RoomConfiguration()
        try:
            json_format.ParseDict(dict(claims.room_config), config, ignore_unknown_fields=True)
        except json_format.ParseError as error:
            self._context.journal.once("room configurations that made no sense", f"roomConfig: {error}")
            config.Clear()
        return self.get_or_create(claims.room, config)

    def discard(self, room: Room) -> None:
        if self._rooms.get(room.info.name) is room:
            del self._rooms[room.info.name]
            self.watcher.room_closed(room)
