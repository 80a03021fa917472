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

from __future__ import annotations

from curb_client.testing.binary import LIVEKIT_SERVER_VERSION, find_or_install
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
    "ExternalLiveKitServer",
    "LiveKitAddress",
    "LiveKitServer",
    "LiveKitServerHandle",
    "ParticipantKind",
    "Ports",
    "find_or_install",
    "livekit_server",
]
