"""What the commands of ``curb-client crab`` are run with."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import click

from curb_client.cli.signals import handled
from curb_client.errors import CurbError, UsageError

if TYPE_CHECKING:
    from curb_client.crabtalk import AgentRun, AskUser, CrabTalkClient, Question

__all__ = ["Work", "give_up", "prompted", "run_with_client"]

Work = Callable[["CrabTalkClient"], Coroutine[Any, Any, None]]

GIVE_UP_SECONDS: Final = 5.0


def run_with_client(address: str | None, work: Work) -> None:
    """Run it with a client; what goes wrong is told on standard error."""
    try:
        asyncio.run(_with_client(address, work))
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    except CurbError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None  # as of a program that SIGINT ended


async def _with_client(address: str | None, work: Work) -> None:
    from curb_client.crabtalk import CrabTalkClient

    async with CrabTalkClient(address) as client:
        await work(client)


# Questions


def prompted(question: Question) -> str:
    """What the person at the terminal answers.

    Raises:
        click.Abort: Ctrl-C, or the end of standard input.
    """
    labels = ", ".join(option.label for option in question.options)
    # asyncio's own handler would leave the first Ctrl-C to a loop that stands still meanwhile
    with handled({signal.SIGINT: signal.default_int_handler}):
        try:
            return str(click.prompt(f"{question.question} ({labels})" if labels else question.question, err=True))
        except click.Abort:
            click.echo(err=True)  # a line of its own for what is told next
            raise


async def give_up(client: CrabTalkClient, run: AgentRun, answered: AskUser | None) -> None:
    """A daemon would wait five minutes with the question of a run that was left, and keep others waiting."""
    from curb_client.crabtalk import DaemonNotFoundError, DaemonUnreachableError

    asked = run.question
    if asked is None or asked is answered:
        return
    killing = asyncio.ensure_future(client.kill(asked.session, timeout=GIVE_UP_SECONDS))
    try:
        await asyncio.shield(killing)
    except asyncio.CancelledError:  # by Ctrl-C, the first one
        await asyncio.wait({killing})
        raise
    except (DaemonNotFoundError, DaemonUnreachableError):
        return
    except CurbError as error:
        click.echo(f"the question in session {asked.session} may still be waiting: {error}", err=True)
    else:
        click.echo("the question was given up; its session is on disk, for what the same sender says next", err=True)
