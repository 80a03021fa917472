"""``livekit.RoomService``, as far as it is needed to arrange and to end what happens in rooms."""

from __future__ import annotations

from livekit.protocol import models, rtc
from livekit.protocol import room as api

from curb_client.testing.embedded.context import Context
from curb_client.testing.embedded.joins import MAX_METADATA_BYTES, MAX_NAME, Claims
from curb_client.testing.embedded.participant import Participant
from curb_client.testing.embedded.requests import limit_exceeded
from curb_client.testing.embedded.rooms import Room, Rooms
from curb_client.testing.embedded.routing import LOSSY, RELIABLE
from curb_client.testing.embedded.twirp import Method, Service, TwirpError

__all__ = ["room_service"]


def room_service(context: Context, rooms: Rooms) -> Service:
    """The service for these rooms."""
    calls = _RoomService(rooms)
    return Service(
        context,
        "livekit.RoomService",
        {
            "CreateRoom": Method(api.CreateRoomRequest, calls.create_room),
            "ListRooms": Method(api.ListRoomsRequest, calls.list_rooms),
            "DeleteRoom": Method(api.DeleteRoomRequest, calls.delete_room),
            "ListParticipants": Method(api.ListParticipantsRequest, calls.list_participants),
            "GetParticipant": Method(api.RoomParticipantIdentity, calls.get_participant),
            "RemoveParticipant": Method(api.RoomParticipantIdentity, calls.remove_participant),
            "UpdateParticipant": Method(api.UpdateParticipantRequest, calls.update_participant),
            "UpdateRoomMetadata": Method(api.UpdateRoomMetadataRequest, calls.update_room_metadata),
            "MutePublishedTrack": Method(api.MuteRoomTrackRequest, calls.mute_published_track),
            "SendData": Method(api.SendDataRequest, calls.send_data),
        },
    )


class _RoomService:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def create_room(self, claims: Claims, request: api.CreateRoomRequest) -> models.Room:
        _require(claims.grants("roomCreate"))
        _check_room(request)
        config = api.RoomConfiguration(
            empty_timeout=request.empty_timeout,
            departure_timeout=request.departure_timeout,
            max_participants=request.max_participants,
            metadata=request.metadata,
            agents=request.agents,
        )
        return self._rooms.get_or_create(request.name, config).info

    def list_rooms(self, claims: Claims, request: api.ListRoomsRequest) -> api.ListRoomsResponse:
        _require(claims.grants("roomList"))
        names = set(request.names)
        rooms = [room.info for room in self._rooms.all() if not names or room.info.name in names]
        return api.ListRoomsResponse(rooms=rooms)

    def delete_room(self, claims: Claims, request: api.DeleteRoomRequest) -> api.DeleteRoomResponse:
        _require(claims.grants("roomCreate"))
        self._room(request.room).close(models.ROOM_DELETED)
        return api.DeleteRoomResponse()

    def list_participants(self, claims: Claims, request: api.ListParticipantsRequest) -> api.ListParticipantsResponse:
        _require(_is_admin(claims, request.room))
        room = self._rooms.get(request.room)
        people = room.participants.values() if room else ()
        return api.ListParticipantsResponse(participants=[participant.info for participant in people])

    def get_participant(self, claims: Claims, request: api.RoomParticipantIdentity) -> models.ParticipantInfo:
        _require(_is_admin(claims, request.room))
        return self._participant(request.room, request.identity).info

    def remove_participant(self, claims: Claims, request: api.RoomParticipantIdentity) -> api.RemoveParticipantResponse:
        _require(_is_admin(claims, request.room))
        participant = self._participant(request.room, request.identity)
        participant.room.remove(participant, models.PARTICIPANT_REMOVED)
        return api.RemoveParticipantResponse()

    def update_participant(self, claims: Claims, request: api.UpdateParticipantRequest) -> models.ParticipantInfo:
        _require(_is_admin(claims, request.room))
        limit = limit_exceeded(request.name, request.metadata, dict(request.attributes))
        if limit:
            raise TwirpError("invalid_argument", limit)
        participant = self._participant(request.room, request.identity)
        participant.change(
            name=request.name,
            metadata=request.metadata,
            attributes=dict(request.attributes),
            permission=request.permission if request.HasField("permission") else None,
        )
        return participant.info

    def mute_published_track(self, claims: Claims, request: api.MuteRoomTrackRequest) -> api.MuteRoomTrackResponse:
        _require(_is_admin(claims, request.room))
        participant = self._participant(request.room, request.identity)
        if not request.muted:
            raise TwirpError("failed_precondition", "remote unmute not enabled")
        track = next((track for track in participant.tracks.infos if track.sid == request.track_sid), None)
        mute = rtc.MuteTrackRequest(sid=request.track_sid, muted=True)
        participant.signal_out(rtc.SignalResponse(mute=mute))
        if participant.tracks.mute(request.track_sid, True):
            participant.tracks_changed()
        return api.MuteRoomTrackResponse(track=track)

    def update_room_metadata(self, claims: Claims, request: api.UpdateRoomMetadataRequest) -> models.Room:
        _require(_is_admin(claims, request.room))
        if len(request.metadata.encode()) > MAX_METADATA_BYTES:
            raise TwirpError("invalid_argument", "metadata size exceeds limits")
        room = self._room(request.room)
        room.change_metadata(request.metadata)
        return room.info

    def send_data(self, claims: Claims, request: api.SendDataRequest) -> api.SendDataResponse:
        _require(_is_admin(claims, request.room))
        if len(request.nonce) not in (0, 16):
            raise TwirpError("invalid_argument", f"the nonce has {len(request.nonce)} bytes; give 16 or none")
        packet = models.DataPacket(
            destination_identities=request.destination_identities,
            user=models.UserPacket(
                payload=request.data,
                topic=request.topic if request.HasField("topic") else None,
                nonce=request.nonce,
                destination_sids=request.destination_sids,
                destination_identities=request.destination_identities,
            ),
        )
        label = LOSSY if request.kind == models.DataPacket.LOSSY else RELIABLE
        self._room(request.room).send_data(packet, label)
        return api.SendDataResponse()

    def _room(self, name: str) -> Room:
        room = self._rooms.get(name)
        if room is None:
            raise TwirpError("not_found", "requested room does not exist")
        return room

    def _participant(self, room: str, identity: str) -> Participant:
        found = self._rooms.get(room)
        participant = found.participants.get(identity) if found else None
        if participant is None:
            raise TwirpError("not_found", "participant does not exist")
        return participant


def _check_room(request: api.CreateRoomRequest) -> None:
    if len(request.name.encode()) > MAX_NAME:
        raise TwirpError("invalid_argument", f"the room's name is longer than {MAX_NAME} bytes")
    metadata = (request.metadata, *(each.metadata for each in request.agents))
    if any(len(each.encode()) > MAX_METADATA_BYTES for each in metadata):
        raise TwirpError("invalid_argument", "metadata size exceeds limits")
    for each in request.agents:
        if limit := limit_exceeded("", "", dict(each.attributes)):
            raise TwirpError("invalid_argument", limit)
    if request.room_preset:
        raise TwirpError("invalid_argument", "room_preset is set; the embedded server has no presets")
    if request.HasField("egress"):
        raise TwirpError("unimplemented", "egress is set; the embedded server records nothing")


def _require(granted: bool) -> None:
    if not granted:
        raise TwirpError("unauthenticated", "permissions denied")


def _is_admin(claims: Claims, room: str) -> bool:
    return claims.grants("roomAdmin") and claims.room == room
