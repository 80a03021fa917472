"""Who the client is, from the agent's side."""

from __future__ import annotations

import time

from livekit import rtc

from curb_client.room.sdk import STANDARD_KIND

__all__ = ["ClientRoster"]

_UNANNOUNCED_SECONDS = 10.0


class ClientRoster:
    """The participants that are taken as the client: all of kind STANDARD, or the one named.

    The server tells of a participant up to three seconds after its first request can arrive. Such a sender is taken as
    a client (its kind is not known, and those of other kinds are the host's own), and gets messages until it is either
    announced or gone for ten seconds. Name the client's identity where that is too lenient.
    """

    def __init__(self, room: rtc.Room, client_identity: str | None) -> None:
        self._room = room
        self._client_identity = client_identity
        self._unannounced: dict[str, float] = {}

    def is_client(self, identity: str) -> bool:
        """Whether a request of this participant is the client's."""
        if self._client_identity is not None and identity != self._client_identity:
            return False
        participant = self._room.remote_participants.get(identity)
        if participant is None:
            self._unannounced[identity] = time.monotonic()
            return True
        return self._client_identity is not None or participant.kind == STANDARD_KIND

    def recipients(self, to: str | None) -> list[str]:
        """The identities of the clients that are there, or of the one asked for."""
        announced = self._room.remote_participants
        oldest = time.monotonic() - _UNANNOUNCED_SECONDS
        self._unannounced = {
            identity: heard
            for identity, heard in self._unannounced.items()
            if identity not in announced and heard > oldest
        }
        there = [identity for identity in announced if self.is_client(identity)] + list(self._unannounced)
        return [identity for identity in there if to is None or identity == to]
