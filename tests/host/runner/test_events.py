"""The event stream over HTTP: replay, resume, heartbeat, 410, slow readers, and its end."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from curb_client import AgentCall
from curb_client.host import CallContext
from tests.host.agent import agent
from tests.host.runner.conftest import TOKEN, RunnerFactory, check_type, until


def talkative(call: AgentCall, context: CallContext) -> None:
    def talk(payload: Any, meta: Any) -> None:
        for number in range(payload["times"]):
            context.record_turn("assistant", f"{number} " + "x" * payload["length"])

    call.on_message("talk", talk, sender="host")


async def talk(host: Any, session_id: str, message_id: str, times: int, length: int = 10) -> None:
    message = {"id": message_id, "name": "talk", "payload": {"times": times, "length": length}}
    status, _ = await host.ask("POST", f"/v1/sessions/{session_id}/messages", message)
    assert status == 202


async def test_replay_resume_and_from_now_on(running: RunnerFactory) -> None:
    async with running(talkative) as here:
        host = here.host
        session_id = await host.connected()
        await talk(host, session_id, "m-1", 20)
        async with host.stream() as whole, host.stream(10) as rest, host.stream(None) as new:
            await until(lambda: len(whole.records) == 23 and len(rest.records) == 13)
            assert [record["envelope"] for record in whole.records] == [*range(1, 24)]
            assert rest.records == whole.records[10:]
            assert whole.records[0]["body"]["event"] == "ready"
            assert (whole.records[0]["producer"], whole.records[0]["class"]) == ("runner", "lifecycle")
            assert new.records == []
            await talk(host, session_id, "m-2", 1)
            await until(lambda: len(whole.records) == 25)
            await until(lambda: new.records == whole.records[23:])
            await until(lambda: here.runner.counters.readers == 3)


async def test_a_cursor_older_than_the_window_or_from_the_future(running: RunnerFactory) -> None:
    async with running(talkative, retained_records=8) as here:
        host = here.host
        session_id = await host.connected()
        await talk(host, session_id, "m-1", 20)
        status, body = await host.ask("GET", "/v1/runner/events?from=5")
        assert status == 410
        check_type(body, "ErrorBody")
        assert (body["error"], body["requested"], body["oldestRetained"]) == ("cursor_too_old", 5, 16)
        async with host.stream(15) as stream, host.stream(0) as all_held:
            await until(lambda: len(stream.records) == 8)
            await until(lambda: all_held.records == stream.records)
        for query in ("from=24", "from=-1", "from=x", "from=", "from=1&from=2", "from=1e1", "from=%zz", "from=9" * 3):
            status, body = await host.ask("GET", f"/v1/runner/events?{query}")
            assert (status, body["error"]) == (400, "invalid_request"), query


async def test_an_idle_stream_has_pings(running: RunnerFactory) -> None:
    async with running(agent, heartbeat_seconds=0.05) as here, here.host.stream() as stream:
        await until(lambda: stream.pings >= 3)
        assert len(stream.records) == 1


async def test_a_reader_that_is_too_slow_is_cut_off_and_hurts_nobody(running: RunnerFactory) -> None:
    async with running(talkative, retained_records=50, stalled_seconds=60) as here:
        host = here.host
        session_id = await host.connected()
        async with host.stream() as quick:
            reader, writer = await slow_reader(here.runner.address)
            await reader.readuntil(b"\r\n\r\n")
            await until(lambda: here.runner.counters.readers == 2)
            for number in range(12):
                await talk(host, session_id, f"m-{number}", 25, 20_000)
                seen = here.runner.newest_envelope
                await until(lambda wanted=seen: quick.records[-1]["envelope"] == wanted)
            # It reads on now, and gets what the window still had of it, then the end of its connection.
            rest = b""
            while data := await read_or_broken(reader):
                rest += data
            assert not rest.endswith(b"0\r\n\r\n"), "no clean end: it is to resume"
            writer.close()
            await until(lambda: here.runner.counters.readers_cut == 1)
            assert [record["envelope"] for record in quick.records] == [*range(1, seen + 1)]


async def test_a_reader_that_takes_nothing_is_cut_off_in_time(running: RunnerFactory) -> None:
    async with running(talkative, stalled_seconds=0.3) as here:
        session_id = await here.host.connected()
        _, writer = await slow_reader(here.runner.address)
        await until(lambda: here.runner.counters.readers == 1)
        await talk(here.host, session_id, "m-1", 300, 20_000)
        await until(lambda: here.runner.counters.readers_cut == 1)
        writer.transport.abort()


async def slow_reader(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = address.split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=made, limit=4096)
    writer.write(f"GET /v1/runner/events?from=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    return reader, writer


async def read_or_broken(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(65536), 30)
    except ConnectionError:
        return b""


async def test_the_stream_ends_with_the_runner_and_not_before_its_last_record(running: RunnerFactory) -> None:
    async with running(agent) as here, here.host.stream() as first, here.host.stream(0) as second:
        session_id = await here.host.connected()
        stopping = asyncio.ensure_future(here.runner.stop())
        await until(lambda: first.ended == "eof" and second.ended == "eof", within=30)
        await stopping
        for stream in (first, second):
            assert stream.event(session_id, "curb.ended") == {"reason": "runner_shutdown"}
            assert [record["body"]["event"] for record in stream.of("runner")] == ["ready", "draining", "ended"]
            assert stream.records[-1]["body"] == {"event": "ended"}
        assert [line.split('"event":"')[1].split('"')[0] for line in here.lines] == ["ready", "draining", "ended"]
        assert all(line.startswith('curb-hosted {"event":') for line in here.lines)


async def test_without_a_journal_there_is_no_stream_and_no_host(running: RunnerFactory) -> None:
    async with running(agent, journal=False) as here:
        host = here.host
        status, body = await host.ask("GET", "/v1/runner/events?from=0")
        assert (status, body["error"]) == (501, "no_journal")
        session_id = await host.connected()
        async with host.caller(session_id) as caller:
            ask = {"name": "x", "payload": {}, "timeout": 30}
            assert await caller.agent.ask("ask-host", ask) == {"error": "HostUnavailableError"}
        await host.until_state(session_id, "ended")
        assert here.lines[0].startswith('curb-hosted {"event":"ready"')
