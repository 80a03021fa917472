"""``curb-client model``: a scripted model to develop against, and recordings of what models received."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from curb_client import CurbError, UsageError
from curb_client.cli.signals import take_signals
from curb_client.model import RecordedRequest, ledger, read_recording, render_ledger
from curb_client.protocol.json_text import without_lone_surrogates

__all__ = ["model"]

_STYLES = {"heading": "bold", "section": "cyan", "new": "green", "gone": "red strike"}


@click.group()
def model() -> None:
    """What a model receives: answer as scripted, and show what was asked."""


@model.command()
@click.option("--script", required=True, type=click.Path(path_type=Path), help="What the model answers, in YAML.")
@click.option("--record", type=click.Path(dir_okay=False, path_type=Path), help="Add each request to this file.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Any that is free, unless given.")
def serve(script: Path, record: Path | None, port: int) -> None:
    """Run a scripted model behind OpenAI's interface, until Ctrl-C.

    Its base URL is written on standard output, as a line of a .env file. The exit status is 1 if a request came that
    no rule of the script fits.
    """
    from curb_client.model import ModelEndpoint, load_script

    until_interrupted = take_signals()
    try:
        with ModelEndpoint(load_script(script), record_to=record, port=port) as endpoint:
            click.echo(f"OPENAI_BASE_URL={endpoint.url}")
            click.echo("the model runs until Ctrl-C", err=True)
            until_interrupted()
            endpoint.check()
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    except CurbError as error:  # it may show a request
        from curb_client.model.view.terminal import printable

        raise click.ClickException(printable(str(error))) from error


@model.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("--diff", "only_changes", is_flag=True, help="Only what changed from request to request.")
@click.option(
    "--ledger", "as_ledger", is_flag=True, help="What was said, which tools were called, and the skills' lines."
)
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page to this file instead.")
def show(recording: Path, only_changes: bool, as_ledger: bool, html: Path | None) -> None:
    """Show a recording of requests, what is new in each marked."""
    if sum((only_changes, as_ledger, html is not None)) > 1:
        raise click.UsageError("--diff, --ledger and --html exclude each other; give one")
    recorded = _read(recording)
    requests = [each.request for each in recorded]
    if html is not None:
        from curb_client.model.view.html import html_page

        page = without_lone_surrogates(html_page(recorded, recording.name))
        try:
            html.write_text(page, encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"the page cannot be written to {html}: {error}") from error
        click.echo(f"{len(recorded)} requests in {html}", err=True)
        return
    from curb_client.model.view.terminal import printable, shown

    if as_ledger:
        click.echo(printable(render_ledger(ledger(requests))))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in shown(requests, only_changes=only_changes):
        console.print(Text(line.text, _STYLES.get(line.kind, "")))


def _read(path: Path) -> list[RecordedRequest]:
    try:
        recorded = list(read_recording(path))
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    if not recorded:
        click.echo(f"{path} holds no request", err=True)
        sys.exit(1)
    return recorded
