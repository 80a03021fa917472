"""``curb-client crab``: talk to a CrabTalk daemon, and let callers in a room talk to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from curb_client.cli.crab_work import give_up, prompted, run_with_client
from curb_client.cli.signals import end_at_once, signalled, take_signals
from curb_client.errors import CurbError, UsageError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from curb_client.crabtalk import CrabTalkClient, RunEvent

__all__ = ["crab"]

AGENT: Final = "crab"

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


@click.group()
@click.option(
    "--address",
    metavar="SOCKET|FILE.port|tcp://HOST:PORT",
    envvar="CRABTALK_ADDRESS",
    help="The daemon's; ~/.crabtalk/run/crabtalk.sock by default. [CRABTALK_ADDRESS]",
)
@click.pass_context
def crab(context: click.Context, address: str | None) -> None:
    """Talk to a CrabTalk daemon.

    The exit status is 1 where the daemon, or an agent's run, said no.
    """
    context.obj = address


def _json_of(message: Message) -> dict[str, Any]:
    """A message's fields by their names, numbers as numbers."""
    plain: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None:
            if field.containing_oneof is None or message.HasField(field.name):
                plain[field.name] = _json_of(value)
        elif isinstance(value, (str, int, float, bool)):
            plain[field.name] = value
        else:
            plain[field.name] = list(value)
    return plain


def _print(items: Iterable[Mapping[str, Any]], columns: tuple[str, ...], as_json: bool) -> None:
    rows = list(items)
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
        return
    lines = [columns, *(tuple(_shown(row.get(name, "")) for name in columns) for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    for line in lines:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _say_options(command: Any) -> Any:
    for option in (
        click.option("--agent", default=AGENT, show_default=True, help="Whom to talk to."),
        click.option("--session", type=int, help="Go on in this session."),
        click.option("--sender", help="Who says it; sessions are found again by it."),
        click.option("--new", "new_chat", is_flag=True, help="Begin a new session."),
        _json_option,
    ):
        command = option(command)
    return click.argument("content")(command)


@crab.command()
@_say_options
@click.pass_obj
def ask(address: str | None, /, content: str, as_json: bool, **options: Any) -> None:
    """Say something to an agent, and print its whole answer."""
    from curb_client.crabtalk import AgentRunError

    async def work(client: CrabTalkClient) -> None:
        try:
            answer = await client.send(content, **options)
        except AgentRunError as error:
            if error.reason:
                raise
            raise click.ClickException(
                f"the run of {error.agent!r} in session {error.session} gave nothing and used no token: its provider "
                f"{error.provider!r} failed, or answered with nothing; `curb-client crab stream` tells which"
            ) from error
        if as_json:
            click.echo(json.dumps(_json_of(answer), ensure_ascii=False))
        else:
            click.echo(answer.content)
            click.echo(f"session {answer.session}, {answer.model}, {answer.usage.total_tokens} tokens", err=True)

    run_with_client(address, work)


@crab.command()
@_say_options
@click.option("--answer", "answers", multiple=True, help="For a question of the agent's; else you are asked.")
@click.pass_obj
def stream(address: str | None, /, content: str, as_json: bool, answers: tuple[str, ...], **options: Any) -> None:
    """Say something to an agent, and print what it does, as it does it."""
    from curb_client.crabtalk import AskUser
    from curb_client.crabtalk.events import to_json

    given = list(answers)

    async def work(client: CrabTalkClient) -> None:
        run = client.stream(content, **options)
        answered: AskUser | None = None
        try:
            async with run:
                async for event in run:
                    if as_json:
                        click.echo(json.dumps(to_json(event), ensure_ascii=False))
                    else:
                        _show(event)
                    if isinstance(event, AskUser):
                        answer = {one.question: given.pop(0) if given else prompted(one) for one in event.questions}
                        await client.reply_to_ask(event.session, answer)
                        answered = event
        finally:
            await give_up(client, run, answered)

    run_with_client(address, work)


def _show(event: RunEvent) -> None:
    from curb_client.crabtalk import StreamChunk, StreamEnd, StreamStart, StreamThinking, ToolResult, ToolStart

    match event:
        case StreamChunk():
            click.echo(event.content, nl=False)
        case StreamThinking():
            click.echo(click.style(event.content, dim=True), nl=False, err=True)
        case StreamStart():
            click.echo(f"session {event.session}", err=True)
        case ToolStart():
            for call in event.calls:
                click.echo(f"\n[{call.name} {call.arguments}]", err=True)
        case ToolResult():
            click.echo(f"[{event.duration_ms} ms: {event.output}]", err=True)
        case StreamEnd():
            click.echo()
            click.echo(f"{event.model}, {event.usage.total_tokens if event.usage else 0} tokens", err=True)


@crab.command()
@click.option("--kill", type=int, help="Forget this session instead.")
@click.option("--compact", type=int, help="Print a summary of this session instead.")
@_json_option
@click.pass_obj
def sessions(address: str | None, kill: int | None, compact: int | None, as_json: bool) -> None:
    """List the living sessions."""

    async def work(client: CrabTalkClient) -> None:
        if kill is not None:
            await client.kill(kill)
        elif compact is not None:
            summary = await client.compact(compact)
            click.echo(json.dumps({"session": compact, "summary": summary}, ensure_ascii=False) if as_json else summary)
        else:
            columns = ("id", "agent", "created_by", "message_count", "active", "title")
            _print(map(_json_of, await client.sessions()), columns, as_json)

    run_with_client(address, work)


@crab.command()
@click.argument("name", required=False)
@_json_option
@click.pass_obj
def agents(address: str | None, name: str | None, as_json: bool) -> None:
    """List the agents, or one of them."""

    async def work(client: CrabTalkClient) -> None:
        found = await client.agents() if name is None else [await client.agent(name)]
        _print(map(_json_of, found), ("name", "model", "max_iterations", "thinking", "skills", "description"), as_json)

    run_with_client(address, work)


@crab.command()
@click.option("--count", type=click.IntRange(min=1), help="End after so many.")
@_json_option
@click.pass_obj
def events(address: str | None, count: int | None, as_json: bool) -> None:
    """Print what all agents do, until Ctrl-C."""
    from curb_client.crabtalk.events import to_json

    async def work(client: CrabTalkClient) -> None:
        left = count
        async with client.events() as subscription:
            click.echo("listening", err=True)
            async for event in subscription:
                if as_json:
                    click.echo(json.dumps(to_json(event), ensure_ascii=False))
                else:
                    click.echo(f"{event.timestamp[:19]}  {event.agent}  {event.session}  {event.kind}  {event.content}")
                left = None if left is None else left - 1
                if left == 0:
                    return

    run_with_client(address, work)


@crab.command()
@_json_option
@click.pass_obj
def stats(address: str | None, as_json: bool) -> None:
    """Print how the daemon is."""

    async def work(client: CrabTalkClient) -> None:
        columns = ("uptime_secs", "active_sessions", "registered_agents", "active_model")
        _print([_json_of(await client.stats())], columns, as_json)

    run_with_client(address, work)


@crab.group()
def cron() -> None:
    """Skills that are said to a session by the clock."""


@cron.command("list")
@_json_option
@click.pass_obj
def list_crons(address: str | None, as_json: bool) -> None:
    """List the jobs."""

    async def work(client: CrabTalkClient) -> None:
        _print(map(_json_of, await client.crons()), _CRON, as_json)

    run_with_client(address, work)


@cron.command("add")
@click.argument("schedule")
@click.argument("skill")
@click.option("--session", type=int, required=True)
@click.option("--quiet", nargs=2, metavar="FROM TO", help="When to keep quiet: 23:00 07:00, in the daemon's time.")
@click.option("--once", is_flag=True, help="The first time only.")
@_json_option
@click.pass_obj
def add_cron(address: str | None, /, schedule: str, skill: str, as_json: bool, **options: Any) -> None:
    """Say a skill to a session at the times of SCHEDULE: five fields as of cron, in UTC."""

    async def work(client: CrabTalkClient) -> None:
        _print([_json_of(await client.create_cron(schedule, skill, **options))], _CRON, as_json)

    run_with_client(address, work)


@cron.command("delete")
@click.argument("id", type=int)
@click.pass_obj
def delete_cron(address: str | None, id: int) -> None:  # noqa: A002 - the argument's name
    """Delete a job."""

    async def work(client: CrabTalkClient) -> None:
        await client.delete_cron(id)

    run_with_client(address, work)


_CRON: Final = ("id", "schedule", "skill", "session", "quiet_start", "quiet_end", "once")


@crab.command()
@click.option("--url", required=True, envvar="LIVEKIT_URL", help="LiveKit's. [LIVEKIT_URL]")
@click.option("--token", required=True, envvar="LIVEKIT_TOKEN", help="Of kind agent, for the room. [LIVEKIT_TOKEN]")
@click.option("--agent", default=AGENT, show_default=True, help="The daemon's agent that callers talk to.")
@click.pass_obj
def gateway(address: str | None, url: str, token: str, agent: str) -> None:
    """Let callers in a LiveKit room talk to the daemon, each in a session of its own, until Ctrl-C."""

    async def work(client: CrabTalkClient) -> None:
        from curb_client import AgentCall, connect_room
        from curb_client.crabtalk import CrabGateway

        async with AsyncExitStack() as stack:
            with end_at_once():
                room = await stack.enter_async_context(connect_room(url, token))
            call = await stack.enter_async_context(AgentCall(room))
            served = await stack.enter_async_context(CrabGateway(call, client, agent=agent))
            await call.ready()
            with signalled() as interrupted:
                click.echo(f"the gateway to {client.address} is in the room {room.name} until Ctrl-C", err=True)
                closed = asyncio.ensure_future(served.until_closed())
                await asyncio.wait({closed, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if closed.done():
                closed.result()
            closed.cancel()

    run_with_client(address, work)


@crab.command()
def install() -> None:
    """Build the daemon that this is a client of with cargo, once, and print its path."""
    from curb_client.testing.crab_build import install_daemon

    try:
        click.echo(install_daemon(lambda line: click.echo(line, err=True)))
    except CurbError as error:
        raise click.ClickException(str(error)) from error


@crab.command()
@click.option("--script", type=click.Path(exists=True, dir_okay=False), help="What its model answers, in YAML.")
def fake(script: str | None) -> None:
    """Run a daemon with a scripted model to develop against, until Ctrl-C.

    Its address is written on standard output, as a line of a .env file.
    """
    from curb_client.model import ModelScript, load_script
    from curb_client.testing.fake_daemon.daemon import FakeDaemon

    until_interrupted = take_signals()
    try:
        with FakeDaemon(ModelScript(is_strict=False) if script is None else load_script(script)) as daemon:
            click.echo(f"CRABTALK_ADDRESS={daemon.address}")
            click.echo("the daemon runs until Ctrl-C", err=True)
            until_interrupted()
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    except CurbError as error:
        raise click.ClickException(str(error)) from error
