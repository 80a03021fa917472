"""The HTTP side of joining: ``/rtc``, ``/rtc/v1`` and their ``validate``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import hdrs, web
from livekit.protocol import models, rtc

from curb_client.testing.embedded.context import Context
from curb_client.testing.embedded.fault_table import Who
from curb_client.testing.embedded.joins import Join, RefusedError, read_join
from curb_client.testing.embedded.participant import Participant
from curb_client.testing.embedded.rooms import Rooms
from curb_client.testing.embedded.signal_socket import SignalSocket

__all__ = ["Signalling", "bearer_token"]

ANY_ORIGIN: Final = {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*"}
"""Without it a browser tells its page of a failure, and not of which."""


def bearer_token(request: web.Request) -> str:
    """The token of a request, from its header or its URL; may be empty.

    Raises:
        RefusedError: the header is no bearer's.
    """
    header = request.headers.get(hdrs.AUTHORIZATION, "")
    if header and not header.startswith("Bearer "):
        raise RefusedError(401, "invalid authorization header. Must start with Bearer ")
    return header.removeprefix("Bearer ") or request.query.get("access_token", "")


class Signalling:
    """Lets participants in."""

    def __init__(self, context: Context, rooms: Rooms) -> None:
        self._context = context
        self._rooms = rooms
        self.is_open = True
        """Whether anybody is let in; not any more while the server stops."""

    def add_routes(self, app: web.Application) -> None:
        for path, serve in (("/rtc", self._serve_v0), ("/rtc/v1", self._serve_v1)):
            app.router.add_get(path, serve)
        for path, validate in (("/rtc/validate", self._validate_v0), ("/rtc/v1/validate", self._validate_v1)):
            app.router.add_get(path, validate)

    async def _serve_v0(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self._serve, wrapped=False)

    async def _serve_v1(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self._serve, wrapped=True)

    async def _validate_v0(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self._validate, wrapped=False)

    async def _validate_v1(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self._validate, wrapped=True)

    async def _answer(
        self,
        request: web.Request,
        answer: Callable[[web.Request, Join], Awaitable[web.StreamResponse]],
        *,
        wrapped: bool,
    ) -> web.StreamResponse:
        try:
            join = read_join(bearer_token(request), request.query, self._context.key, wrapped=wrapped)
            return await answer(request, join)
        except RefusedError as refused:
            self._context.journal.write(f"{request.path} refused with {refused.status}: {refused.text}")
            return web.Response(status=refused.status, text=refused.text, headers=ANY_ORIGIN)

    async def _validate(self, request: web.Request, join: Join) -> web.StreamResponse:  # noqa: ARG002
        return web.Response(text="success", headers=ANY_ORIGIN)

    async def _serve(self, request: web.Request, join: Join) -> web.StreamResponse:
        if request.headers.get(hdrs.UPGRADE, "").lower() != "websocket":
            raise RefusedError(404, "this is for websockets")
        if self._context.faults.joins:
            await self._check_faults(request, join)
        if not self.is_open:
            raise RefusedError(503, "the server is being stopped")
        socket = SignalSocket(self._context.journal)
        participant = self.admit(join, socket)
        if participant is None:
            return await socket.serve(request, lambda _: None)
        socket.owner = repr(participant)
        try:
            return await socket.serve(request, participant.signal_in)
        finally:
            participant.signal_lost(socket)

    async def _check_faults(self, request: web.Request, join: Join) -> None:
        """Returns when nothing holds the join any more; RefusedError where a fault refuses it."""
        status = await self._context.faults.join(Who(join.claims.identity, join.claims.room))
        if status:
            raise RefusedError(status, "a fault refuses this join")
        if request.transport is None or request.transport.is_closing():
            raise RefusedError(408, "the client has given up meanwhile")  # to nobody

    def admit(self, join: Join, socket: SignalSocket) -> Participant | None:
        """Every join and every resume: the participant that it makes or goes on with.

        None where there is nobody to go on with: the client is told to come back in another session.

        Raises:
            RefusedError: the room is full, or a scenario wants a resume to fail.
        """
        claims = join.claims
        if not join.reconnect:
            return self._rooms.for_joining(claims).join(join, socket)
        room = self._rooms.get(claims.room)
        participant = room.participants.get(claims.identity) if room else None
        if participant is None or join.sid not in ("", participant.sid) or not participant.can_resume:
            leave = rtc.LeaveRequest(reason=models.STATE_MISMATCH, action=rtc.LeaveRequest.RECONNECT)
            leave.can_reconnect = True  # for old clients, which do not know actions
            socket.send(rtc.SignalResponse(leave=leave))
            socket.close()
            self._context.journal.write(f"{claims.room}/{claims.identity} cannot resume: no such session any more")
            return None
        if not participant.resume(socket):
            raise RefusedError(500, "a scenario wants this resume to fail")
        return participant
