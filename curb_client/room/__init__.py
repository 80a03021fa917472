"""The two sides of a call in a LiveKit room.

The way of a message, client to agent: ``client.py`` (``ask``) → ``sdk.py`` (``perform_rpc``) → the wire →
``agent.py`` (the RPC method) → ``handlers.py``. Agent to client: ``agent.py`` → ``outbox.py`` → the wire →
``inbox.py`` → ``client.py`` (``on``).
"""
