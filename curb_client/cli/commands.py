"""The commands, one function each."""

from __future__ import annotations

import json
import sys

import click

from curb_client import __version__
from curb_client.cli import demo as demo_run
from curb_client.cli.servers import livekit_option, server_for


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="curb-client %(version)s")
def cli() -> None:
    """Talk to a Curb voice agent in a LiveKit room, and test it."""


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@livekit_option
def demo(as_json: bool, livekit: str | None) -> None:
    """Show an app and an agent exchanging messages in a room, each step with what was expected and what came."""
    report = demo_run.run(server_for(livekit))
    if as_json:
        click.echo(json.dumps(report.to_json(), ensure_ascii=False))
    else:
        demo_run.print_table(report)
    sys.exit(0 if report.ok else 1)
