"""Callers in a LiveKit room talk to a CrabTalk daemon: the agent's side (``gateway``) and the caller's (``caller``)."""
