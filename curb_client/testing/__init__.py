"""The test kit: a real LiveKit server on demand, and tokens to join its rooms.

::

    from curb_client.testing import livekit_server

    with livekit_server() as server:  # or: async with
        token = server.token("alice", "my-room")
        ...  # join server.url with it

Which server that is: the one that runs already at ``CURB_LIVEKIT_URL`` (with ``CURB_LIVEKIT_API_KEY`` and
``CURB_LIVEKIT_API_SECRET``), else one of its own, started on free ports of the loopback interface and stopped at the
end of the block. See :func:`find_or_install` for where its program comes from.
"""

from typing import TYPE_CHECKING, Final

from curb_client._lazy import lazy_names

if TYPE_CHECKING:
    from curb_client.testing.agent_process import AgentProcess
    from curb_client.testing.binary import LIVEKIT_SERVER_VERSION, find_or_install
    from curb_client.testing.call import CurbCall
    from curb_client.testing.hostile import HostilePeer
    from curb_client.testing.recorder import Recorder
    from curb_client.testing.scenario import Scenario, ScenarioResult, load_scenario, run_scenario
    from curb_client.testing.scripted import ReceivedRequest, ScriptedAgent, Send
    from curb_client.testing.server import (
        ExternalLiveKitServer,
        LiveKitAddress,
        LiveKitServer,
        LiveKitServerHandle,
        Ports,
        livekit_server,
    )
    from curb_client.testing.tokens import ParticipantKind

__all__ = [
    "LIVEKIT_SERVER_VERSION",
    "AgentProcess",
    "CurbCall",
    "ExternalLiveKitServer",
    "HostilePeer",
    "LiveKitAddress",
    "LiveKitServer",
    "LiveKitServerHandle",
    "ParticipantKind",
    "Ports",
    "ReceivedRequest",
    "Recorder",
    "Scenario",
    "ScenarioResult",
    "ScriptedAgent",
    "Send",
    "find_or_install",
    "livekit_server",
    "load_scenario",
    "run_scenario",
]

# Loaded when first used: pytest loads the plugin in this package in every run, used or not.
_HOMES: Final = {
    "LIVEKIT_SERVER_VERSION": "curb_client.testing.binary",
    "find_or_install": "curb_client.testing.binary",
    "AgentProcess": "curb_client.testing.agent_process",
    "CurbCall": "curb_client.testing.call",
    "HostilePeer": "curb_client.testing.hostile",
    "Recorder": "curb_client.testing.recorder",
    "Scenario": "curb_client.testing.scenario",
    "ScenarioResult": "curb_client.testing.scenario",
    "load_scenario": "curb_client.testing.scenario",
    "run_scenario": "curb_client.testing.scenario",
    "ReceivedRequest": "curb_client.testing.scripted",
    "ScriptedAgent": "curb_client.testing.scripted",
    "Send": "curb_client.testing.scripted",
    "ExternalLiveKitServer": "curb_client.testing.server",
    "LiveKitAddress": "curb_client.testing.server",
    "LiveKitServer": "curb_client.testing.server",
    "LiveKitServerHandle": "curb_client.testing.server",
    "Ports": "curb_client.testing.server",
    "livekit_server": "curb_client.testing.server",
    "ParticipantKind": "curb_client.testing.tokens",
}

__getattr__, __dir__ = lazy_names(__name__, globals(), _HOMES)
