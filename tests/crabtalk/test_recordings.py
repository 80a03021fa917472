"""What a real daemon said: read, written, and said again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from curb_client.crabtalk import (
    AskUser,
    CrabTalkClient,
    DaemonClosedError,
    DaemonNotFoundError,
    DaemonRefusedError,
    FrameDecoder,
    StreamChunk,
    ToolCall,
    ToolResult,
    ToolsAnnounced,
    ToolStart,
    UnixAddress,
    encode_frame,
)
from curb_client.crabtalk import crabtalk_pb2 as pb
from curb_client.errors import ExpectationError, UsageError
from curb_client.testing.fake_daemon.daemon import FakeDaemon
from curb_client.testing.fake_daemon.replay import RecordedStep, ReplayedDaemon, read_frames
from tests.crabtalk.conftest import script
from tests.crabtalk.recorded import FOLDER, FRAMES, RECORDINGS

SECONDS = 20.0


def test_the_recordings_are_there() -> None:
    assert len(RECORDINGS) == 13
    assert len(FRAMES) == 240


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_frame_decodes_and_encodes_to_the_same_bytes(name: str) -> None:
    for step in RECORDINGS[name]:
        if step.message is None:
            continue
        kind: Any = pb.ClientMessage if step.direction == "C>S" else pb.ServerMessage
        (payload,) = FrameDecoder().feed(step.data)
        message = kind.FromString(bytes(payload))
        assert encode_frame(message) == step.data
        assert MessageToDict(message, preserving_proto_field_name=True) == step.message
        assert encode_frame(ParseDict(step.message, kind())) == step.data


async def talk(address: UnixAddress, steps: list[RecordedStep]) -> None:
    """Send what the client sent, and read what the daemon said, byte by byte."""
    streams: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
    try:
        for step in steps:
            if step.connection not in streams:
                streams[step.connection] = await asyncio.open_unix_connection(str(address.path))
            reader, writer = streams[step.connection]
            if step.direction == "C>S":
                writer.write(step.data)
                await writer.drain()
            elif step.data:
                assert await asyncio.wait_for(reader.readexactly(len(step.data)), SECONDS) == step.data
            elif step.note.startswith("EOF"):
                assert await asyncio.wait_for(reader.read(), SECONDS) == b""
    finally:
        for _, writer in streams.values():
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize("name", sorted(set(RECORDINGS) - {"truncated"}))
async def test_a_replay_says_the_recorded_bytes(name: str) -> None:
    with ReplayedDaemon(FOLDER / f"{name}.jsonl") as daemon:
        await talk(daemon.address, RECORDINGS[name])
        daemon.check()


async def test_a_fake_daemon_says_nothing_to_bad_bytes_as_the_real_one() -> None:
    with FakeDaemon() as daemon:
        await talk(daemon.address, RECORDINGS["malformed"])
        reader, writer = await asyncio.open_unix_connection(str(daemon.address.path))
        writer.write(RECORDINGS["truncated"][0].data)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), SECONDS) == b""
        writer.close()


async def test_the_client_replays_a_stream_with_tools() -> None:
    with ReplayedDaemon(FOLDER / "stream-tools.jsonl") as daemon:
        async with CrabTalkClient(daemon.address) as client:
            one = [event async for event in client.stream("TOOL1", sender="probe-t1", new_chat=True)]
            two = [event async for event in client.stream("TOOL2", sender="probe-t2", new_chat=True)]
            three = client.stream("THINK", sender="probe-th", new_chat=True)
            assert await three.text() == "thought about it"
            assert await client.stream("EMPTY", sender="probe-em", new_chat=True).text() == ""
        daemon.check()
    assert [event for event in one if isinstance(event, ToolsAnnounced)] == [ToolsAnnounced(("bash",))]
    (start,) = (event for event in two if isinstance(event, ToolStart))
    results = [event for event in two if isinstance(event, ToolResult)]
    assert [result.call for result in results] == list(start.calls)
    assert results[1].call == ToolCall("bash", '{"command":"sleep 0.3; echo two"}')
    assert json.loads(results[1].output)["stdout"] == "two\n"
    assert three.session == 10
    assert three.end is not None
    assert three.end.usage is not None
    assert three.end.usage.total_tokens == 18


async def test_the_client_replays_agents() -> None:
    config = json.dumps(
        {
            "description": "A scout", "model": "fake-model", "max_iterations": 3, "thinking": True,
            "members": ["crab"], "skills": ["greet"], "mcps": [], "compact_threshold": 5000,
        }
    )  # fmt: skip
    with ReplayedDaemon(FOLDER / "agents.jsonl") as daemon:
        async with CrabTalkClient(daemon.address) as client:
            create = pb.CreateAgentMsg(name="scoutuds", config=config)
            with pytest.raises(DaemonRefusedError, match="500, agent 'scoutuds' not found"):
                await client.request(create, pb.AgentInfo)
            assert [agent.name for agent in await client.agents()] == ["crab"]
            with pytest.raises(DaemonRefusedError, match="already exists"):
                await client.request(create, pb.AgentInfo)
            assert (await client.update_agent("scoutuds", config)).description == "A scout"
            assert (await client.agent("scoutuds")).thinking


async def test_the_client_replays_a_question() -> None:
    with ReplayedDaemon(FOLDER / "ask-user.jsonl") as daemon:
        async with CrabTalkClient(daemon.address) as client:
            results = []
            async for event in client.stream("ASKME", sender="probe-ask", new_chat=True):
                if isinstance(event, AskUser):
                    assert [question.is_multiple for question in event.questions] == [False, True]
                    with pytest.raises(DaemonNotFoundError, match="no pending ask_user for session 1015"):
                        await client.reply_to_ask(1015, "x")
                    assert (await client.stats()).active_sessions == 1
                    await client.reply_to_ask(event.session, {"Which database?": "SQLite", "Which features?": "A, B"})
                elif isinstance(event, (ToolResult, StreamChunk)):
                    results.append(event.output if isinstance(event, ToolResult) else event.content)
            assert results[0] == results[2]


async def test_the_fake_daemon_refuses_with_the_recorded_words() -> None:
    """The words, and the codes, of what does not depend on what happened before."""
    with FakeDaemon(script()) as daemon:
        reader, writer = await asyncio.open_unix_connection(str(daemon.address.path))
        compared = 0
        for name in ("inspect", "stream-errors", "agents", "compact-kill", "cron"):
            for asked, said in zip(RECORDINGS[name], RECORDINGS[name][1:], strict=False):
                error = (said.message or {}).get("error")
                if error is None or asked.direction == "S>C" or not _is_independent(asked):
                    continue
                writer.write(asked.data)
                answer = await asyncio.wait_for(reader.readexactly(len(said.data)), SECONDS)
                assert answer == said.data, (name, asked.message)
                compared += 1
        writer.close()
    assert compared >= 8


def _is_independent(step: RecordedStep) -> bool:
    ((doing, fields),) = (step.message or {}).items()
    assert isinstance(fields, dict)
    if doing in ("create_cron", "create_agent") and fields.get("name") != "bad":
        return False  # the text of a schedule's parser is its own; an agent that exists
    return doing != "delete_agent" or fields["name"] == "crab"


async def test_a_replay_tells_what_was_not_recorded() -> None:
    with ReplayedDaemon(FOLDER / "ping.jsonl") as daemon:
        with pytest.raises(ExpectationError, match="2 frames of the recording were not played"):
            daemon.check()
        async with CrabTalkClient(daemon.address) as client:
            with pytest.raises(DaemonClosedError, match="get_stats: the daemon closed the connection"):
                await client.stats()
        with pytest.raises(ExpectationError, match="step 1 of the recording"):
            daemon.check()


def test_what_is_no_recording(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"conn": "c", "dir": "C>S", "hex": "00"}\n[]\n')
    with pytest.raises(UsageError, match="line 2: no step of a recording"):
        read_frames(file)
