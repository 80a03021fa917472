"""Dispatches: which agents a room wants, the jobs of bringing them there, and ``livekit.AgentDispatchService``.

As of livekit-server, but that a dispatch which was asked for is not lost when no worker is there to take it: it waits
for one. The dispatch that a room makes of its own, for workers without a name, does not, or each such worker would come
to all the rooms that others have left open.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from aiohttp import web
from livekit.protocol import agent, models
from livekit.protocol import agent_dispatch as api
from livekit.protocol.room import RoomConfiguration

from curb_client.testing.embedded.context import Context, Timers
from curb_client.testing.embedded.joins import MAX_METADATA_BYTES, MAX_NAME, Claims, RefusedError, sign
from curb_client.testing.embedded.participant import Participant
from curb_client.testing.embedded.requests import limit_exceeded
from curb_client.testing.embedded.rooms import Room, Rooms, RoomWatcher
from curb_client.testing.embedded.twirp import Method, Service, TwirpError
from curb_client.testing.embedded.workers import Worker, Workers, WorkerWatcher

__all__ = ["Dispatches"]

ANSWER_WITHIN: Final = 10.0
"""Seconds for a worker to say whether it takes a job."""
LEAVE_WITHIN: Final = 3.0
"""Seconds for an agent whose dispatch was deleted to leave; then it is removed."""
WAITS_FOR: Final = 60.0
"""Seconds that a dispatch waits for a worker: what one test has left behind should not busy the next one's."""
REFUSED_FOR: Final = 15.0
"""Seconds in which an agent may come late from a job that was ended."""
TOKEN_LASTS: Final = 3600.0
AGENT_NAME_ATTRIBUTE: Final = "lk.agent_name"
_ENDED: Final = (agent.JS_SUCCESS, agent.JS_FAILED)
_COMES_BACK: Final = (models.DUPLICATE_IDENTITY, models.SERVER_SHUTDOWN, models.MIGRATION)
"""Ends of an agent's stay after which the same client joins once more."""


@dataclass(eq=False)
class _Job:
    info: agent.Job
    dispatch: _Dispatch
    worker: Worker
    is_offered: bool = True
    """Whether the worker has still to answer."""
    is_orphan: bool = False
    """Whether it is over only because its worker has gone, and may come back."""

    @property
    def has_ended(self) -> bool:
        return self.info.state.status in _ENDED

    def set_status(self, status: agent.JobStatus, error: str = "") -> None:
        state = self.info.state
        state.status, state.error, state.updated_at = status, error, time.time_ns()
        state.ended_at = state.updated_at if status in _ENDED else 0


@dataclass(eq=False)
class _Dispatch:
    info: api.AgentDispatch
    room: Room
    waits_until: float
    """By the monotonic clock; 0 to be lost where nobody takes it at once."""
    jobs: list[_Job] = field(default_factory=list)
    """Those that a worker has taken."""
    offer: _Job | None = None
    asked: set[str] = field(default_factory=set)
    """The ids of the workers that did not want it."""
    is_over: bool = False
    """Whether it asks nobody any more."""

    def listed(self) -> api.AgentDispatch:
        listed = api.AgentDispatch()
        listed.CopyFrom(self.info)
        listed.state.jobs.extend(job.info for job in self.jobs)
        return listed


class Dispatches(RoomWatcher, WorkerWatcher):
    """All dispatches of one server, and its workers."""

    def __init__(self, context: Context, rooms: Rooms) -> None:
        self._context = context
        self._rooms = rooms
        self._by_room: dict[Room, dict[str, _Dispatch]] = {}
        self._workers: dict[str, Worker] = {}
        self._jobs: dict[str, _Job] = {}
        """By id: offered, taken, and ended until their dispatch is."""
        self._late: dict[_Job, float] = {}
        """Jobs that ended before their agent had joined, and until when it is refused, by the monotonic clock."""
        self._offers = 0
        self._timers = Timers()
        rooms.watcher = self

    def add_routes(self, app: web.Application) -> None:
        Workers(self._context, self).add_routes(app)
        _dispatch_service(self._context, self._rooms, self).add_routes(app)
        app.on_shutdown.append(self._close)

    async def _close(self, app: web.Application) -> None:  # noqa: ARG002
        self._timers.cancel_all()

    # Dispatches

    def add(self, room: Room, wanted: api.CreateAgentDispatchRequest, *, waits: bool = True) -> api.AgentDispatch:
        """Makes a dispatch, and looks for a worker soon: its room may still be about to get its metadata."""
        info = api.AgentDispatch(
            id=f"AD_{secrets.token_hex(6)}",
            agent_name=wanted.agent_name,
            room=room.info.name,
            metadata=wanted.metadata,
            restart_policy=wanted.restart_policy,
            deployment=wanted.deployment,
            attributes=wanted.attributes,
            state=api.AgentDispatchState(created_at=time.time_ns()),
        )
        dispatch = _Dispatch(info, room, time.monotonic() + WAITS_FOR if waits else 0.0)
        self._by_room.setdefault(room, {})[info.id] = dispatch
        self._timers.set(info.id, 0.0, lambda: self._seek(dispatch))
        return dispatch.listed()

    def listed(self, room: Room, dispatch_id: str) -> list[api.AgentDispatch]:
        """The room's dispatches, or the one of this id."""
        return [each.listed() for id_, each in self._by_room.get(room, {}).items() if dispatch_id in ("", id_)]

    def delete(self, room: Room, dispatch_id: str) -> api.AgentDispatch | None:
        """Ends a dispatch and its jobs; None where there is none."""
        dispatch = self._by_room.get(room, {}).pop(dispatch_id, None)
        if dispatch is None:
            return None
        self._end(dispatch, "its dispatch was deleted")
        return dispatch.listed()

    def _end(self, dispatch: _Dispatch, why: str) -> None:
        dispatch.is_over = True
        self._timers.cancel(dispatch.info.id)
        if dispatch.offer is not None:
            self._withdraw(dispatch.offer)
        for job in dispatch.jobs:
            self._jobs.pop(job.info.id, None)
            if not job.has_ended:
                self._terminate(job, agent.JS_SUCCESS, why)
                self._wait_until_left(job)

    # Offers

    def _seek(self, dispatch: _Dispatch) -> None:
        """Offers a dispatch to the next worker; where there is none it waits, or is lost."""
        if dispatch.is_over or dispatch.offer is not None:
            return
        worker = self._next_worker(dispatch)
        if worker is None:
            name, room = dispatch.info.agent_name, dispatch.room.info.name
            dispatch.is_over = dispatch.waits_until < time.monotonic()
            if dispatch.waits_until:
                fate = "is lost" if dispatch.is_over else "waits"
                self._context.journal.write(f"no worker takes the agent {name!r} to {room}: the dispatch {fate}")
            return
        job = self._job(dispatch, worker)
        dispatch.offer = self._jobs[job.info.id] = job
        self._offers += 1
        worker.last_offer = self._offers
        worker.send(agent.ServerMessage(availability=agent.AvailabilityRequest(job=job.info)))
        self._timers.set(job.info.id, ANSWER_WITHIN, lambda: self._refused(job))

    def _next_worker(self, dispatch: _Dispatch) -> Worker | None:
        wanted = (dispatch.info.agent_name, dispatch.info.deployment)
        fit = [
            worker
            for worker in self._workers.values()
            if worker.type == agent.JT_ROOM
            and (worker.agent_name, worker.deployment) == wanted
            and worker.is_available
            and worker.id not in dispatch.asked
        ]
        return min(fit, key=lambda worker: (self._count_jobs(worker), worker.last_offer), default=None)

    def _count_jobs(self, worker: Worker) -> int:
        return sum(job.worker is worker and not job.has_ended for job in self._jobs.values())

    def _job(self, dispatch: _Dispatch, worker: Worker) -> _Job:
        now, wanted = time.time_ns(), dispatch.info
        info = agent.Job(
            id=f"AJ_{secrets.token_hex(6)}",
            dispatch_id=wanted.id,
            type=agent.JT_ROOM,
            room=dispatch.room.info,
            agent_name=wanted.agent_name,
            metadata=wanted.metadata,
            deployment=wanted.deployment,
            attributes=wanted.attributes,
            state=agent.JobState(status=agent.JS_RUNNING, worker_id=worker.id, started_at=now, updated_at=now),
        )
        return _Job(info, dispatch, worker)

    def _withdraw(self, job: _Job) -> None:
        """Whatever the worker answers, it does not get the job."""
        self._timers.cancel(job.info.id)
        self._jobs.pop(job.info.id, None)
        job.dispatch.offer = None

    def _refused(self, job: _Job) -> None:
        self._withdraw(job)
        job.dispatch.asked.add(job.worker.id)
        self._seek(job.dispatch)

    def answered(self, worker: Worker, answer: agent.AvailabilityResponse) -> None:
        job = self._jobs.get(answer.job_id)
        if job is None or job.worker is not worker or not job.is_offered:
            return  # withdrawn, or the answer comes too late
        if not (answer.available or answer.terminate):
            self._refused(job)
            return
        dispatch = job.dispatch
        self._timers.cancel(job.info.id)
        dispatch.offer, dispatch.is_over, job.is_offered = None, True, False
        dispatch.jobs.append(job)
        if answer.terminate:
            job.set_status(agent.JS_SUCCESS)
            return
        identity = answer.participant_identity or f"agent-{job.info.id}"
        job.info.state.participant_identity = identity
        claims = self._claims(job, identity, answer)
        assignment = agent.JobAssignment(job=job.info, token=sign(claims, self._context.key))
        worker.send(agent.ServerMessage(assignment=assignment))
        self._context.journal.write(f"worker {worker.id} takes the job {job.info.id} in {job.info.room.name}")

    def _claims(self, job: _Job, identity: str, answer: agent.AvailabilityResponse) -> Claims:
        video = {"roomJoin": True, "agent": True, "room": job.info.room.name}
        claims = Claims(
            identity=identity,
            name=answer.participant_name,
            kind=models.ParticipantInfo.AGENT,
            metadata=answer.participant_metadata,
            attributes={**answer.participant_attributes, AGENT_NAME_ATTRIBUTE: job.worker.agent_name},
            video=video,
            expires=time.time() + TOKEN_LASTS,
        ).with_permission(job.worker.permissions)
        return replace(claims, video={**claims.video, **video})

    # Jobs

    def _terminate(self, job: _Job, status: agent.JobStatus, why: str) -> None:
        job.worker.send(agent.ServerMessage(termination=agent.JobTermination(job_id=job.info.id)))
        job.set_status(status, "" if status == agent.JS_SUCCESS else why)
        self._context.journal.write(f"job {job.info.id} ended: {why}")

    def _wait_until_left(self, job: _Job) -> None:
        """Sees to it that the agent of an ended job leaves, or does not come."""
        room = job.dispatch.room
        participant = room.participants.get(job.info.state.participant_identity)
        if participant is None:
            self._late[job] = time.monotonic() + REFUSED_FOR
        else:
            removal = partial(room.remove, participant, models.PARTICIPANT_REMOVED)
            self._timers.set(f"{job.info.id} leaves", LEAVE_WITHIN, removal)

    def _running(self, room: Room, identity: str) -> Iterator[_Job]:
        for dispatch in self._by_room.get(room, {}).values():
            for job in dispatch.jobs:
                if job.info.state.participant_identity == identity and not job.has_ended:
                    yield job

    def job_updated(self, worker: Worker, update: agent.UpdateJobStatus) -> None:
        job = self._jobs.get(update.job_id)
        if job is None or job.is_offered:
            return
        if job.worker is not worker:
            if not job.is_orphan:
                return
            job.worker, job.info.state.worker_id = worker, worker.id  # it has lost its connection, and the job has not
        elif job.has_ended and update.status not in _ENDED:
            return
        job.is_orphan = False
        job.set_status(update.status, update.error)

    # Workers

    def registered(self, worker: Worker) -> None:
        self._workers[worker.id] = worker
        # written as livekit-server does, for those who wait for it in its log
        self._context.journal.write(
            f'worker registered\t{{"agentName": "{worker.agent_name}", "workerID": "{worker.id}"}}'
        )
        self.available(worker)

    def available(self, worker: Worker) -> None:
        for dispatch in self._waiting():
            dispatch.asked.discard(worker.id)
            self._seek(dispatch)

    def _waiting(self) -> list[_Dispatch]:
        now = time.monotonic()
        every = [each for dispatches in self._by_room.values() for each in dispatches.values()]
        return [each for each in every if not each.is_over and each.offer is None and now < each.waits_until]

    def gone(self, worker: Worker) -> None:
        self._workers.pop(worker.id, None)
        for job in [job for job in self._jobs.values() if job.worker is worker]:
            if job.is_offered:
                self._refused(job)
            elif not job.has_ended:
                job.is_orphan = True
                job.set_status(agent.JS_FAILED, "the connection of its worker has ended")
        self._context.journal.write(f"worker {worker.id} of the agent {worker.agent_name!r} is gone")

    # Rooms

    def room_made(self, room: Room, config: RoomConfiguration) -> None:
        if not config.agents:
            self.add(room, api.CreateAgentDispatchRequest(), waits=False)
        for each in config.agents:
            wanted = api.CreateAgentDispatchRequest(
                agent_name=each.agent_name,
                metadata=each.metadata,
                restart_policy=each.restart_policy,
                deployment=each.deployment,
                attributes=each.attributes,
            )
            self.add(room, wanted)

    def room_closed(self, room: Room) -> None:
        for dispatch in self._by_room.pop(room, {}).values():
            self._end(dispatch, "its room was closed")

    def joins(self, room: Room, claims: Claims) -> None:
        if any(self._running(room, claims.identity)):
            return
        now = time.monotonic()
        self._late = {job: until for job, until in self._late.items() if now < until}
        names = {(job.info.room.name, job.info.state.participant_identity) for job in self._late}
        if claims.kind == models.ParticipantInfo.AGENT and (room.info.name, claims.identity) in names:
            raise RefusedError(401, "the job of this agent has ended")

    def left(self, participant: Participant, reason: models.DisconnectReason) -> None:
        if reason in _COMES_BACK:
            return
        for job in self._running(participant.room, participant.identity):
            self._terminate(job, agent.JS_FAILED, "agent worker left the room")


def _dispatch_service(context: Context, rooms: Rooms, dispatches: Dispatches) -> Service:
    calls = _DispatchService(rooms, dispatches)
    return Service(
        context,
        "livekit.AgentDispatchService",
        {
            "CreateDispatch": Method(api.CreateAgentDispatchRequest, calls.create),
            "ListDispatch": Method(api.ListAgentDispatchRequest, calls.list),
            "DeleteDispatch": Method(api.DeleteAgentDispatchRequest, calls.delete),
        },
    )


class _DispatchService:
    def __init__(self, rooms: Rooms, dispatches: Dispatches) -> None:
        self._rooms = rooms
        self._dispatches = dispatches

    def create(self, claims: Claims, request: api.CreateAgentDispatchRequest) -> api.AgentDispatch:
        _require_admin(claims, request.room)
        if not request.room or len(request.room.encode()) > MAX_NAME:
            raise TwirpError("invalid_argument", f"the room's name is empty, or longer than {MAX_NAME} bytes")
        limit = limit_exceeded("", "", dict(request.attributes))
        if limit or len(request.metadata.encode()) > MAX_METADATA_BYTES:
            raise TwirpError("invalid_argument", limit or "metadata size exceeds limits")
        return self._dispatches.add(self._rooms.get_or_create(request.room), request)

    def list(self, claims: Claims, request: api.ListAgentDispatchRequest) -> api.ListAgentDispatchResponse:
        _require_admin(claims, request.room)
        listed = self._dispatches.listed(self._room(request.room), request.dispatch_id)
        return api.ListAgentDispatchResponse(agent_dispatches=listed)

    def delete(self, claims: Claims, request: api.DeleteAgentDispatchRequest) -> api.AgentDispatch:
        _require_admin(claims, request.room)
        deleted = self._dispatches.delete(self._room(request.room), request.dispatch_id)
        if deleted is None:
            raise TwirpError("not_found", "dispatch ID not found")
        return deleted

    def _room(self, name: str) -> Room:
        room = self._rooms.get(name)
        if room is None:
            raise TwirpError("not_found", "requested room does not exist")
        return room


def _require_admin(claims: Claims, room: str) -> None:
    if not (claims.grants("roomAdmin") and claims.room == room):
        raise TwirpError("unauthenticated", "permissions denied")
