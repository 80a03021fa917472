"""A LiveKit server inside the process: rooms, participants and their data, on aiortc, without a program or a network.

::

    from curb_client.testing.embedded import EmbeddedServer

    async with EmbeddedServer() as server:  # in the loop that runs; with ``with``, in a thread of its own
        token = server.token("alice", "my-room")
        ...  # join server.url with it

Media are accepted and discarded; everything else is meant to be as of livekit-server, which tells more slowly who
joined or left (``state_batch=3`` does so too).

What goes wrong on demand is ``server.faults``, see :class:`.faults.Faults`: packets that are lost, late, doubled, out
of order or spoilt, networks that are lossy or narrow, participants that freeze, are cut off or die, a server that
restarts.

Where everything passes, for whoever wants to watch it or to get in its way: ``UdpSocket.datagram_in`` and
``datagram_out``, ``Participant.signal_in`` and ``signal_out``, ``Participant.packet_in`` and ``packet_out``,
``Signalling.admit`` for joins and resumes, ``Room.remove`` for every end of a stay.
"""

from curb_client.testing.embedded.options import Options
from curb_client.testing.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "Options"]
