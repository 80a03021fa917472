"""What a participant publishes: tracks are accepted and announced, and their media discarded."""

from __future__ import annotations

import secrets
from typing import Final

from livekit.protocol import models, rtc

from curb_client.testing.embedded.sdp import Offer, Section

__all__ = ["Subscriptions", "Tracks"]

_PREFIXES: Final = {
    models.TrackSource.CAMERA: "TR_VC",
    models.TrackSource.MICROPHONE: "TR_AM",
    models.TrackSource.SCREEN_SHARE: "TR_VS",
    models.TrackSource.SCREEN_SHARE_AUDIO: "TR_AS",
}
_SECTIONS: Final = {models.TrackType.AUDIO: "audio", models.TrackType.VIDEO: "video"}


class Tracks:
    """The tracks of one participant: asked for with ``add_track``, published once an offer sends them."""

    def __init__(self) -> None:
        self._pending: dict[str, models.TrackInfo] = {}
        """By the client's own id."""
        self._published: dict[str, models.TrackInfo] = {}
        """By the section that carries them, its mid."""
        self.subscribed: set[str] = set()
        """The sids of those whose publisher knows that somebody subscribed to them."""

    @property
    def infos(self) -> list[models.TrackInfo]:
        """Those that the others are told of."""
        return list(self._published.values())

    def without_subscriber(self) -> list[str]:
        """The sids of those whose publisher has not been told of a subscriber."""
        return [info.sid for info in self.infos if info.sid not in self.subscribed]

    def knows(self, sid: str) -> bool:
        """Whether there is such a track, published or about to be."""
        return any(info.sid == sid for info in (*self._pending.values(), *self._published.values()))

    def add(self, request: rtc.AddTrackRequest) -> models.TrackInfo | None:
        """The track that a request makes; None where its kind cannot be."""
        if request.type not in _SECTIONS:
            return None
        known = next((info for info in self._published.values() if info.sid == request.sid), None)
        if known is not None:  # another codec for the same track
            return known
        info = models.TrackInfo(
            sid=f"{_PREFIXES.get(request.source, 'TR_')}{secrets.token_hex(6)}",
            type=request.type,
            name=request.name,
            muted=request.muted,
            width=request.width,
            height=request.height,
            disable_dtx=request.disable_dtx,
            source=request.source,
            layers=request.layers,
            stereo=request.stereo,
            disable_red=request.disable_red,
            encryption=request.encryption,
            stream=request.stream,
            backup_codec_policy=request.backup_codec_policy,
            audio_features=request.audio_features,
            codecs=[models.SimulcastCodecInfo(cid=request.cid, layers=request.layers)],
        )
        self._pending[request.cid] = info
        return info

    def offered(self, offer: Offer) -> bool:
        """Takes over what an offer sends and what it does not send any more; returns whether anything changed."""
        sending = {section.mid: section for section in offer.sections if section.sends}
        gone = [mid for mid in self._published if mid not in sending]
        for mid in gone:
            self.subscribed.discard(self._published.pop(mid).sid)
        changed = bool(gone)
        for mid, section in sending.items():
            if mid not in self._published and (info := self._take_pending(section)) is not None:
                info.mid = mid
                self._published[mid] = info
                changed = True
        return changed

    def _take_pending(self, section: Section) -> models.TrackInfo | None:
        if section.track_id in self._pending:
            return self._pending.pop(section.track_id)
        for cid, info in self._pending.items():  # some clients send a track under another id than they announced
            if _SECTIONS[info.type] == section.kind:
                return self._pending.pop(cid)
        return None

    def mute(self, sid: str, muted: bool) -> bool:
        """Returns whether that changed a track."""
        for info in (*self._pending.values(), *self._published.values()):
            if info.sid == sid and info.muted != muted:
                info.muted = muted
                return True
        return False

    def clear(self) -> list[models.TrackInfo]:
        """Takes all published tracks away; returns them."""
        infos = self.infos
        self._published.clear()
        self._pending.clear()
        self.subscribed.clear()
        return infos


class Subscriptions:
    """The tracks of others that one participant wants: no media come of it, but a publisher waits to hear of it."""

    def __init__(self, to_all: bool) -> None:
        self._to_all = to_all
        self._exceptions: set[str] = set()

    def change(self, update: rtc.UpdateSubscription) -> None:
        """Takes over what a client says of some tracks."""
        sids = {*update.track_sids, *(sid for each in update.participant_tracks for sid in each.track_sids)}
        if update.subscribe == self._to_all:
            self._exceptions -= sids
        else:
            self._exceptions |= sids

    def include(self, sid: str) -> bool:
        """Whether this track is among them."""
        return (sid in self._exceptions) != self._to_all
