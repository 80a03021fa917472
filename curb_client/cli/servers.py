"""The LiveKit server that a command's ``--livekit`` names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from curb_client import LiveKitServerError
from curb_client.testing import LiveKitServerHandle, livekit_server
from curb_client.testing.server import DEFAULT_LIVEKIT

__all__ = ["livekit_option", "server_for", "started_livekit_option"]

F = TypeVar("F", bound=Callable[..., Any])


_STARTED = "'embedded' is a server inside this program; 'server' starts a livekit-server (got once, if need be)"


def livekit_option(command: F) -> F:
    """``--livekit`` for a command that needs a server."""
    return click.option(
        "--livekit",
        metavar="embedded|server|URL",
        help=f"{_STARTED}; a ws:// URL uses one that runs, with CURB_LIVEKIT_API_KEY and CURB_LIVEKIT_API_SECRET. "
        f"Default: CURB_LIVEKIT_URL where it is set, else '{DEFAULT_LIVEKIT}'.",
    )(command)


def started_livekit_option(command: F) -> F:
    """``--livekit`` for a command that is there to start a server."""
    return click.option(
        "--livekit", metavar="embedded|server", default=DEFAULT_LIVEKIT, help=f"{_STARTED}.", show_default=True
    )(command)


def server_for(choice: str | None) -> LiveKitServerHandle:
    """A server, not started yet; how getting it goes on is told on standard error.

    Raises:
        click.UsageError: the choice, or what the environment says about a server, is of no use.
    """
    try:
        return livekit_server(choice, progress=lambda line: click.echo(line, err=True))
    except LiveKitServerError as error:
        raise click.UsageError(str(error)) from error
