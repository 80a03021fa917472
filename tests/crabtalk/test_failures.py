"""Daemons that close, say nothing, or say what they should not; deadlines, and what is left behind."""

from __future__ import annotations

import asyncio
import random

import pytest

from curb_client import UsageError
from curb_client.crabtalk import (
    CrabTalkClient,
    CrabTalkError,
    DaemonClosedError,
    DaemonRefusedError,
    DaemonTimeoutError,
    FrameTooLargeError,
    MalformedMessageError,
    PackageError,
    PackageEvent,
    ToolsAnnounced,
    ToolStart,
    UnknownEvent,
    encode_frame,
    replies,
)
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.errors import CurbError
from curb_client.testing.crab_daemon import CrabDaemon
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from tests.crabtalk.hostile import answering, event, read_request, served_by
from tests.crabtalk.test_frames import mutated

SECONDS = 30.0
HOSTILE = 1500


async def test_a_close_without_a_word_says_what_was_being_done() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if request.HasField("stream"):
            writer.write(encode_frame(event(start=pb.StreamStart(session=3))))
            await writer.drain()

    async with served_by(serve) as client:
        with pytest.raises(DaemonClosedError, match="create_agent: the daemon closed the connection") as closed:
            await client.create_agent("x", {})
        assert closed.value.doing == "create_agent"
        with pytest.raises(DaemonClosedError, match="stream: the daemon closed"):
            await client.stream("hello").text()


async def test_a_frame_that_breaks_off_is_told_with_its_sizes() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"\0\0\0\x64abc")
        await writer.drain()

    async with served_by(serve) as client:
        with pytest.raises(CrabTalkError, match="after 7 of the 104 bytes"):
            await client.ping()


async def test_a_frame_that_would_be_too_large_is_not_read() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(encode_frame(pb.ServerMessage(pong=pb.Pong()))[:0] + b"\x01\0\0\x01")
        await asyncio.wait_for(reader.read(), SECONDS)  # the client hangs up

    async with served_by(serve) as client:
        with pytest.raises(FrameTooLargeError, match="16777217 bytes"):
            await client.ping()


async def test_nothing_too_large_is_sent(daemon: CrabDaemon) -> None:
    async with CrabTalkClient(daemon.address) as client:
        with pytest.raises(FrameTooLargeError, match="ClientMessage has"):
            await client.send("x" * 2**24)
        await client.ping()


async def test_answers_that_are_none() -> None:
    async with served_by(answering(pb.ServerMessage(stats=pb.DaemonStats()))) as client:
        with pytest.raises(MalformedMessageError, match="ping: the daemon's answer is a DaemonStats instead of a Pong"):
            await client.ping()
    async with served_by(answering(pb.ServerMessage())) as client:
        with pytest.raises(MalformedMessageError, match="not known here"):
            await client.ping()
    async with served_by(answering(pb.ServerMessage(pong=pb.Pong()))) as client:
        with pytest.raises(MalformedMessageError, match="a Pong instead of a StreamEvent"):
            await client.stream("x").text()


async def test_deadlines_hold() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with served_by(serve) as client:
        for attempt in (
            client.ping(timeout=0.2),
            client.send("x", timeout=0.2),
            client.stream("x", timeout=0.2).text(),
            client.install_package("a/b", timeout=0.2).done(),
        ):
            with pytest.raises(DaemonTimeoutError, match=r"no answer of the daemon within 0\.2 s"):
                await asyncio.wait_for(attempt, SECONDS)
        with pytest.raises(DaemonTimeoutError):
            async with client.events(timeout=0.2):
                pass
        with pytest.raises(UsageError, match="timeout"):
            await client.ping(timeout=-1)


async def test_a_daemon_that_does_not_read_is_given_up() -> None:
    never = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await never.wait()

    async with served_by(serve) as client:
        with pytest.raises(DaemonTimeoutError, match=r"the daemon took less than \d+ bytes in"):
            await client.send("x" * 15_000_000, timeout=0.5)
        never.set()


@pytest.mark.parametrize("second", ["silence", "an error", "a close"])
async def test_a_session_that_is_killed_stays_so_whatever_is_said_of_its_question(second: str) -> None:
    kills = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal kills
        while (await read_request(reader)).HasField("kill"):
            kills += 1
            if kills == 1:
                writer.write(encode_frame(pb.ServerMessage(pong=pb.Pong())))
            elif second == "an error":
                writer.write(encode_frame(pb.ServerMessage(error=pb.ErrorMsg(code=500, message="no"))))
            elif second == "a close":
                return

    async with served_by(serve) as client:
        await asyncio.wait_for(client.kill(1, timeout=2), SECONDS)
    assert kills == 2


async def test_silence_between_events_is_limited_and_not_the_whole_run() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for _ in range(6):
            writer.write(encode_frame(event(chunk=pb.StreamChunk(content="x"))))
            await asyncio.sleep(0.2)
        writer.write(encode_frame(event(end=pb.StreamEnd())))
        await reader.read()

    async with served_by(serve) as client:
        assert await client.stream("x", timeout=0.9).text() == "xxxxxx"


async def test_a_subscription_pings_a_silent_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "PING_SECONDS", 0.1)
    pings = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pings
        while True:
            if (await read_request(reader)).HasField("ping"):
                pings += 1
                if pings < 6:
                    writer.write(encode_frame(pb.ServerMessage(pong=pb.Pong())))

    async with served_by(serve) as client, client.events(timeout=0.3) as events:
        with pytest.raises(DaemonTimeoutError, match="subscribe_events"):
            await events.__anext__()
    assert pings == 6


async def test_events_before_the_subscription_is_sure_are_kept() -> None:
    early = pb.ServerMessage(agent_event=pb.AgentEventMsg(agent="crab", session=1, kind=99))  # type: ignore[arg-type]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            is_ping = (await read_request(reader)).HasField("ping")
            writer.write(encode_frame(pb.ServerMessage(pong=pb.Pong()) if is_ping else early))

    async with served_by(serve) as client, client.events() as events:
        first = await events.__anext__()
    assert (first.session, first.kind, first.at) == (1, "unknown", None)


async def test_events_of_newer_daemons_are_handed_on() -> None:
    raw = pb.ServerMessage.FromString(b"\x22\x05\xfa\x07\x02hi")
    async with served_by(answering(raw, event(end=pb.StreamEnd()))) as client:
        newer = await client.stream("x").__anext__()
    assert isinstance(newer, UnknownEvent)
    assert newer.message.SerializeToString() == b"\xfa\x07\x02hi"


async def test_a_batch_whose_tools_take_no_arguments() -> None:
    calls = [pb.ToolCallInfo(name="now")]
    start = pb.ToolStartEvent(calls=calls)
    batch = (event(tool_start=start), event(tool_start=start), event(tools_complete=pb.ToolsCompleteEvent()))
    async with served_by(answering(*batch, *batch, event(end=pb.StreamEnd()))) as client:
        events = [type(one) for one in [one async for one in client.stream("x")]]
    assert events[0:2] == [ToolsAnnounced, ToolStart]
    assert events[3:5] == [ToolsAnnounced, ToolStart]


async def test_random_answers_end_in_the_errors_of_the_tree() -> None:
    chance = random.Random(2)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(mutated(chance))
        await writer.drain()

    failed = 0
    async with served_by(serve) as client:
        for number in range(HOSTILE):
            try:
                if number % 2:
                    await asyncio.wait_for(client.ping(timeout=5), SECONDS)
                else:
                    await asyncio.wait_for(client.stream("x", timeout=5).text(), SECONDS)
            except CurbError:
                failed += 1
        assert not client._others._used
        assert not client._at_once._used
    assert failed > HOSTILE // 2


# Packages


async def test_packages() -> None:
    with FakeDaemon(packages={"some/thing": ["cloning", "writing manifest"]}) as daemon:
        async with CrabTalkClient(daemon.address) as client:
            steps = [PackageEvent("step", "cloning"), PackageEvent("step", "writing manifest")]
            assert [one async for one in client.install_package("some/thing")] == steps
            packages = await client.request(pb.ListPackagesMsg(), pb.PackageList)
            assert [one.name for one in packages.packages] == ["some/thing"]
            with pytest.raises(DaemonRefusedError, match="'no/thing' not found"):
                await client.install_package("no/thing", branch="main", force=True).done()


async def test_other_events_of_a_package() -> None:
    hub = [
        pb.HubEvent(warning=pb.HubWarning(message="old")),
        pb.HubEvent(setup_output=pb.HubSetupOutput(content="making")),
        pb.HubEvent(done=pb.HubDone()),
    ]
    async with served_by(answering(*(pb.ServerMessage(hub_event=one) for one in hub))) as client:
        assert await client.install_package("a/b").done() == [
            PackageEvent("warning", "old"),
            PackageEvent("output", "making"),
        ]
    failed = pb.ServerMessage(hub_event=pb.HubEvent(done=pb.HubDone(error="no space left")))
    async with served_by(answering(failed)) as client:
        with pytest.raises(PackageError, match="the package 'a/b': no space left") as error:
            await client.uninstall_package("a/b").done()
    assert (error.value.package, error.value.reason) == ("a/b", "no space left")
