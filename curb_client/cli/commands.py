"""The commands, one function each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from curb_client import __version__
from curb_client.cli import demo as demo_run
from curb_client.cli import scenarios, serve
from curb_client.cli.crab import crab
from curb_client.cli.crab_demo import crab_demo
from curb_client.cli.model import model
from curb_client.cli.runner import runner
from curb_client.cli.servers import livekit_option, server_for, started_livekit_option


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


@cli.command("model-demo")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of table and ledger.")
@click.option("--record", type=click.Path(dir_okay=False, path_type=Path), help="Add the requests to this file.")
@livekit_option
def model_demo(as_json: bool, record: Path | None, livekit: str | None) -> None:
    """Show what a model receives of an insurance desk in a room, turn by turn, with a scripted model."""
    from curb_client.cli import model_demo as model_demo_run

    report, ledger = model_demo_run.run(server_for(livekit), record_to=record)
    if as_json:
        click.echo(json.dumps({**report.to_json(), "ledger": ledger.splitlines()}, ensure_ascii=False))
    else:
        demo_run.print_table(report)
        click.echo(ledger)
    sys.exit(0 if report.ok else 1)


@cli.command("host-demo")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@livekit_option
def host_demo(as_json: bool, livekit: str | None) -> None:
    """Show a host that places two calls on a runner, talks to them, loses its stream, goes on, and drains."""
    from curb_client.cli import host_demo as host_demo_run

    report = host_demo_run.run(server_for(livekit))
    if as_json:
        click.echo(json.dumps(report.to_json(), ensure_ascii=False))
    else:
        demo_run.print_table(report)
    sys.exit(0 if report.ok else 1)


@cli.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("-k", "name_has", metavar="TEXT", default="", help="Run only the scenarios with this text in their name.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.option(
    "--junit-xml",
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the outcomes to this file too, as JUnit's XML.",
)
@livekit_option
def test(paths: tuple[Path, ...], name_has: str, as_json: bool, junit_xml: Path | None, livekit: str | None) -> None:
    """Run scenarios: YAML files that say what an app does and what the agent must do then.

    Of a folder, every *.yaml file below it is run. The exit status is 0 if all scenarios passed, 1 if one did not, and
    2, with nothing run, if a file is no scenario or there is none.
    """
    try:
        status = scenarios.run(paths, server_for(livekit), name_has=name_has, as_json=as_json, junit_xml=junit_xml)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        status = 130  # as of a program that SIGINT ended
    sys.exit(status)


@cli.command()
@started_livekit_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port for signalling; any that is free.")
def server(livekit: str, port: int) -> None:
    """Run a LiveKit server to develop against, until Ctrl-C.

    Its URL, API key and secret are written on standard output, as lines of a .env file.
    """
    serve.run(serve.server_on_port(livekit, port))


cli.add_command(runner)
cli.add_command(model)
cli.add_command(crab)
cli.add_command(crab_demo)
