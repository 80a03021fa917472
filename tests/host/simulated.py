"""Runners in memory, as the protocol tells them, on a network that loses requests, answers and connections; and a
clock that jumps to the next thing to happen. With one seed, always the same happens.
"""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from curb_client.errors import RunnerTimeoutError, RunnerUnreachableError
from curb_client.host import ByteStream
from curb_client.host.transport import Answer, Request
from tests.host.scripted_runner import asked, ended, lifecycle, line, ready, turn


class JumpingLoop(asyncio.SelectorEventLoop):
    """Where nothing is ready, time goes on to the next timer at once."""

    def __init__(self) -> None:
        self._now = 1_000.0
        super().__init__(_NoWaiting(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds


class _NoWaiting(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            assert timeout is not None, "nothing will ever happen: it hangs"
            self._loop.jump(timeout)
        return events


@dataclass
class Faults:
    """Chances, from 0 to 1."""

    request_lost: float = 0.0  # before the runner had it
    answer_lost: float = 0.0  # after it did what it was asked
    silent: float = 0.0  # neither: the time-out ends it
    refused: float = 0.0  # no connection
    stream_broken: float = 0.0  # at each read


@dataclass
class World:
    rng: random.Random
    faults: Faults
    runs: Counter[str] = field(default_factory=Counter)  # by call, how often it began to run anywhere
    running: dict[str, str] = field(default_factory=dict)  # the runner of each call that runs now
    asked: set[str] = field(default_factory=set)
    replies: dict[str, str] = field(default_factory=dict)  # by call and ask
    died_running: set[str] = field(default_factory=set)
    doubled: list[str] = field(default_factory=list)


class SimulatedRunner:
    """Takes calls, lets them go on for a while, and says so on its stream."""

    def __init__(self, world: World, name: str, most: int, held: int = 4096) -> None:
        self.world = world
        self.name = name
        self.most = most
        self.held = held
        self.is_dead = False
        self.begin()

    def begin(self) -> None:
        self.is_dead = False
        self.draining = False
        self.journal: list[bytes] = []
        self.states: dict[str, str] = {}
        self.seqs: Counter[str] = Counter()
        self.more = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        record = ready(1, at=round(asyncio.get_running_loop().time() * 1000))
        self.seqs["runner"] = 1
        self.journal.append(line(record))

    @property
    def active(self) -> list[str]:
        return [call for call, state in self.states.items() if state != "ended"]

    def write(self, record: dict[str, Any]) -> None:
        producer = record["producer"]
        self.seqs[producer] += 1
        self.journal.append(line({**record, "seq": self.seqs[producer], "envelope": len(self.journal) + 1}))
        self.more.set()
        self.more = asyncio.Event()

    def die(self) -> None:
        self.is_dead = True
        for task in self.tasks:
            task.cancel()
        for call in self.active:
            self.world.died_running.add(call)
            self.world.running.pop(call, None)
        self.more.set()

    def drain(self) -> None:
        self.draining = True
        self.write(lifecycle(1, "draining", 1))

    async def run_call(self, call: str) -> None:
        rng = self.world.rng
        turns = rng.randint(1, 4)
        for number in range(turns):
            await asyncio.sleep(rng.uniform(0.1, 20))
            self.write(turn(1, call, text=f"turn {number}"))
            if number == 0 and turns > 1:
                self.world.asked.add(call)
                self.write(asked(1, "a-1", "human.requested", {"of": call}, call))
        self.states[call] = "ended"
        del self.world.running[call]
        self.write(ended(1, call))

    def answer(self, request: Request) -> tuple[int, object]:
        path = request.path.partition("?")[0]
        if request.method == "POST" and path == "/v1/sessions":
            return self.start(json.loads(request.body or "")["sessionId"])
        if path == "/health":
            return 200, {"ok": True, "protocolVersion": 1, "versions": [1]}
        if path == "/v1/runner":
            return 200, {
                "protocolVersion": 1, "maxSessions": self.most, "activeSessions": len(self.active),
                "draining": self.draining,
                "sessions": [live(call, state) for call, state in self.states.items() if state != "ended"],
            }  # fmt: skip
        call = path.split("/")[3]
        if call not in self.states:
            return 404, {"error": "session_not_found"}
        if request.method == "GET":
            return 200, live(call, self.states[call])
        message = json.loads(request.body or "")
        if self.states[call] == "ended":
            return 404, {"error": "session_not_found"}
        answered = f"{call} {message['inReplyTo']}"
        is_new = answered not in self.world.replies
        self.world.replies[answered] = message["payload"]["of"]
        return 202, {"id": message["id"], "delivered": is_new}

    def start(self, call: str) -> tuple[int, object]:
        if call in self.states:
            return 200, {"sessionId": call, "accepted": False}
        if self.draining:
            return 503, {"error": "runner_draining"}
        if len(self.active) >= self.most:
            return 409, {"error": "runner_at_capacity"}
        if call in self.world.running:
            self.world.doubled.append(call)
        self.world.runs[call] += 1
        self.world.running[call] = self.name
        self.states[call] = "connected"
        task = asyncio.ensure_future(self.run_call(call))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return 201, {"sessionId": call, "accepted": True}

    def end(self) -> None:
        self.write(lifecycle(1, "ended", 1))


def live(call: str, state: str) -> dict[str, Any]:
    return {"sessionId": call, "state": state, "startedAtMs": 0}


class SimulatedTransport:
    """The network between one host and one runner."""

    def __init__(self, runner: SimulatedRunner) -> None:
        self.runner = runner

    def has_died(self) -> bool:
        return self.runner.is_dead

    async def request(self, request: Request) -> Answer:
        rng, faults = self.runner.world.rng, self.runner.world.faults
        await asyncio.sleep(rng.uniform(0.001, 0.02))
        if self.has_died() or rng.random() < faults.refused:
            raise RunnerUnreachableError("no connection", maybe_taken=False, refused=True)
        if rng.random() < faults.request_lost:
            raise RunnerUnreachableError("the connection broke", maybe_taken=True)
        if rng.random() < faults.silent:
            await asyncio.sleep(request.timeout)
            raise RunnerTimeoutError("no answer", maybe_taken=True)
        status, value = self.runner.answer(request)
        await asyncio.sleep(rng.uniform(0.001, 0.02))
        if self.has_died() or rng.random() < faults.answer_lost:
            raise RunnerUnreachableError("the connection broke", maybe_taken=True)
        return Answer(status, json.dumps(value).encode())

    async def stream(self, request: Request) -> Answer | ByteStream:
        rng = self.runner.world.rng
        await asyncio.sleep(rng.uniform(0.001, 0.02))
        if self.runner.is_dead or rng.random() < self.runner.world.faults.refused:
            raise RunnerUnreachableError("no connection", maybe_taken=False, refused=True)
        _, _, after = request.path.partition("from=")
        newest = len(self.runner.journal)
        position = int(after) if after else newest
        if position > newest:
            return Answer(400, b'{"error":"invalid_request"}')
        oldest = max(newest - self.runner.held + 1, 1)
        if 0 < position < oldest - 1:
            body = {"error": "cursor_too_old", "requested": position, "oldestRetained": oldest}
            return Answer(410, json.dumps(body).encode())
        return SimulatedStream(self.runner, max(position, oldest - 1))

    async def aclose(self) -> None:
        pass


class SimulatedStream:
    def __init__(self, runner: SimulatedRunner, position: int) -> None:
        self.runner = runner
        self.journal = runner.journal
        self.position = position
        self.rest = b""

    async def read(self) -> bytes:
        rng = self.runner.world.rng
        more = self.runner.more
        if not self.rest and self.position >= len(self.journal) and not self.is_cut():
            try:
                await asyncio.wait_for(more.wait(), 15)
            except asyncio.TimeoutError:
                return b'{"ping":1}\n'
        if self.is_cut() or rng.random() < self.runner.world.faults.stream_broken:
            raise RunnerUnreachableError("the stream broke", maybe_taken=True)
        if not self.rest:
            self.rest = b"".join(self.journal[self.position : self.position + 20])
            self.position = min(self.position + 20, len(self.journal))
        cut = rng.randint(1, len(self.rest)) if self.rest and rng.random() < 0.1 else len(self.rest)
        data, self.rest = self.rest[:cut], self.rest[cut:]
        return data or b"\n"

    def is_cut(self) -> bool:
        return self.runner.is_dead or self.runner.journal is not self.journal

    def close(self) -> None:
        pass
