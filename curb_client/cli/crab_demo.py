"""``curb-client crab-demo``: a CrabTalk daemon, its client, and callers in a room who talk to it through a gateway."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Literal

import click

from curb_client.cli.servers import livekit_option, server_for

if TYPE_CHECKING:
    from curb_client.testing.crab_daemon import CrabDaemon

__all__ = ["crab_demo"]

Choice = Literal["auto", "real", "fake"]


@click.command("crab-demo")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@click.option(
    "--daemon",
    "choice",
    type=click.Choice(["auto", "real", "fake"]),
    default="auto",
    show_default=True,
    help="'real' is the program that CRABTALK_BIN names, or that `curb-client crab install` built; 'fake' is a daemon "
    "inside this program; 'auto' takes the real one where there is one.",
)
@livekit_option
def crab_demo(as_json: bool, choice: Choice, livekit: str | None) -> None:
    """Show a CrabTalk daemon's client at work, and callers who talk to the daemon through a gateway in a room.

    The model behind the daemon is a script.
    """
    from curb_client.cli import crab_demo_steps
    from curb_client.cli.demo import print_table

    daemon = _daemon(choice)
    report = crab_demo_steps.run(server_for(livekit), daemon)
    if as_json:
        click.echo(json.dumps({**report.to_json(), "daemon": daemon.kind}, ensure_ascii=False))
    else:
        print_table(report)
        click.echo(f"The daemon was the {daemon.kind} one.")
    sys.exit(0 if report.ok else 1)


def _daemon(choice: Choice) -> CrabDaemon:
    from curb_client.crabtalk import CrabDaemonError
    from curb_client.model import ModelScript
    from curb_client.testing.crab_daemon import RealDaemon, find_daemon
    from curb_client.testing.fake_daemon.daemon import FakeDaemon

    script = ModelScript(is_strict=False)  # a real daemon asks for titles too
    try:
        if choice == "real" or (choice == "auto" and find_daemon() is not None):
            return RealDaemon(script)
    except CrabDaemonError as error:
        raise click.ClickException(str(error)) from error
    return FakeDaemon(script)
