"""The pytest plugin: a LiveKit server for the run, a call for each test, and what passed in it when a test fails.

Nothing is imported before a fixture asks for it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from curb_client.model import ModelEndpoint
    from curb_client.testing.agent_process import AgentProcess
    from curb_client.testing.call import CurbCall
    from curb_client.testing.fake_daemon.daemon import FakeDaemon
    from curb_client.testing.runner_fixture import CurbRunner
    from curb_client.testing.scripted import ScriptedAgent
    from curb_client.testing.server import LiveKitServerHandle

_CALL: pytest.StashKey[CurbCall] = pytest.StashKey()
_MARK = (
    "curb(strict=True, agent_identity=None, settings=None, adjustable=None): how `curb_call` is set up. strict: a "
    "message of the agent that nothing took fails the test. agent_identity: whom curb_call.client talks to. settings, "
    "adjustable: those of curb_call.agent."
)
_MARK_OPTIONS = ("strict", "agent_identity", "settings", "adjustable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("curb", "testing Curb agents").addoption(
        "--livekit",
        dest="curb_livekit",
        metavar="embedded|server|URL",
        help="the LiveKit server of the tests: 'embedded' is one in the test process, 'server' starts a "
        "livekit-server, a ws:// URL names one that runs (with CURB_LIVEKIT_API_KEY and CURB_LIVEKIT_API_SECRET). "
        "Default: CURB_LIVEKIT_URL where set, else 'embedded'.",
    )
    parser.getgroup("curb").addoption(
        "--curb-runner",
        dest="curb_runner",
        metavar="COMMAND",
        help="the runner that the fixture curb_runner starts where the test names none: 'node runner.mjs'.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)


def pytest_report_header(config: pytest.Config) -> str | None:
    if not _has_extra():
        return None
    from curb_client.testing.binary import LIVEKIT_SERVER_VERSION

    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("curb-client", "livekit", "livekit-api"))
    choice = config.getoption("curb_livekit") or os.environ.get("CURB_LIVEKIT_URL") or "embedded"
    return f"curb: {packages}; --livekit={choice} (livekit-server {LIVEKIT_SERVER_VERSION})"


def _has_extra() -> bool:
    """Whether `pip install curb-client[testing]` was done; imports nothing."""
    try:
        return importlib.util.find_spec("livekit.api") is not None
    except ModuleNotFoundError:  # not even its parent
        return False


@pytest.fixture(scope="session")
def curb_livekit(request: pytest.FixtureRequest) -> Iterator[LiveKitServerHandle]:
    """The run's LiveKit server, started when first used; under xdist one for each worker."""
    from curb_client.errors import LiveKitServerError
    from curb_client.testing.server import livekit_server

    try:
        server = livekit_server(
            request.config.getoption("curb_livekit"), progress=lambda line: _tell(request.config, line)
        )
        server.start()
    except LiveKitServerError as error:
        pytest.fail(f"no LiveKit server for the tests: {error}", pytrace=False)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def curb_call(request: pytest.FixtureRequest, curb_livekit: LiveKitServerHandle) -> Iterator[CurbCall]:
    """A call in a fresh room; see :class:`curb_client.testing.CurbCall`, and the marker ``curb``."""
    from curb_client.testing.call import CurbCall

    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("curb"))):
        options.update(_options_of(mark))
    call = CurbCall(curb_livekit, exchange_in_errors=False, **options)
    request.node.stash[_CALL] = call
    yield call
    call.stop_agent_processes()  # where the test's loop ended without ending the call


@pytest.fixture
def curb_agent_process(curb_call: CurbCall) -> Callable[..., Awaitable[AgentProcess]]:
    """Starts an agent of any language in the room: ``await curb_agent_process(["node", "agent.mjs"])``.

    Arguments as of :meth:`curb_client.testing.CurbCall.start_agent_process`.
    """
    return curb_call.start_agent_process


@pytest.fixture
def curb_scripted_agent(curb_call: CurbCall) -> Callable[..., Awaitable[ScriptedAgent]]:
    """Lets a scripted agent into the room, to test an app: ``agent = await curb_scripted_agent("agent.yaml")``.

    Arguments as of :meth:`curb_client.testing.CurbCall.start_scripted_agent`.
    """
    return curb_call.start_scripted_agent


@pytest.fixture
def curb_model() -> Iterator[ModelEndpoint]:
    """A scripted model behind OpenAI's interface, for the agent under test: ``curb_model.script.on("hello", text=…)``.

    Its URL is ``curb_model.url``; see :class:`curb_client.model.ModelEndpoint`. A request that no rule fits fails the
    test.
    """
    from curb_client.testing.model_fixture import scripted_model

    yield from scripted_model()


@pytest.fixture
def curb_crabtalk() -> Iterator[FakeDaemon]:
    """A CrabTalk daemon with a scripted model: ``curb_crabtalk.script.on("hello", text=…)``.

    Its address is ``curb_crabtalk.address``; see :class:`curb_client.testing.fake_daemon.daemon.FakeDaemon`. A request
    to its model that no rule fits fails the test.
    """
    from curb_client.testing.fake_daemon.daemon import FakeDaemon

    with FakeDaemon() as daemon:
        yield daemon
        daemon.check()


@pytest.fixture
def curb_runner(request: pytest.FixtureRequest, curb_call: CurbCall) -> CurbRunner:
    """A runner with a call in the room: ``async with curb_runner(["node", "runner.mjs"]) as hosted: ...``.

    See :meth:`curb_client.testing.runner_fixture.CurbRunner.__call__`.
    """
    from curb_client.testing.runner_fixture import CurbRunner

    return CurbRunner(curb_call, request.config.getoption("curb_runner"))


def _options_of(mark: pytest.Mark) -> dict[str, Any]:
    unknown = [name for name in mark.kwargs if name not in _MARK_OPTIONS]
    if mark.args or unknown:
        what = f"an option {unknown[0]!r}" if unknown else "arguments without a name"
        raise pytest.UsageError(f"the marker curb has {what}; it takes {', '.join(_MARK_OPTIONS)}")
    return dict(mark.kwargs)


def _tell(config: pytest.Config, line: str) -> None:
    """Past the capture: getting a server may take minutes once."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


# The end of a test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    __tracebackhide__ = True
    passed = False
    try:
        yield
        passed = True
    finally:
        call = item.stash.get(_CALL, None)
        if call is not None:
            _end(call, passed)


def _end(call: CurbCall, passed: bool) -> None:
    """In the test's own loop where it is still open; where it is closed, its end has ended the call."""
    __tracebackhide__ = True
    loop = call.loop
    if loop is not None and not loop.is_closed() and not loop.is_running():
        loop.run_until_complete(_close(call, passed))
    problem = _problem(call) if passed else None
    if problem:
        pytest.fail(problem, pytrace=False)


def _problem(call: CurbCall) -> str | None:
    from curb_client.errors import CurbError

    try:
        call.check()
    except CurbError as error:
        return str(error)
    return None


async def _close(call: CurbCall, passed: bool) -> None:
    if passed:
        await call.settle()
    await call.aclose()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    curb_call = item.stash.get(_CALL, None)
    if curb_call is not None and call.excinfo is not None and not item.config.option.fulltrace:
        call.excinfo = _without_library(call.excinfo)
    report = yield
    if curb_call is not None and report.failed:
        report.sections.append((f"exchange in the room {curb_call.room_name}", curb_call.report()))
    return report


def _without_library(excinfo: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    """What the test did is what its author wants to see; ``--full-trace`` shows all."""
    library = Path(__file__).parents[1]
    shown: list[TracebackType] = []
    entry: TracebackType | None = excinfo.tb
    while entry is not None:
        if library not in Path(entry.tb_frame.f_code.co_filename).parents:
            shown.append(entry)
        entry = entry.tb_next
    traceback: TracebackType | None = None
    for entry in reversed(shown):
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    if traceback is None:
        return excinfo
    return pytest.ExceptionInfo.from_exception(excinfo.value.with_traceback(traceback))
