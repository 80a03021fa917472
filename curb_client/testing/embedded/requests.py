"""What a participant may ask for over its signalling connection, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from livekit.protocol import models, rtc

from curb_client.testing.embedded.joins import MAX_ATTRIBUTES_BYTES, MAX_METADATA_BYTES, MAX_NAME

if TYPE_CHECKING:
    from curb_client.testing.embedded.participant import Participant

__all__ = ["CutResume", "add_track", "handle", "take_cut"]

TELLS_SUCCESS: Final = 15
"""The protocol from which on a client expects to hear of a request that went well."""
SCENARIO_SECONDS: Final = 5.0
RESUMES_CUT: Final = 3

_LEAVE_REASONS: Final = (
    models.USER_UNAVAILABLE,
    models.USER_REJECTED,
    models.AGENT_ERROR,
)
"""What a client may give as its reason, besides that it wanted to."""


def handle(participant: Participant, request: rtc.SignalRequest) -> None:
    """Does what a message asks for; nothing where we do not know it or have no media for it."""
    kind = request.WhichOneof("message")
    if participant.is_closed or kind not in _HANDLERS:
        return
    _HANDLERS[kind](participant, getattr(request, kind))


def _offer(participant: Participant, offer: rtc.SessionDescription) -> None:
    participant.answer(offer)


def _ping(participant: Participant, _: int) -> None:
    participant.signal_out(rtc.SignalResponse(pong=_now_ms()))


def _ping_req(participant: Participant, ping: rtc.Ping) -> None:
    pong = rtc.Pong(last_ping_timestamp=ping.timestamp, timestamp=_now_ms())
    participant.signal_out(rtc.SignalResponse(pong_resp=pong))


def _now_ms() -> int:
    return int(time.time() * 1000)


def _leave(participant: Participant, leave: rtc.LeaveRequest) -> None:
    reason = leave.reason if leave.reason in _LEAVE_REASONS else models.CLIENT_INITIATED
    participant.room.remove(participant, reason)


# What is known of the participant


def _update_metadata(participant: Participant, update: rtc.UpdateParticipantMetadata) -> None:
    response = rtc.RequestResponse(request_id=update.request_id, update_metadata=update)
    limit = limit_exceeded(update.name, update.metadata, dict(update.attributes))
    if not participant.info.permission.can_update_metadata:
        response.reason = rtc.RequestResponse.NOT_ALLOWED
        response.message = "does not have permission to update own metadata"
    elif limit:
        response.reason = rtc.RequestResponse.LIMIT_EXCEEDED
        response.message = limit
    elif update.name or update.metadata or update.attributes:
        participant.change(name=update.name, metadata=update.metadata, attributes=dict(update.attributes))
    _respond(participant, response)


def limit_exceeded(name: str, metadata: str, attributes: dict[str, str]) -> str:
    """What is too large of what a participant is to be known by; empty where nothing is."""
    if len(name.encode()) > MAX_NAME:
        return "exceeds name length limit"
    if len(metadata.encode()) > MAX_METADATA_BYTES:
        return "exceeds metadata size limit"
    if sum(len(key.encode()) + len(value.encode()) for key, value in attributes.items()) > MAX_ATTRIBUTES_BYTES:
        return "exceeds attributes size limit"
    return ""


def _respond(participant: Participant, response: rtc.RequestResponse) -> None:
    if response.reason != rtc.RequestResponse.OK or participant.protocol >= TELLS_SUCCESS:
        participant.signal_out(rtc.SignalResponse(request_response=response))


# Tracks


def add_track(participant: Participant, request: rtc.AddTrackRequest) -> None:
    permission = participant.info.permission
    sources = permission.can_publish_sources
    response = rtc.RequestResponse(add_track=request)
    if not permission.can_publish or (sources and request.source not in sources):
        response.reason = rtc.RequestResponse.NOT_ALLOWED
    elif (info := participant.tracks.add(request)) is None:
        response.reason = rtc.RequestResponse.UNSUPPORTED_TYPE
    else:
        published = rtc.TrackPublishedResponse(cid=request.cid, track=info)
        participant.signal_out(rtc.SignalResponse(track_published=published))
        return
    _respond(participant, response)


def _mute(participant: Participant, request: rtc.MuteTrackRequest) -> None:
    if participant.tracks.mute(request.sid, request.muted):
        participant.tracks_changed()


def _subscription(participant: Participant, update: rtc.UpdateSubscription) -> None:
    participant.subscriptions.change(update)
    participant.room.tell_of_subscribers()


def _publish_data_track(participant: Participant, request: rtc.PublishDataTrackRequest) -> None:
    response = rtc.RequestResponse(
        publish_data_track=request,
        reason=rtc.RequestResponse.UNSUPPORTED_TYPE,
        message="the embedded server carries no data tracks",
    )
    _respond(participant, response)


def _sync_state(participant: Participant, state: rtc.SyncState) -> None:
    if not all(participant.tracks.knows(published.track.sid) for published in state.publish_tracks):
        participant.start_anew(models.STATE_MISMATCH)


# Scenarios: what a client asks for to see what it does


@dataclass
class CutResume:
    """Whether the next resume is cut short."""

    when: Literal["before", "after"]
    """The first message of it, or the last."""
    until: float
    times: int = 1


def take_cut(participant: Participant) -> tuple[Literal["", "before", "after"], CutResume | None]:
    """What happens to a resume now, and what is left for the next one."""
    cut = participant.cut_next_resume
    if cut is None or time.monotonic() > cut.until:
        return "", None
    left = CutResume(cut.when, cut.until, cut.times - 1)
    return cut.when, left if left.times else None


def _simulate(participant: Participant, request: rtc.SimulateScenario) -> None:
    scenario = request.WhichOneof("scenario")
    room = participant.room
    participant.context.journal.write(f"{participant!r} asks for {scenario}")
    if scenario == "server_leave":
        room.remove(participant, models.SERVER_SHUTDOWN)
    elif scenario == "node_failure":
        room.remove(participant, models.SERVER_SHUTDOWN, told=False)
    elif scenario == "migration":
        room.remove(participant, models.MIGRATION, told=False)
    elif scenario == "leave_request_full_reconnect":
        participant.start_anew(models.CLIENT_INITIATED)
    elif scenario == "disconnect_signal_on_resume":
        participant.cut_next_resume = CutResume("after", time.monotonic() + SCENARIO_SECONDS)
    elif scenario == "disconnect_signal_on_resume_no_messages":
        participant.cut_next_resume = CutResume("before", time.monotonic() + SCENARIO_SECONDS, RESUMES_CUT)
    elif scenario == "speaker_update":
        speaker = models.SpeakerInfo(sid=participant.sid, active=True, level=0.9)
        participant.signal_out(rtc.SignalResponse(speakers_changed=rtc.SpeakersChanged(speakers=[speaker])))


_HANDLERS: Final[dict[str | None, Callable[[Participant, Any], None]]] = {
    "offer": _offer,
    "ping": _ping,
    "ping_req": _ping_req,
    "leave": _leave,
    "update_metadata": _update_metadata,
    "add_track": add_track,
    "mute": _mute,
    "subscription": _subscription,
    "publish_data_track_request": _publish_data_track,
    "sync_state": _sync_state,
    "simulate": _simulate,
}
