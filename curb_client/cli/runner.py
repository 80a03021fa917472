"""The command ``curb-client runner``: an agent in Python, for a host to give calls to."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, get_args

import click

from curb_client.errors import RunnerStartError, UsageError
from curb_client.host.openapi import openapi_document
from curb_client.host.runner.agent_loading import load_agent
from curb_client.host.runner.logs import log_as_json
from curb_client.host.runner.options import VARIABLES, RunnerMode, RunnerOptions
from curb_client.host.runner.process import run_until_drained
from curb_client.host.runner.server import Runner

__all__ = ["runner"]

_LEVELS = ["debug", "info", "warning", "error"]


def _print_openapi(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(json.dumps(openapi_document(), indent=2, ensure_ascii=False))
        context.exit()


@click.command()
@click.argument("agent", metavar="MODULE:AGENT")
@click.option(
    "--address", metavar="HOST:PORT", help=f"To listen on, 127.0.0.1:7071 by default. [{VARIABLES['address']}]"
)
@click.option("--max-sessions", type=int, help=f"Calls at the same time, 1 by default. [{VARIABLES['max_sessions']}]")
@click.option("--mode", type=click.Choice(get_args(RunnerMode)), help=f"managed by default. [{VARIABLES['mode']}]")
@click.option("--deployment-id", metavar="ID", help=f"[{VARIABLES['deployment_id']}]")
@click.option("--configuration-version", type=int, help=f"[{VARIABLES['configuration_version']}]")
@click.option("--no-journal", is_flag=True, help=f"Keep no record; agents have no host. [{VARIABLES['journal']}=off]")
@click.option(
    "--drain-timeout",
    "drain_seconds",
    type=float,
    metavar="SECONDS",
    help=f"How long calls go on while it drains, an hour by default. [{VARIABLES['drain_seconds']}]",
)
@click.option(
    "--metrics-address",
    metavar="HOST:PORT",
    help=f"For Prometheus, without a token; none by default. [{VARIABLES['metrics_address']}]",
)
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
@click.option(
    "--openapi",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_openapi,
    help="Print the HTTP interface as an OpenAPI document, and do nothing else.",
)
def runner(agent: str, no_journal: bool, log_level: str, **options: Any) -> None:
    """Run an agent for a host, until it is drained: a HostedAgent, or a function of (call, context).

    Its host needs the token in the environment variable CURB_MANAGEMENT_TOKEN. Lifecycle lines are written on standard
    output, the log as JSON on standard error. The exit status is 0 after a drain, 1 if it could not start (or, in the
    mode direct-join, could not join), and 2 if an option or the agent's name is wrong.
    """
    try:
        given = RunnerOptions.from_environment(journal=False if no_journal else None, **options)
        sys.path.insert(0, os.getcwd())
        made = Runner(load_agent(agent), given)
    except UsageError as error:
        raise click.UsageError(str(error)) from None
    log_as_json(made.secrets, log_level)
    try:
        status = run_until_drained(made)
    except RunnerStartError as error:
        raise click.ClickException(made.secrets.hide(str(error))) from error
    sys.exit(status)
