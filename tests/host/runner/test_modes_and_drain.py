"""Draining, the modes in which no host starts calls, metrics, and options."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from curb_client.errors import RunnerStartError, UsageError
from curb_client.host import HostedAgent, Runner, RunnerOptions
from curb_client.host.runner.agent_loading import load_agent
from tests.host.agent import agent
from tests.host.runner.conftest import TOKEN, RunnerFactory, check_type, until

DIRECT_JOIN = {"CURB_MODE": "direct-join", "CURB_REALTIME_URL": "ws://x", "CURB_REALTIME_TOKEN": "t"}


async def test_a_draining_runner_finishes_its_calls_and_takes_no_more(running: RunnerFactory) -> None:
    async with running(agent) as here, here.host.stream() as stream:
        host = here.host
        session_id = await host.connected()
        for _ in range(2):
            status, body = await host.ask("POST", "/v1/runner/drain")
            check_type(body, "DrainAnswer")
            assert (status, body) == (202, {"draining": True, "activeSessions": 1})
        status, body = await host.start("one-more")
        assert (status, body["error"]) == (503, "runner_draining")
        assert await host.start(session_id) == (200, {"sessionId": session_id, "accepted": False})
        async with host.caller(session_id) as caller:
            assert await caller.agent.ask("echo", 1) == 1
            assert (await host.ask("GET", "/v1/runner"))[1]["draining"] is True
        await asyncio.wait_for(here.runner.until_ended(), 30)
        await until(lambda: stream.ended == "eof")
        assert [record["body"] for record in stream.of("runner")][1:] == [{"event": "draining"}, {"event": "ended"}]
        assert stream.event(session_id, "curb.ended") == {"reason": "caller_left"}
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection(*here.runner.address.split(":"))


async def test_the_drain_has_a_deadline(running: RunnerFactory) -> None:
    async with running(agent, drain_seconds=0.2) as here, here.host.stream() as stream:
        session_id = await here.host.connected()
        await here.host.ask("POST", "/v1/runner/drain")
        await asyncio.wait_for(here.runner.until_ended(), 30)
        await until(lambda: stream.ended == "eof")
        assert stream.event(session_id, "curb.ended") == {"reason": "runner_shutdown"}


@pytest.mark.parametrize("mode", ["dev", "worker"])
async def test_dev_and_worker_take_no_calls_from_a_host(running: RunnerFactory, mode: str) -> None:
    async with running(agent, mode=mode) as here:
        for method, path in (("POST", "/v1/sessions"), ("GET", "/v1/runner"), ("POST", "/v1/runner/drain")):
            status, body = await here.host.ask(method, path, {} if method == "POST" else None)
            assert (status, body["error"]) == (501, "runner_takes_no_calls")
        async with here.host.stream() as stream:
            await until(lambda: len(stream.records) == 1)


async def test_direct_join(running: RunnerFactory, curb_livekit: Any) -> None:
    options = {
        "mode": "direct-join",
        "realtime_url": curb_livekit.url,
        "realtime_token": curb_livekit.token("agent", "direct", kind="agent"),
        "session_id": "direct",
    }
    async with running(agent, **options) as here, here.host.stream() as stream:
        host = here.host
        await host.until_state("direct", "connected")
        message = {"id": "m", "name": "echo", "payload": {}}
        for path, body in (("/v1/sessions", {}), ("/v1/sessions/direct/messages", message)):
            status, answer = await host.ask("POST", path, body)
            assert (status, answer["error"]) == (501, "runner_takes_no_calls")
        assert (await host.ask("GET", "/v1/runner"))[1]["activeSessions"] == 1
        async with host.caller("direct") as caller:
            ask = {"name": "human.requested", "payload": {}, "timeout": 0.1}
            assert await caller.agent.ask("ask-host", ask) == {"error": "HostTimeoutError"}
        await asyncio.wait_for(here.runner.until_ended(), 30)
        assert not here.runner.has_failed
        await until(lambda: stream.ended == "eof")
        assert "human.requested" in stream.names("direct"), "the host hears of it all the same"
        assert stream.event("direct", "curb.ended") == {"reason": "caller_left"}


async def test_direct_join_that_cannot(running: RunnerFactory, curb_livekit: Any) -> None:
    options = {"realtime_url": curb_livekit.url, "realtime_token": "no token", "session_id": "direct"}
    async with running(agent, mode="direct-join", **options) as here:
        await asyncio.wait_for(here.runner.until_ended(), 30)
        assert here.runner.has_failed


async def test_metrics_on_a_port_of_their_own(running: RunnerFactory) -> None:
    async with running(agent, metrics_address="127.0.0.1:0") as here:
        host = here.host
        session_id = await host.connected()
        async with host.caller(session_id) as caller:
            await caller.agent.ask("echo", 1)
        await host.until_state(session_id, "ended")
        await host.start("next")
        await host.ask("GET", "/v1/sessions/nobody")
        url = f"http://{here.runner.metrics_address}/metrics"
        async with host.http.get(url) as response:
            text = await response.text()
            assert response.content_type == "text/plain"
        for line in (
            "curb_calls_active 1.0",
            "curb_calls_started_total 2.0",
            'curb_calls_ended_total{reason="caller_left"} 1.0',
            'curb_messages_total{direction="fromClient",outcome="ok"} 1.0',
            'curb_http_requests_total{route="POST /v1/sessions",status="201"} 2.0',
        ):
            assert line in text.splitlines(), text
        assert session_id not in text
        async with host.http.get(f"{here.runner.url}/metrics") as response:
            assert response.status == 401


async def test_a_runner_that_cannot_start() -> None:
    def warm_up() -> None:
        raise RuntimeError("no model")

    hosted = HostedAgent(agent.function, warm_up=warm_up)
    lines: list[str] = []
    with pytest.raises(RunnerStartError, match="warming up failed: RuntimeError: no model"):
        await Runner(hosted, RunnerOptions(token=TOKEN, address="127.0.0.1:0"), print_line=lines.append).start()
    slow = HostedAgent(agent.function, warm_up=asyncio.Event().wait)
    with pytest.raises(RunnerStartError, match=r"warming up: not done after 0.1 s"):
        await Runner(slow, RunnerOptions(token=TOKEN, address="127.0.0.1:0", warm_up_seconds=0.1)).start()
    async with Runner(agent, RunnerOptions(token=TOKEN, address="127.0.0.1:0"), print_line=lines.append) as runner:
        with pytest.raises(RunnerStartError, match="in use"):
            await Runner(agent, RunnerOptions(token=TOKEN, address=runner.address)).start()
        assert json.loads(lines[0].removeprefix("curb-hosted "))["address"] == runner.address
    assert len(lines) == 3


async def test_an_address_that_is_taken_while_it_warms_up() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        hosted = HostedAgent(agent.function, warm_up=other.listen)
        options = RunnerOptions(token=TOKEN, address=f"127.0.0.1:{port}", metrics_address="127.0.0.1:0")
        runner = Runner(hosted, options, print_line=lambda line: pytest.fail(line))
        with pytest.raises(RunnerStartError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
            await runner.start()
        await runner.stop()
        assert runner._metrics is not None
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection(*runner._metrics.address.split(":"))


async def test_a_host_that_no_longer_reads_stdout_does_not_stop_the_runner(caplog: pytest.LogCaptureFixture) -> None:
    def broken(line: str) -> None:
        raise BrokenPipeError("nobody reads")

    async with Runner(agent, RunnerOptions(token=TOKEN, address="127.0.0.1:0"), print_line=broken) as runner:
        runner.drain()
        await asyncio.wait_for(runner.until_ended(), 30)
    assert caplog.text.count("could not be written: nobody reads") == 3


def test_options_from_the_environment() -> None:
    given = {
        "CURB_MANAGEMENT_TOKEN": TOKEN,
        "CURB_MANAGEMENT_ADDRESS": "[::1]:0",
        "CURB_MAX_SESSIONS": "3",
        "CURB_CONFIGURATION_VERSION": "7",
        "CURB_DEPLOYMENT_ID": "",
        "CURB_JOURNAL": "off",
        "CURB_DRAIN_SECONDS": "1.5",
    }
    options = RunnerOptions.from_environment(given, max_sessions=5, address=None)
    assert (options.token, options.address, options.max_sessions) == (TOKEN, "[::1]:0", 5)
    assert (options.configuration_version, options.deployment_id) == (7, None)
    assert (options.journal, options.drain_seconds, options.mode) == (False, 1.5, "managed")
    assert TOKEN not in repr(options)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"CURB_MANAGEMENT_TOKEN": ""}, "CURB_MANAGEMENT_TOKEN"),
        ({"CURB_MANAGEMENT_TOKEN": "with space"}, "CURB_MANAGEMENT_TOKEN"),
        ({"CURB_MAX_SESSIONS": "many"}, "CURB_MAX_SESSIONS is 'many'"),
        ({"CURB_MAX_SESSIONS": "0"}, r"max_sessions \(CURB_MAX_SESSIONS\) is 0"),
        ({"CURB_MANAGEMENT_ADDRESS": "7071"}, "'7071' is no address"),
        ({"CURB_MANAGEMENT_ADDRESS": "::1:7071"}, "is no address"),
        ({"CURB_MANAGEMENT_ADDRESS": "x:70710"}, "is no address"),
        ({"CURB_MODE": "test"}, r"the mode \(CURB_MODE\) is 'test'"),
        ({"CURB_MODE": "direct-join", "CURB_SESSION_ID": "x"}, "set CURB_REALTIME_URL and CURB_REALTIME_TOKEN"),
        ({**DIRECT_JOIN, "CURB_SESSION_ID": "runner"}, r"session_id \(CURB_SESSION_ID\) is 'runner'"),
        ({"CURB_JOURNAL": "yes"}, "CURB_JOURNAL is 'yes'"),
        ({"CURB_DRAIN_SECONDS": "soon"}, "CURB_DRAIN_SECONDS is 'soon'"),
        ({"CURB_DRAIN_SECONDS": "nan"}, r"drain_seconds \(CURB_DRAIN_SECONDS\) is nan"),
    ],
)
def test_an_environment_that_does_not_fit(change: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RunnerOptions.from_environment({"CURB_MANAGEMENT_TOKEN": TOKEN, **change})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tests.host.agent", "give module:attribute"),
        ("tests.host.nothing:agent", "no module 'tests.host.nothing'"),
        ("tests.host.agent:nothing", "has no 'nothing'"),
        ("tests.host.agent:SETTINGS", "is no HostedAgent"),
        ("tests.host.agent:HostedAgent", "is no HostedAgent"),
    ],
)
def test_names_of_no_agent(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_agent(name)


def test_names_of_an_agent() -> None:
    assert load_agent("tests.host.agent:agent") is agent
    assert load_agent("tests.host.agent:answer").function is agent.function
