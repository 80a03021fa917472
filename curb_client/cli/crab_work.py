"""What the commands of ``curb-client crab`` are run with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from curb_client.errors import CurbError, UsageError

if TYPE_CHECKING:
    from curb_client.crabtalk import AgentRun, AskUser, CrabTalkClient, Question

__all__ = ["Work", "end_at_once", "give_up", "prompted", "run_with_client", "signalled"]

Work = Callable[["CrabTalkClient"], Coroutine[Any, Any, None]]

GIVE_UP_SECONDS: Final = 5.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


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
    with _handled({signal.SIGINT: signal.default_int_handler}):
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


# Signals


@contextlib.contextmanager
def end_at_once() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the program, whatever it is waiting for: connecting to LiveKit cannot be cancelled."""

    def end(number: int, _: FrameType | None) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + number)

    with _handled(dict.fromkeys(_SIGNALS, end)):
        yield


@contextlib.contextmanager
def signalled() -> Iterator[asyncio.Future[None]]:
    """Ctrl-C and SIGTERM end nothing, but the future."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not came.done():
            came.set_result(None)

    with _handled(dict.fromkeys(_SIGNALS, lambda *_: loop.call_soon_threadsafe(tell))):
        yield came


@contextlib.contextmanager
def _handled(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are another's
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
