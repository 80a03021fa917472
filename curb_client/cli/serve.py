"""A LiveKit server to develop against, until Ctrl-C."""

from __future__ import annotations

import click

from curb_client import LiveKitServerError
from curb_client.cli.signals import take_signals
from curb_client.testing import LiveKitServer, LiveKitServerHandle
from curb_client.testing.server import free_ports

__all__ = ["run", "server_on_port"]


def server_on_port(choice: str, port: int) -> LiveKitServerHandle:
    """The server of a choice, ``embedded`` or ``server``, that will take calls on this port (0: any that is free).

    Raises:
        click.UsageError: the choice names one that runs already, or nothing.
    """
    if choice == "embedded":
        from curb_client.testing.embedded import EmbeddedServer

        return EmbeddedServer(port=port)
    if choice == "server":
        return LiveKitServer(
            progress=lambda line: click.echo(line, err=True),
            pick_ports=lambda: free_ports()._replace(signal=port) if port else free_ports(),
        )
    raise click.UsageError(f"--livekit is {choice!r}; give 'embedded' or 'server', a server to be started")


def run(server: LiveKitServerHandle) -> None:
    """Serve until SIGINT or SIGTERM. What one needs to join is written on standard output, as lines of a .env file.

    Raises:
        click.ClickException: the server could not be started.
    """
    until_interrupted = take_signals()
    try:
        with server:
            for name, value in (
                ("LIVEKIT_URL", server.url),
                ("LIVEKIT_API_KEY", server.api_key),
                ("LIVEKIT_API_SECRET", server.api_secret),
            ):
                click.echo(f"{name}={value}")
            click.echo(f"{server.title} runs until Ctrl-C", err=True)
            until_interrupted()
    except LiveKitServerError as error:
        raise click.ClickException(str(error)) from error
