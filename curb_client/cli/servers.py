"""The LiveKit server that a command's ``--livekit`` names."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from curb_client import LiveKitServerError
from curb_client.testing import ExternalLiveKitServer, LiveKitAddress, LiveKitServerHandle, livekit_server

__all__ = ["server_for"]


def server_for(choice: str, *, progress: Callable[[str], None]) -> LiveKitServerHandle:
    """A server, not started yet.

    Args:
        choice: ``server`` for one started on demand, else the URL of one that runs.
        progress: gets a line whenever getting the server takes a while.

    Raises:
        click.UsageError: the choice, or what the environment says about a server, is of no use.
    """
    try:
        return livekit_server(progress=progress) if choice == "server" else _running_at(choice)
    except LiveKitServerError as error:
        raise click.UsageError(str(error)) from error


def _running_at(url: str) -> LiveKitServerHandle:
    if not url.startswith(("ws://", "wss://")):
        raise click.BadParameter(f"{url!r} is neither 'server' nor a ws:// or wss:// URL", param_hint="--livekit")
    key, secret = os.environ.get("CURB_LIVEKIT_API_KEY"), os.environ.get("CURB_LIVEKIT_API_SECRET")
    if not key or not secret:
        raise click.UsageError(f"--livekit={url} needs CURB_LIVEKIT_API_KEY and CURB_LIVEKIT_API_SECRET")
    return ExternalLiveKitServer(LiveKitAddress(url, key, secret))
