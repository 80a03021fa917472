"""An embedded server that fuzz targets hand their input to, in a loop that runs while they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

from aiortc.rtcdatachannel import RTCDataChannel, RTCDataChannelParameters
from aiortc.rtcdtlstransport import RTCDtlsTransport
from livekit.protocol import models, rtc

from curb_client.testing.embedded.dispatch import Dispatches
from curb_client.testing.embedded.dispatch import _dispatch_service as dispatch_service
from curb_client.testing.embedded.joins import ApiKey, Claims, Join
from curb_client.testing.embedded.journal import Journal
from curb_client.testing.embedded.node import Node
from curb_client.testing.embedded.options import Options
from curb_client.testing.embedded.participant import Participant
from curb_client.testing.embedded.room_service import room_service
from curb_client.testing.embedded.signal_socket import SignalSocket
from curb_client.testing.embedded.transport import _Sctp as Sctp
from curb_client.testing.embedded.transport import certificate

__all__ = ["KEY", "VERIFICATION_TAG", "Fuzzed"]

KEY: Final = ApiKey("key", "s" * 40)
VERIFICATION_TAG: Final = 0x01020304
_RENEW_AFTER: Final = 500
"""Inputs that one participant takes."""
_EVERY_GRANT: Final = ("roomJoin", "roomCreate", "roomList", "roomAdmin", "canUpdateOwnMetadata")


class _Nowhere(RTCDtlsTransport):
    """A transport whose client is not there."""

    def __init__(self) -> None:
        super().__init__(cast(Any, _NoIce()), [certificate()])

    async def _send_data(self, data: bytes) -> None:
        """Gone."""


class _NoIce:
    role, state = "controlled", "completed"


class Fuzzed:
    """One a process: :meth:`get`."""

    _one: ClassVar[Fuzzed | None] = None

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._problems: list[dict[str, Any]] = []
        self._loop.set_exception_handler(lambda _, context: self._problems.append(context))
        self._journal = Journal()
        start = Node.start(KEY.name, KEY.secret, Options(), self._journal)
        self._node = self._loop.run_until_complete(start)
        context, rooms = self._node.context, self._node.rooms
        self._services = (
            room_service(context, rooms),
            dispatch_service(context, rooms, Dispatches(context, rooms)),
        )
        self._count = 0

    @classmethod
    def get(cls) -> Fuzzed:
        if cls._one is None:
            cls._one = cls()
        return cls._one

    @classmethod
    def end(cls) -> None:
        """Stops it, where there is one."""
        fuzzed, cls._one = cls._one, None
        if fuzzed is not None:
            fuzzed._loop.run_until_complete(fuzzed._node.stop(told=False))
            fuzzed._loop.close()

    def signal(self, request: rtc.SignalRequest) -> None:
        """A participant sends it."""
        self._run(lambda: self._participant().signal_in(request))

    def message(self, label: str, data: bytes) -> None:
        """A participant sends it on a data channel."""
        self._run(lambda: self._participant().message_in(label, data))

    def call(self, method: str, body: bytes, *, is_json: bool) -> None:
        """Both services are asked; raises the refusal of the second."""
        claims = self._claims("api")
        service = self._services[method.endswith("Dispatch")]
        self._run(lambda: (self._participant(), service._call(method, claims, body, is_json)))

    def sctp(self, *packets: bytes) -> None:
        """Packets of an association that is up, where something waits to be acknowledged."""

        async def take() -> None:
            sctp = Sctp(_Nowhere(), self._participant(), self._journal)
            sctp._local_verification_tag = sctp._remote_verification_tag = VERIFICATION_TAG
            sctp._last_received_tsn, sctp._last_sacked_tsn, sctp._local_tsn = 0, 0, 1
            sctp._remote_port = 5000
            sctp._set_state(sctp.State.ESTABLISHED)
            RTCDataChannel(sctp, RTCDataChannelParameters(label="_reliable", negotiated=True, id=0))
            for _ in range(3):
                await sctp._send(0, 53, b"something")
            try:
                for packet in packets:
                    await sctp._handle_data(packet)
            except ConnectionError:
                pass  # as the server ends such a transport
            finally:
                sctp.give_up()

        self._loop.run_until_complete(take())
        self._look()

    def _run(self, work: Callable[[], object]) -> None:
        async def run() -> None:
            work()
            await asyncio.sleep(0)

        self._loop.run_until_complete(run())
        self._look()

    def _look(self) -> None:
        problems, self._problems = self._problems, []
        assert not problems, problems

    def _claims(self, identity: str) -> Claims:
        video = {**dict.fromkeys(_EVERY_GRANT, True), "room": "a-room"}
        return Claims(identity, identity, models.ParticipantInfo.STANDARD, "", {}, video)

    def _participant(self) -> Participant:
        self._count += 1
        rooms = self._node.rooms
        if self._count % _RENEW_AFTER == 0:
            for room in rooms.all():
                room.close(models.ROOM_DELETED, told=False)
        for identity in ("caller", "alice"):
            room = rooms.for_joining(self._claims(identity))
            if identity not in room.participants:
                client = models.ClientInfo(protocol=16)
                join = Join(
                    self._claims(identity), client, reconnect=False, sid="", offer=None, tracks=(), subscribes=True
                )
                participant = room.join(join, SignalSocket(self._journal))
                participant.info.state = models.ParticipantInfo.ACTIVE
        return room.participants["alice"]
