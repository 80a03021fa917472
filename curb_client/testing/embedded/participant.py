"""A participant: its state, its signalling, its data, and the ways in which its stay ends."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError
from livekit.protocol import models, rtc

from curb_client.testing.embedded import requests, sdp
from curb_client.testing.embedded.context import SERVER_INFO, Context, Timers
from curb_client.testing.embedded.data_link import DataLink
from curb_client.testing.embedded.fault_table import Who
from curb_client.testing.embedded.joins import Claims, Join, sign
from curb_client.testing.embedded.routing import LOSSY, RELIABLE, Routed
from curb_client.testing.embedded.signal_socket import SignalSocket
from curb_client.testing.embedded.tracks import Subscriptions, Tracks
from curb_client.testing.embedded.transport import Transport

if TYPE_CHECKING:
    from curb_client.testing.embedded.rooms import Room

__all__ = ["Participant"]

AFTER_A_LOST_TRANSPORT: Final = 5.0
"""Seconds to resume, at most, where the transport was lost first."""
LEAVE_FOLLOWS_WITHIN: Final = 1.0
"""Seconds for the word of a client that closes its transport: it may leave, and take both ways at once."""
REFRESH_TOKEN_EVERY: Final = 300.0
LEAVE_HAS_ACTIONS: Final = 13
"""The protocol from which on a client understands what a leave message asks of it."""
_DEPENDENT: Final = (models.ParticipantInfo.AGENT, models.ParticipantInfo.EGRESS)


class Participant:
    """Somebody in a room; one session of it, which outlives its signalling connection for a while."""

    def __init__(self, context: Context, room: Room, join: Join) -> None:
        now = time.time()
        claims = join.claims
        self.context = context
        self.room = room
        self.claims = claims
        self.client = join.client
        self.info = models.ParticipantInfo(
            sid=f"PA_{secrets.token_hex(6)}",
            identity=claims.identity,
            name=claims.name,
            metadata=claims.metadata,
            attributes=claims.attributes,
            kind=claims.kind,
            state=models.ParticipantInfo.JOINING,
            joined_at=int(now),
            joined_at_ms=int(now * 1000),
            permission=claims.permission,
            client_protocol=join.client.client_protocol,
            capabilities=join.client.capabilities,
        )
        self.tracks = Tracks()
        self.subscriptions = Subscriptions(join.subscribes)
        self.timers = Timers()
        self.transport = Transport(context.udp, self, context.journal)
        self.transport.ice.owner = self.who
        self._data = DataLink(context, self.who, repr(self), self.transport, self._deliver)
        self._data.identify(self.info)
        self.cut_next_resume: requests.CutResume | None = None
        self.is_closed = False
        self.is_dead = False
        """Whether a fault has killed it: nothing that it may still say is heard."""
        self._socket: SignalSocket | None = None
        self._client_closes = False
        """Told to begin another session: a client that also sees the connection close may resume the old one."""
        self._last_signal = time.monotonic()

    def __repr__(self) -> str:
        return f"{self.room.info.name}/{self.identity} ({self.sid})"

    @property
    def sid(self) -> str:
        return self.info.sid

    @property
    def identity(self) -> str:
        return self.info.identity

    @property
    def who(self) -> Who:
        """For the faults."""
        return Who(self.identity, self.room.info.name)

    @property
    def protocol(self) -> int:
        """The version of LiveKit's protocol that the client speaks."""
        return self.client.protocol

    @property
    def is_active(self) -> bool:
        """Whether its data channels have opened."""
        return self.info.state == models.ParticipantInfo.ACTIVE

    @property
    def can_resume(self) -> bool:
        """Whether another signalling connection is all that it needs to go on."""
        return not self.transport.has_ended

    @property
    def is_dependent(self) -> bool:
        """Whether a room without anybody else counts as empty."""
        return self.depends(self.claims)

    @staticmethod
    def depends(claims: Claims) -> bool:
        """:attr:`is_dependent`, before the join."""
        return claims.kind in _DEPENDENT or claims.grants("agent") or claims.grants("recorder")

    # Signalling

    def signal_in(self, request: rtc.SignalRequest) -> None:
        """Every signalling message that it sends."""
        if self.context.faults.signals:
            self.context.faults.signal(self.who, lambda: self._take_signal(request))
        else:
            self._take_signal(request)

    def _take_signal(self, request: rtc.SignalRequest) -> None:
        if self.is_dead:
            return
        self._last_signal = time.monotonic()
        requests.handle(self, request)

    def signal_out(self, response: rtc.SignalResponse) -> None:
        """Every signalling message that it is sent; lost where it has no connection."""
        if self.context.faults.signals:
            self.context.faults.signal(self.who, lambda: self._send_signal(response))
        else:
            self._send_signal(response)

    def _send_signal(self, response: rtc.SignalResponse) -> None:
        if self._socket is not None:
            self._socket.send(response)

    def tell(self, infos: Iterable[models.ParticipantInfo]) -> None:
        """Tells it of participants."""
        update = rtc.ParticipantUpdate(participants=infos)
        if update.participants:
            self.signal_out(rtc.SignalResponse(update=update))

    def attach(self, socket: SignalSocket) -> None:
        """Gives it a signalling connection, instead of the one that it may have."""
        if self._socket is not None:
            self._socket.close()
        self._socket = socket
        self._last_signal = time.monotonic()

    def drop_socket(self) -> None:
        """Closes its connection, so that the client resumes; it has so long for it."""
        if self._socket is not None:
            self._socket.close()
            self.signal_lost(self._socket)

    def abort_socket(self) -> None:
        """Cuts its connection, as if the server had died."""
        if self._socket is not None:
            self._socket.abort()

    def signal_lost(self, socket: SignalSocket) -> None:
        """Its connection has ended without a leave."""
        if self.is_closed or socket is not self._socket:
            return
        self._socket = None
        if not self.is_active or self.transport.has_ended:
            self.room.remove(self, models.SIGNAL_CLOSE)
            return
        self._wait_for_resume(self.context.options.resume_within)

    def _wait_for_resume(self, seconds: float) -> None:
        self.context.journal.write(f"{self!r} lost its connection, and may resume within {seconds:g} s")
        self.timers.set("resume", seconds, lambda: self.room.remove(self, models.CONNECTION_TIMEOUT))

    # The beginning, and going on

    def begin(self, join: Join) -> None:
        """What follows the join message."""
        self.info.state = models.ParticipantInfo.JOINED
        for request in join.tracks:
            requests.add_track(self, request)
        if join.offer is not None:
            self.answer(join.offer)
        self.refresh_token()
        self.timers.set("join", self.context.options.join_timeout, lambda: self.room.remove(self, models.JOIN_FAILURE))
        kind = models.ParticipantInfo.Kind.Name(self.info.kind)
        sdk = models.ClientInfo.SDK.Name(self.client.sdk)
        self.context.journal.write(f"{self!r} joined as {kind}, with {sdk} {self.client.version}")

    def resume(self, socket: SignalSocket) -> bool:
        """Goes on with another connection; returns False where a scenario wants it refused."""
        cut, self.cut_next_resume = requests.take_cut(self)
        if cut == "before":
            return False
        away_since = self._last_signal
        self.attach(socket)
        self.timers.cancel("resume")
        self.transport.ice.last_heard = time.monotonic()
        self.watch_transport()
        reconnect = rtc.ReconnectResponse(server_info=SERVER_INFO, last_message_seq=self._data.last_sequence)
        self.signal_out(rtc.SignalResponse(reconnect=reconnect))
        present = self.room.participants
        self.tell(info for info in self.room.updates.departed_since(away_since) if info.identity not in present)
        self.tell(self.room.visible() if not self.info.permission.hidden else [*self.room.visible(), self.info])
        self.signal_out(rtc.SignalResponse(room_update=rtc.RoomUpdate(room=self.room.info)))
        self.context.journal.write(f"{self!r} resumed")
        if cut == "after":
            self.drop_socket()
        return True

    def answer(self, description: rtc.SessionDescription) -> None:
        """Answers an offer; one that makes no sense gets no answer, as of livekit-server."""
        try:
            offer = sdp.parse_offer(description.sdp)
        except sdp.SdpError as error:
            self.context.journal.once("offers that made no sense", f"{self!r}: {error}")
            return
        self.transport.offered(offer)
        text = sdp.answer(offer, self.transport.local)
        self.signal_out(rtc.SignalResponse(answer=rtc.SessionDescription(type="answer", sdp=text, id=description.id)))
        if self.tracks.offered(offer):
            self.tracks_changed()

    def refresh_token(self) -> None:
        """Gives it a token that says what is so now: with it, it reconnects as what it has become."""
        claims = replace(
            self.claims,
            name=self.info.name,
            metadata=self.info.metadata,
            attributes=dict(self.info.attributes),
        )
        self.signal_out(rtc.SignalResponse(refresh_token=sign(claims, self.context.key)))
        self.timers.set("token", REFRESH_TOKEN_EVERY, self.refresh_token)

    # What is known of it

    def change(
        self,
        *,
        name: str = "",
        metadata: str = "",
        attributes: Mapping[str, str] | None = None,
        permission: models.ParticipantPermission | None = None,
    ) -> None:
        """Changes what is given; an attribute without a value goes away."""
        self.info.name = name or self.info.name
        self.info.metadata = metadata or self.info.metadata
        for key, value in (attributes or {}).items():
            if value:
                self.info.attributes[key] = value
            else:
                self.info.attributes.pop(key, None)
        if permission is not None:
            self.claims = self.claims.with_permission(permission)
            self.info.permission.CopyFrom(permission)
            self._data.identify(self.info)
            if not permission.can_publish:
                self._take_tracks_away()
        self.room.updates.changed(self, immediate=True, to_self=True)
        self.refresh_token()

    def _take_tracks_away(self) -> None:
        self.info.is_publisher = False
        for info in self.tracks.clear():
            gone = rtc.TrackUnpublishedResponse(track_sid=info.sid)
            self.signal_out(rtc.SignalResponse(track_unpublished=gone))
        self.info.ClearField("tracks")

    def tracks_changed(self) -> None:
        """Tells the others what it publishes now."""
        self.info.ClearField("tracks")
        self.info.tracks.extend(self.tracks.infos)
        self.info.is_publisher = self.info.is_publisher or bool(self.info.tracks)
        self.room.updates.changed(self)
        self.room.tell_of_subscribers()

    def subscribes_to(self, sid: str) -> bool:
        """Whether it would receive this track, if there were media."""
        return self.is_active and self.info.permission.can_subscribe and self.subscriptions.include(sid)

    # Data

    def channel_opened(self, label: str) -> None:  # noqa: ARG002 - any of them may be the last
        if self.is_closed or self.is_active or not self._data.has_open_channels:
            return
        self.info.state = models.ParticipantInfo.ACTIVE
        self.timers.cancel("join")
        self.watch_transport()
        self._data.open()
        self.room.updates.changed(self)
        self.room.tell_of_subscribers()

    def message_in(self, label: str, data: bytes) -> None:
        if self.is_closed or label not in (RELIABLE, LOSSY):
            return
        try:
            packet = models.DataPacket.FromString(data)
        except DecodeError:
            self.context.journal.once("data packets that made no sense", f"{self!r} sent a packet that is none")
            return
        self.packet_in(packet, label)

    def packet_in(self, packet: models.DataPacket, label: str) -> None:
        """Every data packet that it sends; ``label`` is the channel that it came on."""
        self._data.take(packet, label)

    def packet_out(self, routed: Routed) -> None:
        """Every data packet that it is sent."""
        self._data.send(routed)

    def _deliver(self, routed: Routed) -> None:
        self.room.route(routed, self)

    # The transport

    def transport_ended(self) -> None:
        if self.is_closed:
            return
        if self._socket is None:
            self.room.remove(self, models.CONNECTION_TIMEOUT)
            return
        self.timers.set("leave", LEAVE_FOLLOWS_WITHIN, lambda: self.start_anew(models.CONNECTION_TIMEOUT))

    def watch_transport(self) -> None:
        """Looks now, and again when it may have been silent for too long."""
        silent = time.monotonic() - self.transport.ice.last_heard
        left = self.context.options.transport_timeout - silent
        if left > 0:
            self.timers.set("transport", left, self.watch_transport)
        else:
            self.ask_to_resume(f"was silent for {silent:.1f} s")

    def ask_to_resume(self, why: str) -> None:
        """Tells the client to resume, for the reason that the journal gets, and closes its connection."""
        self.context.journal.write(f"{self!r} {why}, and is asked to resume")
        self.tell_leave(models.CONNECTION_TIMEOUT, rtc.LeaveRequest.RESUME)
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()
        self._wait_for_resume(min(AFTER_A_LOST_TRANSPORT, self.context.options.resume_within))

    # The end

    def tell_leave(self, reason: models.DisconnectReason, action: rtc.LeaveRequest.Action) -> None:
        """Tells it to leave, and what to do then."""
        leave = rtc.LeaveRequest(reason=reason)
        if self.protocol >= LEAVE_HAS_ACTIONS:
            leave.action = action
        elif action == rtc.LeaveRequest.RESUME:
            return
        else:
            leave.can_reconnect = action == rtc.LeaveRequest.RECONNECT
        self.signal_out(rtc.SignalResponse(leave=leave))

    def start_anew(self, reason: models.DisconnectReason) -> None:
        """Has the client come back in another session."""
        self.tell_leave(reason, rtc.LeaveRequest.RECONNECT)
        self._client_closes = True
        self.room.remove(self, reason, told=False)

    def die(self) -> None:
        """As if the client's process had been killed: it stays away, and its session waits for it in vain."""
        self.transport.ice.close()  # first, so that its goodbye to the transport is not heard either
        self.tell_leave(models.CLIENT_INITIATED, rtc.LeaveRequest.DISCONNECT)
        self.is_dead = True
        self.drop_socket()

    def close(self, reason: models.DisconnectReason, *, told: bool) -> None:
        """The room's part of the end: :meth:`Room.remove` does the rest."""
        self.is_closed = True
        self.timers.cancel_all()
        if told:
            self.tell_leave(reason, rtc.LeaveRequest.DISCONNECT)
        self.info.state = models.ParticipantInfo.DISCONNECTED
        self.info.disconnect_reason = reason
        self.context.journal.write(f"{self!r} left: {models.DisconnectReason.Name(reason)}")
        socket, self._socket = self._socket, None
        if socket is not None and not self._client_closes:
            socket.close()
        self.context.spawn(self._end_transport(socket))

    async def _end_transport(self, socket: SignalSocket | None) -> None:
        if socket is not None:  # a client whose transport ends before it knows why would try to get it back
            await socket.wait_until_ended(0.5)
            socket.close()
        await self.transport.close()
