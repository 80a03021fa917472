"""The client for programs without asyncio: kiosks, scripts, Tkinter apps.

::

    from curb_client import blocking

    with blocking.join(url, token) as call:
        print(call.agent.ask("quote", {"plan": "basic"}, timeout=5))

It is :func:`curb_client.join` on an event loop of its own, on a daemon thread that ends with the block. Arguments,
results and errors are those of the async client, any thread may call, and Ctrl-C ends a call at once. What is passed to
``agent.on`` and ``agent.on_presence`` runs on your thread alone, inside :meth:`Call.poll`.

A token function, ``trace`` and ``wake`` run on the loop's thread: they must return soon, and what waits is a UsageError
there, since it would wait for itself.
"""

from curb_client.blocking.call import Call, join
from curb_client.blocking.client import AgentClient, MessageStream

__all__ = ["AgentClient", "Call", "MessageStream", "join"]
