"""The two sides of a call in a LiveKit room.

====================  =====================================================================
the caller's side     ``client`` (AgentClient), ``presence`` (which participant is the agent),
                      ``inbox`` (its messages in order), ``subscriptions``, ``join``
the agent's side      ``agent`` (AgentCall), ``handlers``, ``clients`` (who is the client),
                      ``outbox``, ``sends``, ``host_link``, ``live_settings``
LiveKit               ``sdk`` (the SDK's traps), ``rpc`` (one call with a deadline that holds)
for both              ``arguments``, ``callbacks``, ``typed``
====================  =====================================================================

A message to the agent: ``client.ask`` → ``rpc.start_rpc`` → the wire → ``agent`` → ``handlers.handle``. A message of
the agent: ``sends.to_client`` → ``outbox`` → the wire → ``inbox`` → the handlers added by ``client.on``.
"""
