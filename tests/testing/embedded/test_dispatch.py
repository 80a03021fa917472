"""Workers that register at the embedded server, the jobs that they get, and the dispatches behind them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from livekit import api
from livekit.protocol import agent, agent_dispatch, models
from livekit.protocol.room import RoomConfiguration

from curb_client import connect_room
from curb_client.testing._dispatch import dispatched, registrations_in
from curb_client.testing.embedded import EmbeddedServer
from curb_client.testing.embedded import dispatch as dispatch_module
from tests.testing.embedded.conftest import ROOM, Stage, events, until
from tests.testing.embedded.test_room_service import livekit, refusal

__all__ = ["livekit"]  # a fixture


class RawWorker:
    """A worker without livekit-agents: it says what a test tells it to say."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self.socket = socket
        self.id = ""

    async def send(self, **message: Any) -> None:
        await self.socket.send_bytes(agent.WorkerMessage(**message).SerializeToString())

    async def receive(self, kind: str, within: float = 5.0) -> Any:
        """The next message, which has to be of this kind."""
        message = agent.ServerMessage.FromString(await self.socket.receive_bytes(timeout=within))
        assert message.WhichOneof("message") == kind
        return getattr(message, kind)

    async def hears_nothing(self, within: float = 0.15) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await self.socket.receive(timeout=within)

    async def answer(self, job: agent.Job, **answer: Any) -> None:
        await self.send(availability=agent.AvailabilityResponse(job_id=job.id, **answer))

    async def offered(self) -> agent.Job:
        job: agent.Job = (await self.receive("availability")).job
        return job

    async def take(self, identity: str = "an-agent") -> agent.JobAssignment:
        """Takes the job that it is offered next."""
        await self.answer(await self.offered(), available=True, participant_identity=identity)
        assignment: agent.JobAssignment = await self.receive("assignment")
        return assignment


def agent_token(server: EmbeddedServer, **grants: Any) -> str:
    token = api.AccessToken(server.api_key, server.api_secret)
    return token.with_grants(api.VideoGrants(**grants)).to_jwt()


@contextlib.asynccontextmanager
async def worker(server: EmbeddedServer, name: str = "quotes") -> AsyncIterator[RawWorker]:
    url = server.url.replace("ws", "http", 1) + "/agent"
    headers = {"Authorization": f"Bearer {agent_token(server, agent=True)}"}
    async with aiohttp.ClientSession() as session, session.ws_connect(url, headers=headers) as socket:
        raw = RawWorker(socket)
        await raw.send(register=agent.RegisterWorkerRequest(type=agent.JT_ROOM, agent_name=name))
        raw.id = (await raw.receive("register")).worker_id
        yield raw


async def create(livekit: api.LiveKitAPI, name: str = "quotes", room: str = ROOM) -> agent_dispatch.AgentDispatch:
    request = api.CreateAgentDispatchRequest(agent_name=name, room=room, metadata="m")
    return await livekit.agent_dispatch.create_dispatch(request)


async def jobs(livekit: api.LiveKitAPI, name: str = "quotes", room: str = ROOM) -> list[agent.Job]:
    listed = await livekit.agent_dispatch.list_dispatch(room)
    return [job for each in listed if each.agent_name == name for job in each.state.jobs]


async def test_a_job_from_its_offer_to_its_end(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    async with worker(server) as raw:
        made = await create(livekit)
        assert (made.agent_name, made.room, made.metadata, len(made.state.jobs)) == ("quotes", ROOM, "m", 0)
        assignment = await raw.take()
        job = assignment.job
        assert (job.dispatch_id, job.room.name, job.metadata, job.type) == (made.id, ROOM, "m", agent.JT_ROOM)
        async with connect_room(server.url, assignment.token) as room:
            me = room.local_participant
            assert (me.identity, me.attributes["lk.agent_name"]) == ("an-agent", "quotes")
            assert int(me.kind) == int(models.ParticipantInfo.AGENT)
            [listed] = await jobs(livekit)
            assert (listed.state.status, listed.state.worker_id) == (agent.JS_RUNNING, raw.id)
            await raw.send(update_job=agent.UpdateJobStatus(job_id=job.id, status=agent.JS_SUCCESS))
            await raw.send(ping=agent.WorkerPing(timestamp=7))
            assert (await raw.receive("pong")).last_timestamp == 7
            [listed] = await jobs(livekit)
            assert listed.state.status == agent.JS_SUCCESS
            assert listed.state.ended_at > 0


async def test_a_dispatch_waits_for_its_worker(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    await create(livekit)
    async with worker(server, "other") as other, worker(server) as raw:
        await raw.take()
        await other.hears_nothing()
        assert len(await jobs(livekit)) == 1
    assert len(registrations_in(server.log_tail(100), "quotes")) == 1


async def test_a_deleted_dispatch_ends_its_job(
    livekit: api.LiveKitAPI, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_module, "LEAVE_WITHIN", 0.1)
    async with worker(stage.server) as raw:
        made = await create(livekit)
        assignment = await raw.take()
        async with connect_room(stage.server.url, assignment.token) as room:
            gone = events(room, "disconnected")
            await livekit.agent_dispatch.delete_dispatch(made.id, ROOM)
            assert (await raw.receive("termination")).job_id == assignment.job.id
            await until(lambda: gone, what="the agent's removal")
        assert await jobs(livekit) == []
        assert await refusal(livekit.agent_dispatch.delete_dispatch(made.id, ROOM)) == ("not_found", 404)


async def test_no_second_agent_after_a_deletion(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    async with worker(server) as raw:
        made = await create(livekit)
        withdrawn = await raw.offered()
        await livekit.agent_dispatch.delete_dispatch(made.id, ROOM)
        await raw.answer(withdrawn, available=True, participant_identity="late")
        await raw.hears_nothing()
    async with worker(server) as raw:
        made = await create(livekit)
        assignment = await raw.take("late")
        await livekit.agent_dispatch.delete_dispatch(made.id, ROOM)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(server.url + "/rtc", params={"access_token": assignment.token})
        assert refused.value.status == 401


async def test_the_dispatcher_takes_one_agent(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    for name, room in (("quotes", "r1"), ("", "r2")):
        known = lambda name=name: registrations_in(server.log_tail(100), name)  # noqa: E731
        sending = asyncio.ensure_future(dispatched(server, room, name, known))
        await asyncio.sleep(0.3)  # the dispatch is made, and there is no worker
        async with worker(server, name) as raw:
            assignment = await raw.take()
            await asyncio.wait_for(sending, 5)
            await raw.hears_nothing(0.5)
            assert [job.id for job in await jobs(livekit, name, room)] == [assignment.job.id]


async def test_rooms_call_unnamed_workers(livekit: api.LiveKitAPI, stage: Stage) -> None:
    await stage.join("early", room="before")
    async with worker(stage.server, "") as raw:
        await raw.hears_nothing()  # as of livekit-server, for the room that was there
        await livekit.room.create_room(api.CreateRoomRequest(name=ROOM, metadata="of the room"))
        job = await raw.offered()
        assert (job.room.name, job.room.metadata) == (ROOM, "of the room")
        await raw.answer(job, available=False)
        await raw.hears_nothing()
        assert await jobs(livekit, "") == []


async def test_a_token_names_the_agents(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    token = api.AccessToken(server.api_key, server.api_secret).with_identity("caller")
    token = token.with_grants(api.VideoGrants(room_join=True, room=ROOM))
    config = RoomConfiguration(agents=[agent_dispatch.RoomAgentDispatch(agent_name="quotes", metadata="x")])
    async with (
        worker(server, "") as unnamed,
        worker(server) as raw,
        connect_room(server.url, token.with_room_config(config).to_jwt()),
    ):
        assert (await raw.take()).job.metadata == "x"
        await unnamed.hears_nothing()


async def test_a_room_is_made_with_its_agents(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    agents = [
        agent_dispatch.RoomAgentDispatch(agent_name="quotes", metadata="x", attributes={"k": "v"}),
        agent_dispatch.RoomAgentDispatch(agent_name="claims"),
    ]
    async with worker(server, "") as unnamed, worker(server) as quotes, worker(server, "claims") as claims:
        await livekit.room.create_room(api.CreateRoomRequest(name=ROOM, metadata="m", agents=agents))
        job = (await quotes.take("q")).job
        assert (job.metadata, job.attributes["k"], job.room.metadata) == ("x", "v", "m")
        await claims.take("c")
        await unnamed.hears_nothing()
        listed = await livekit.agent_dispatch.list_dispatch(ROOM)
        assert sorted((each.agent_name, each.metadata) for each in listed) == [("claims", ""), ("quotes", "x")]
        got = await livekit.agent_dispatch.get_dispatch(job.dispatch_id, ROOM)
        assert got is not None
        assert (got.id, [job.id for job in got.state.jobs]) == (job.dispatch_id, [job.id])
        await livekit.room.create_room(api.CreateRoomRequest(name=ROOM, agents=agents))
        await quotes.hears_nothing()  # as of livekit-server: the room is there, and stays as it is
        assert len(await livekit.agent_dispatch.list_dispatch(ROOM)) == 2


async def test_workers_share_the_jobs(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    async with worker(server) as one, worker(server) as two:
        for number, taker in enumerate((one, two, one, two)):
            await create(livekit, room=f"r{number}")
            await taker.take()
        await one.send(update_worker=agent.UpdateWorkerStatus(status=agent.WS_FULL))
        await asyncio.sleep(0.05)
        await create(livekit)
        await two.answer(await two.offered(), available=False)
        await one.hears_nothing()
        await one.send(update_worker=agent.UpdateWorkerStatus(status=agent.WS_AVAILABLE))
        await one.take()


async def test_a_worker_goes_away(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    async with worker(server) as stays:
        async with worker(server) as goes:
            await create(livekit, room="r1")
            taken = await stays.take()
            await create(livekit, room="r2")
            over = await goes.take()
            await create(livekit)
            await stays.answer(await stays.offered(), available=False)
            await goes.offered()
        await until(lambda: f"worker {goes.id} of" in server.log_tail(5))
        [job] = await jobs(livekit, room="r1")
        assert (job.id, job.state.status) == (taken.job.id, agent.JS_RUNNING)
        [job] = await jobs(livekit, room="r2")
        assert (job.id, job.state.status) == (over.job.id, agent.JS_FAILED)
        await stays.send(update_job=agent.UpdateJobStatus(job_id=over.job.id, status=agent.JS_RUNNING))
        await stays.hears_nothing()
        [job] = await jobs(livekit, room="r2")  # as a worker does that has lost its connection
        assert (job.state.status, job.state.worker_id) == (agent.JS_RUNNING, stays.id)


async def test_an_agent_that_leaves_ends_its_job(livekit: api.LiveKitAPI, stage: Stage) -> None:
    await stage.join("caller")
    async with worker(stage.server) as raw:
        await create(livekit)
        assignment = await raw.take()
        async with connect_room(stage.server.url, assignment.token):
            pass
        assert (await raw.receive("termination")).job_id == assignment.job.id
        [job] = await jobs(livekit)
        assert (job.state.status, job.state.error) == (agent.JS_FAILED, "agent worker left the room")


async def test_who_may_not(livekit: api.LiveKitAPI, server: EmbeddedServer) -> None:
    url = server.url.replace("ws", "http", 1) + "/agent"
    async with aiohttp.ClientSession() as session:
        for token in (agent_token(server, room_list=True), "nonsense"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(url, headers={"Authorization": f"Bearer {token}"})
            assert refused.value.status == 401
        async with session.get(url) as answer:
            assert answer.status == 404
        headers = {"Authorization": f"Bearer {agent_token(server, agent=True)}"}
        for nonsense in (b"\xff", agent.WorkerMessage(update_job=agent.UpdateJobStatus()).SerializeToString()):
            async with session.ws_connect(url, headers=headers) as socket:
                await socket.send_bytes(nonsense)
                assert (await socket.receive(timeout=5)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
    assert await refusal(livekit.agent_dispatch.list_dispatch("nowhere")) == ("not_found", 404)


async def test_the_server_stops_with_a_worker(problems: list[dict[str, Any]]) -> None:
    server = EmbeddedServer()
    await server.__aenter__()
    try:
        async with worker(server) as raw:
            stopping = asyncio.ensure_future(server.__aexit__(None, None, None))
            assert (await raw.socket.receive(timeout=5)).type == aiohttp.WSMsgType.CLOSE
            await asyncio.wait_for(stopping, 5)
    finally:
        await server.__aexit__(None, None, None)
