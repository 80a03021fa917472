"""The host protocol's server for agents in Python.

A host's request, from the socket to the agent: ``listener`` (HTTP) → ``routes`` (auth, then one function per route) →
``calls`` (which calls there are, and whether one more may come) → ``call`` (one call's life in its room). What the
runner has to say goes the other way: ``call_record`` and ``message_log`` → ``journal`` (the window of records) →
``events`` (its readers).
"""
