"""One hosted call: from the request that starts it to its last record."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from livekit import rtc

from curb_client.errors import ClosedError, ConnectFailedError, InvalidPayloadError
from curb_client.host.runner.absence import Absence
from curb_client.host.runner.agent_call import RunnerAgentCall
from curb_client.host.runner.call_record import CallRecord
from curb_client.host.runner.context import CallContext, EndCallback, Ending
from curb_client.host.runner.held import HeldMessages
from curb_client.host.runner.hosted_agent import HostedAgent
from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.host.runner.secrets import Secrets, without_user_information
from curb_client.host.runner.transfer import Transfers
from curb_client.protocol.contract import CallState, EndReason, ErrorCode
from curb_client.protocol.host_requests import HostMessage, StartCallRequest
from curb_client.protocol.host_types import LiveCall
from curb_client.protocol.types import EffectiveSettings
from curb_client.room.callbacks import call_safely
from curb_client.room.sdk import STANDARD_KIND, abandon, connect, disconnect, on_disconnected

__all__ = ["HostedCall", "current_session"]

CLEANUP_SECONDS: Final = 5.0
SLOW_START_SECONDS: Final = 10.0
_SIP_KIND: Final = rtc.ParticipantKind.PARTICIPANT_KIND_SIP

_REASONS: Final[Mapping[Any, EndReason]] = {
    rtc.DisconnectReason.ROOM_DELETED: "completed",
    rtc.DisconnectReason.ROOM_CLOSED: "caller_left",  # LiveKit closes a room that has nobody but agents
    rtc.DisconnectReason.PARTICIPANT_REMOVED: "stopped",
}
"""What the end of the room means for the call; any other is ``room_lost``."""

_logger = logging.getLogger("curb_client.host")

current_session: ContextVar[str] = ContextVar("current_session", default="")
"""The session id of the call in whose name something runs, for the log."""


class HostedCall:
    """A call that the runner holds.

    Args:
        experiments: experiment name to variant name.
        secrets: told of the call's token as long as it is in use.
        ended: called with the call and its reason when its last record is written.

    Attributes:
        state: how far it is.
        record: what it puts on record.
    """

    def __init__(
        self,
        request: StartCallRequest,
        agent: HostedAgent,
        record: CallRecord,
        *,
        experiments: Mapping[str, str],
        secrets: Secrets,
        ended: Callable[[HostedCall, str], None],
    ) -> None:
        self.session_id = request.session_id
        self.state: CallState = "starting"
        self.record = record
        self._started_at_ms = int(time.time() * 1000)
        self._url, self._token, self._direction = request.realtime_url, request.realtime_token, request.direction
        self._hosted = agent
        self._secrets = secrets
        self._tell_ended = ended
        self._room = rtc.Room()
        self._call = RunnerAgentCall(self._room, host=record, trace=record.messages, **agent.call_options)
        self._stop_waiting_for_its_end: Callable[[], None] = lambda: None
        self._ending = Ending()
        self._held = HeldMessages()
        self._changes: list[tuple[EffectiveSettings, Any]] | None = []
        self._transfers = Transfers(self._call)
        self._absence = Absence(self._room, self._caller_gone)
        self._end_callbacks: dict[object, EndCallback] = {}
        self._context = CallContext(
            request,
            experiments,
            ending=self._ending,
            record=record,
            transfers=self._transfers,
            end_callbacks=self._end_callbacks,
        )
        self._function: asyncio.Task[None] | None = None
        self._life: asyncio.Task[None] | None = None

    @property
    def end_reason(self) -> str | None:
        """Why it ends or has ended; None while it goes on."""
        return self._ending.reason

    def live(self) -> LiveCall:
        """The call as a host is told of it."""
        return LiveCall(session_id=self.session_id, state=self.state, started_at_ms=self._started_at_ms)

    def begin(self) -> None:
        """Join the room, and go on from there."""
        self._secrets.add(self._token)
        self._call.on_settings(self._settings_changed)
        self._stop_waiting_for_its_end = on_disconnected(self._room, self._room_ended)
        self._room.on("participant_connected", self._somebody_came)
        self._room.on("participant_disconnected", self._somebody_left)
        self._life = asyncio.ensure_future(self._live())

    def stop(self, reason: str, grace: float = 0.0) -> None:
        """End the call, after at most ``grace`` seconds; a stop that is sooner than the one before counts."""
        self._ending.decide(reason, grace)

    async def until_ended(self) -> None:
        """Returns when the last record is written."""
        if self._life is not None:
            await asyncio.shield(self._life)

    # From the host

    async def receive(self, message: HostMessage) -> bool:
        """Take a message; False where its id was delivered (or is held) already.

        Raises:
            RunnerRefusal: too many are held, or the call is over.
            Refusal: the agent's.
        """
        # A reply is what the function, or a handler of what is held, may be waiting for.
        goes_ahead = self._call.awaits_reply(message.in_reply_to) or self._call.has_taken(message.id)
        if self.state == "starting" and not goes_ahead:
            return self._held.hold(message)
        if not goes_ahead:
            await self._held.delivered()
        try:
            return await self._deliver(message)
        except ClosedError as error:
            raise RunnerRefusal(ErrorCode.SESSION_NOT_FOUND, str(error)) from None

    def update(self, body: Mapping[str, Any]) -> EffectiveSettings:
        """Change settings. Those of a call still starting are in force when its agent's function is called.

        Raises:
            Refusal: ``not_adjustable`` or ``invalid_settings``.
        """
        return without_user_information(self._call.update_from_host(body))

    async def _deliver(self, message: HostMessage) -> bool:
        return await self._call.receive_from_host(message.id, message.name, message.payload, message.in_reply_to)

    # From start to end

    async def _live(self) -> None:
        current_session.set(self.session_id)
        try:
            if await self._join():
                await self._talk()
        except Exception:
            _logger.exception("the call failed")
            self._end("agent_error")
        finally:
            if self._ending.reason is None:  # the loop is being ended
                self._end("runner_shutdown")
            reason = await self._ending.begun()
            try:
                await self._leave(reason)
            finally:
                self._over(reason)

    async def _join(self) -> bool:
        joining = asyncio.ensure_future(connect(self._url, self._token, room=self._room))
        if not await self._unless_ending(joining):
            abandon(joining)  # what has begun ends in the background
            return False
        try:
            joining.result()
        except ConnectFailedError as error:
            _logger.error("the room could not be joined: %s", self._secrets.hide(str(error)))
            self._end("join_failed")
            return False
        await self._call.__aenter__()
        self.record.started(self._direction)
        changes, self._changes = self._changes or [], None
        for settings, origin in changes:
            self.record.settings(settings, origin)
        return self._ending.reason is None

    async def _talk(self) -> None:
        self._function = asyncio.ensure_future(self._run_function())
        ready = asyncio.ensure_future(self._call.until_ready())
        slow = asyncio.get_running_loop().call_later(SLOW_START_SECONDS, self._slow_start)
        try:
            if not await self._unless_ending(ready):
                return
        finally:
            ready.cancel()
            slow.cancel()
        self.state = "connected"
        delivering = asyncio.ensure_future(self._held.deliver(self._deliver))
        if await self._unless_ending(delivering):
            delivering.result()
        else:
            abandon(delivering)
        await self._ending.begun()

    async def _run_function(self) -> None:
        try:
            running = self._hosted.function(self._call, self._context)
            if inspect.isawaitable(running):
                await running
            if not self._call.is_ready and self._ending.reason is None:
                await self._call.ready()
        except asyncio.CancelledError:
            if self._ending.reason is None:
                self._end("agent_error")
            raise
        except Exception as error:
            _logger.error("the agent's function failed: %s", type(error).__name__, exc_info=error)
            self._end("agent_error")

    async def _unless_ending(self, work: asyncio.Future[Any]) -> bool:
        """Whether it was done before the call had to end."""
        ending = asyncio.ensure_future(self._ending.begun())
        try:
            await asyncio.wait({work, ending}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            work.cancel()
            raise
        finally:
            ending.cancel()
        return work.done()

    async def _leave(self, reason: str) -> None:
        self.state = "ending"
        callbacks = [call_safely(callback, reason) for callback in self._end_callbacks.values()]
        cleanups = {task for task in callbacks if task is not None}
        idle = asyncio.ensure_future(self._call.until_idle())
        unfinished = {idle, *cleanups, *([self._function] if self._function is not None else [])}
        over = asyncio.ensure_future(self._ending.over())
        while unfinished and not over.done():
            done, _ = await asyncio.wait({over, *unfinished}, return_when=asyncio.FIRST_COMPLETED)
            unfinished -= done
        over.cancel()
        idle.cancel()
        if self._function is not None:
            self._function.cancel()
            await asyncio.wait({self._function}, timeout=CLEANUP_SECONDS)
        self._transfers.close()
        try:
            await self._call.aclose()
        finally:
            await disconnect(self._room)
        if cleanups:
            _, late = await asyncio.wait(cleanups, timeout=CLEANUP_SECONDS)
            for task in late:
                _logger.warning("what the agent does at the end takes too long; it is cancelled")
                task.cancel()

    def _over(self, reason: str) -> None:
        self._stop_waiting_for_its_end()
        self._absence.ends()
        self._held.drop()
        self.state = "ended"
        self._secrets.remove(self._token)
        try:
            self.record.ended(reason, self._call.undelivered_to_client, self._held.refused)
        except InvalidPayloadError:
            _logger.exception("the call's last records could not be written; it is put on record as agent_error")
            reason = "agent_error"
            self.record.ended(reason, {}, self._held.refused)
        finally:
            self._tell_ended(self, reason)

    # What happens meanwhile

    def _end(self, reason: EndReason) -> None:
        self._ending.decide(reason)

    def _slow_start(self) -> None:
        _logger.warning(
            "the agent's function has neither returned nor called ready() after %g s; until then its call is "
            "starting, and requests are refused after ten seconds",
            SLOW_START_SECONDS,
        )

    def _settings_changed(self, settings: EffectiveSettings, origin: Any) -> None:
        if self._changes is not None:
            self._changes.append((settings, origin))
        else:
            self.record.settings(settings, origin)

    def _room_ended(self, reason: Any) -> None:
        self._end(_REASONS.get(reason, "room_lost"))

    def _somebody_came(self, participant: rtc.RemoteParticipant) -> None:
        self._transfers.joined(participant)
        if self._has_caller():
            self._absence.ends()

    def _somebody_left(self, participant: rtc.RemoteParticipant) -> None:
        was_caller = self._is_caller(participant)
        self._transfers.left(participant)
        if was_caller and not self._has_caller():
            self._absence.begins(participant)

    def _caller_gone(self) -> None:
        if not self._has_caller():
            self._end("caller_left")

    def _has_caller(self) -> bool:
        return any(self._is_caller(participant) for participant in self._room.remote_participants.values())

    def _is_caller(self, participant: rtc.RemoteParticipant) -> bool:
        if self._hosted.client_identity is not None:
            return participant.identity == self._hosted.client_identity
        return participant.kind in (STANDARD_KIND, _SIP_KIND) and not self._transfers.is_target(participant.identity)
