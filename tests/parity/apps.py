"""Apps of callers that are told what to do: one in Python, one in a page, one in Node.js; app.js has the other two.

All take the same operations, and tell in the same words what came of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from livekit import rtc
from playwright.async_api import Page

from curb_client import AgentClient, connect_agent
from tests.js.test_js_package import run

__all__ = ["FOLDER", "App", "NodeProcess", "PageApps", "PythonApp", "build_for_node"]

FOLDER: Final = Path(__file__).parent
WITHIN: Final = 60.0
TOLD: Final = ("code", "path", "issues", "size", "limit", "state")
ODD: Final = {"<NaN>": float("nan"), "<2^53>": 2**53, "<lone surrogate>": "\ud800"}
SCENARIOS: Final = {
    "signal-reconnect": rtc.SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT,
    "full-reconnect": rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT,
}


class App(ABC):
    """A caller's app."""

    @abstractmethod
    async def do(self, op: str, *arguments: Any) -> list[Any]:
        """What came of an operation: ``["ok", value]``, or ``["failed", error]`` with the error's name and details."""

    async def got(self, op: str, *arguments: Any) -> Any:
        """The value of an operation that succeeds."""
        state, value = await asyncio.wait_for(self.do(op, *arguments), WITHIN)
        assert state == "ok", f"{op} {arguments!r:.200} failed: {value}"
        return value

    async def failure(self, op: str, *arguments: Any) -> Any:
        """The error of an operation that fails."""
        state, value = await asyncio.wait_for(self.do(op, *arguments), WITHIN)
        assert state == "failed", f"{op} {arguments!r:.200} gave {value!r:.200}"
        return value

    async def begin(self, op: str, *arguments: Any) -> asyncio.Task[list[Any]]:
        """Starts an operation before the next one."""
        task = asyncio.ensure_future(self.do(op, *arguments))
        await asyncio.sleep(0)
        return task


class PythonApp(App):
    """The client of the Python package."""

    def __init__(self) -> None:
        self._room = rtc.Room()
        self._logs: dict[str, list[Any]] = {}
        self._stops: dict[str, Callable[[], None]] = {}
        self._states: list[str] = []
        self._agent: AgentClient | None = None

    @property
    def agent(self) -> AgentClient:
        assert self._agent is not None
        return self._agent

    async def do(self, op: str, *arguments: Any) -> list[Any]:
        try:
            return ["ok", await getattr(self, f"_{op}")(*arguments)]
        except Exception as error:
            return ["failed", _plain(error)]

    async def _connect(self, url: str, token: str) -> None:
        await self._room.connect(url, token)
        await self._room.local_participant.set_attributes({"here": "1"})

    async def _disconnect(self) -> None:
        await self._room.disconnect()

    async def _simulate(self, scenario: str) -> None:
        back = asyncio.Event()
        self._room.once("reconnected", back.set)
        await self._room.simulate_scenario(SCENARIOS[scenario])
        await back.wait()

    async def _open(self, agent_identity: str | None = None) -> None:
        self._logs.clear()
        self._agent = connect_agent(self._room, agent_identity=agent_identity)
        self._states = [self.agent.presence.state.value]
        self.agent.on_presence(lambda presence: self._states.append(presence.state.value))

    async def _second(self) -> None:
        connect_agent(self._room)

    async def _close(self) -> None:
        await self.agent.aclose()

    async def _send(self, key: str, payload: Any, options: Any = None) -> None:
        await self.agent.send(key, _revived(payload), **_named(options))

    async def _ask(self, key: str, payload: Any, options: Any = None) -> Any:
        return await self.agent.ask(key, _revived(payload), **_named(options))

    async def _askNothing(self, key: str) -> Any:  # noqa: N802 - as in app.js
        return await self.agent.ask(key)

    async def _update(self, settings: Any, options: Any = None) -> Any:
        return (await self.agent.update(settings, **_named(options))).to_wire()

    async def _waitFor(self, key: str, options: Any = None) -> Any:  # noqa: N802
        return await self.agent.wait_for(key, **_named(options))

    async def _on(self, key: str, name: str) -> None:
        log = self._logs.setdefault(name, [])
        self._stops[name] = self.agent.on(key, lambda payload, meta: log.append([payload, meta.sender_identity]))

    async def _off(self, name: str) -> None:
        self._stops[name]()

    async def _log(self, name: str) -> Any:
        return list(self._logs[name])

    async def _messages(self, key: str, count: int) -> Any:
        found = []
        async with contextlib.aclosing(self.agent.messages(key)) as messages:
            async for payload, _ in messages:
                found.append(payload)
                if len(found) == count:
                    break
        return found

    async def _presence(self) -> Any:
        presence = self.agent.presence
        return {"state": presence.state.value, "identity": presence.identity}

    async def _told(self) -> Any:
        return list(self._states)

    async def _counts(self) -> Any:
        counts = self.agent.counts
        return {**vars(counts), "unhandled": dict(counts.unhandled)}


def _named(options: Any) -> dict[str, Any]:
    return {{"messageId": "message_id"}.get(name, name): value for name, value in (options or {}).items()}


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _revived(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_revived(each) for each in value]
    return ODD.get(value, value) if isinstance(value, str) else value


def _plain(error: Exception) -> dict[str, Any]:
    told: dict[str, Any] = {"name": type(error).__name__}
    for name in TOLD:
        value = getattr(error, name, None)
        if name == "issues":
            value = [issue.to_wire() for issue in value or ()] or None
        if value is not None:
            told[name] = list(value) if isinstance(value, tuple) else value
    return told


class PageApps:
    """Apps in one page with livekit-client and curb-client, as script tags load them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._numbers = itertools.count()

    def app(self) -> App:
        return _OtherApp(next(self._numbers), self._do)

    async def _do(self, app: int, op: str, arguments: list[Any]) -> Any:
        return await self.page.evaluate("([app, op, args]) => appOf(app).do(op, args)", [app, op, arguments])


PAGE_SCRIPT: Final = """
const apps = new Map();
const simulate = (room, scenario) => room.simulateScenario(scenario);
const { connectAgent, isRpcError, messages, waitFor } = CurbClient;
function appOf(number) {
  const { Room } = LivekitClient;
  if (!apps.has(number)) apps.set(number, makeApp({ Room, connectAgent, isRpcError, messages, simulate, waitFor }));
  return apps.get(number);
}
"""


class NodeProcess:
    """Apps in one process of Node.js, on @livekit/rtc-node; ``running`` starts it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._said: list[str] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, folder: Path) -> AsyncIterator[NodeProcess]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "node", str(folder / "node.mjs"), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT, limit=2**22
        )
        apps = cls(process)
        reading = asyncio.ensure_future(apps._read())
        try:
            yield apps
        finally:
            await apps._end()
            await asyncio.wait_for(reading, WITHIN)

    def app(self) -> App:
        return _OtherApp(next(self._numbers), self._do)

    def unhandled(self) -> list[str]:
        """The rejections that nobody caught."""
        return [line for line in self._said if line.startswith("unhandled ")]

    async def _do(self, app: int, op: str, arguments: list[Any]) -> Any:
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"id": number, "app": app, "op": op, "args": arguments})
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        return await answer

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for raw in self._process.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            if line.startswith("answer "):
                answer = json.loads(line.removeprefix("answer "))
                self._waiting.pop(answer["id"]).set_result(answer["outcome"])
            else:
                self._said.append(line)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(RuntimeError("the Node process has ended: " + "\n".join(self._said[-20:])))

    async def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 20)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._process.wait()


class _OtherApp(App):
    """One of the apps of a page or of a Node process."""

    def __init__(self, number: int, do: Callable[[int, str, list[Any]], Any]) -> None:
        self._number = number
        self._do = do

    async def do(self, op: str, *arguments: Any) -> list[Any]:
        outcome = await self._do(self._number, op, list(arguments))
        assert isinstance(outcome, list)
        return outcome


def build_for_node(js: Path, name: str) -> Path:
    """The folder with the package's entry for Node.js and the apps beside it, inside js/, where the SDK is found."""
    folder = js / "node_modules" / ".cache" / name
    run(js, "node", "build.mjs", "--no-types", CURB_DIST=str(folder))
    for file in ("app.js", "node.mjs"):
        shutil.copy(FOLDER / file, folder)
    return folder
