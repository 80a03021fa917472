"""The dispatch of a worker's agent to one room: made, found lost, and made again.

LiveKit sends a dispatch to the workers that are registered at that moment; one made earlier is lost without a word.
Its list of dispatches shows who took one only five seconds later, when it has stopped asking for more workers, but an
agent in the room shows at once. Making a second one before the first is surely lost would end in two agents.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import warnings
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from curb_client.errors import LiveKitServerError
from curb_client.protocol.contract import AVATAR_ATTRIBUTE
from curb_client.testing.tokens import WARNED_ABOUT_BELOW

if TYPE_CHECKING:
    from livekit import api

    from curb_client.testing.server import LiveKitAddress, LiveKitServerHandle

__all__ = ["Registrations", "dispatched", "registrations_in"]

LOOK_EVERY: Final = 0.2
LOST_AFTER: Final = 6.0
"""Seconds after which a dispatch that nobody has is lost: LiveKit asks five for workers."""
LOST_AFTER_AT_MOST: Final = 12.0
"""The same, in the end, for the next ones: a worker may take ten to accept."""
SETTLE: Final = 0.2
"""Seconds from the news that a worker has registered until dispatches reach it."""
_GONE: Final = ("not_found", "unavailable")

Registrations = Callable[[], set[str]]
"""The registrations of workers that are known of; it may stay empty."""


async def dispatched(
    server: LiveKitAddress | LiveKitServerHandle, room: str, agent_name: str, registrations: Registrations
) -> None:
    """Returns once an agent is in the room, or a worker has the job of bringing one there; may wait for ever.

    Raises:
        LiveKitServerError: the package livekit-api is missing, or the server refused or was not there.
    """
    async with _room_dispatch(server, room, agent_name) as dispatch:
        made_at = time.monotonic() - await dispatch.ensure()
        known, lost_after, may_be_early = registrations(), LOST_AFTER, True
        while not await dispatch.is_taken():
            was_early = may_be_early and bool(registrations() - known)
            if was_early:
                await asyncio.sleep(SETTLE)
                may_be_early = False
            if was_early or time.monotonic() - made_at > lost_after:
                await dispatch.make_again()
                made_at, known = time.monotonic(), registrations()
                lost_after = min(lost_after * 1.5, LOST_AFTER_AT_MOST)
            await asyncio.sleep(LOOK_EVERY)


def registrations_in(log: str, agent_name: str) -> set[str]:
    """The ids of the workers that a livekit-server's log says have registered with this name."""
    lines = re.finditer(r'worker registered\t.*"agentName": "(.*?)", "workerID": "(.*?)"', log)
    return {line[2] for line in lines if line[1] == agent_name}


class _RoomDispatch:
    def __init__(self, livekit: api.LiveKitAPI, room: str, agent_name: str) -> None:
        self._livekit = livekit
        self._room = room
        self._agent_name = agent_name
        self._known: frozenset[str] = frozenset()

    async def ensure(self) -> float:
        """Makes the room and a dispatch where there are none, and returns the dispatch's age in seconds."""
        found = await self._in_room()
        if found:
            return max(0.0, time.time() - min(made.state.created_at for made in found) / 1e9)
        await self._make("")
        return 0.0

    async def is_taken(self) -> bool:
        from livekit import api

        answer = await self._livekit.room.list_participants(api.ListParticipantsRequest(room=self._room))
        agent = api.ParticipantInfo.Kind.AGENT
        if any(each.kind == agent and AVATAR_ATTRIBUTE not in each.attributes for each in answer.participants):
            return True
        return any(made.state.jobs for made in await self._list())

    async def make_again(self) -> None:
        """In place of the lost one, of which LiveKit ends the job that a worker may have taken in the last moment."""
        from livekit import api

        known = self._known
        lost = await self._in_room()
        if self._known - known or any(made.state.jobs for made in lost):
            return  # the room was closed meanwhile, and came with a new one
        for made in lost:
            with contextlib.suppress(api.TwirpError):  # gone with its room
                await self._livekit.agent_dispatch.delete_dispatch(made.id, self._room)
        await self._make(lost[0].metadata if lost else "")

    async def _in_room(self) -> list[api.AgentDispatch]:
        """The dispatches of this agent to the room, which is made where there is none.

        A new room comes with a dispatch for workers without a name: making another would bring a second agent.
        """
        from livekit import api

        await self._livekit.room.create_room(api.CreateRoomRequest(name=self._room))
        found = await self._list()
        self._known = self._known | {made.id for made in found}
        return found

    async def _make(self, metadata: str) -> None:
        from livekit import api

        request = api.CreateAgentDispatchRequest(agent_name=self._agent_name, room=self._room, metadata=metadata)
        made = await self._livekit.agent_dispatch.create_dispatch(request)
        self._known = self._known | {made.id}

    async def _list(self) -> list[api.AgentDispatch]:
        from livekit import api

        try:
            found = await self._livekit.agent_dispatch.list_dispatch(self._room)
        except api.TwirpError as error:
            if error.code in _GONE:  # an empty room is closed after a while
                return []
            raise
        return [made for made in found if made.agent_name == self._agent_name]


@contextlib.asynccontextmanager
async def _room_dispatch(
    server: LiveKitAddress | LiveKitServerHandle, room: str, agent_name: str
) -> AsyncIterator[_RoomDispatch]:
    try:
        import aiohttp
        from livekit import api
    except ImportError as error:
        raise LiveKitServerError(
            f"Sending a worker to a room needs the package livekit-api ({error}): pip install 'curb-client[testing]'"
        ) from error
    with contextlib.ExitStack() as filters:
        if len(server.api_secret.encode()) < WARNED_ABOUT_BELOW:  # as for tokens
            filters.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="The HMAC key is")
        try:
            async with api.LiveKitAPI(server.url, server.api_key, server.api_secret) as livekit:
                yield _RoomDispatch(livekit, room, agent_name)
        except (api.TwirpError, aiohttp.ClientError, asyncio.TimeoutError) as error:
            raise LiveKitServerError(
                f"The LiveKit server at {server.url} did not send a worker to the room {room!r}: {error}"
            ) from error
