"""Whoever is killed in mid-call, and in whatever order: what the host had received is not lost, and nobody hangs."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.host.chaos import CALL, World, world

pytestmark = [
    pytest.mark.livekit,
    pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's"),
]

VICTIMS = ("runner", "livekit", "host")
ORDERS = {first: [order for order in itertools.permutations(VICTIMS) if order[0] == first] for first in VICTIMS}


@pytest.fixture
def livekit(request: pytest.FixtureRequest) -> str:
    """Which kind of server; one that runs already is not ours to kill, so it is the embedded one then."""
    choice = request.config.getoption("curb_livekit") or os.environ.get("CURB_LIVEKIT_URL") or "embedded"
    return choice if choice in ("embedded", "server") else "embedded"


def no_hole(lines: list[dict[str, Any]]) -> None:
    """Of one runner: each envelope from the first on came, or is in a gap that was told."""
    told = {line["envelope"] for line in lines if "envelope" in line}
    for line in lines:
        if "gap" in line:
            told.update(range(line["gap"][0], line["gap"][1] + 1))
    assert told == set(range(1, max(told) + 1))


async def killed_in_order(made: World, order: tuple[str, ...]) -> None:
    """All three, one after the other; then a new runner in the old one's place, and a new host with the old files."""
    for victim in order:
        made.kill(victim)
        if victim == "host":
            assert made.stored() <= max(made.received()), "the cursor is never past what was received"
        await made.survivors_go_on()
    before = len(made.log())
    await made.start_runner()
    made.start_host()

    def is_told() -> bool:
        """That there is another runner, from its first record on, and that the call was cut, unless its end had come.

        Before that record the host may not have connected anew, and a runner without calls that is drained is gone at
        once.
        """
        new = made.log()[before:]
        is_over = any(line.get("ends") or "cut" in line for line in made.log())
        return is_over and any("restarted" in line for line in new) and any(line.get("envelope") == 1 for line in new)

    await made.until(is_told, f"{order}: the call is told to be cut")
    await made.drain()
    log = made.log()
    (restart,) = [number for number, line in enumerate(log) if "restarted" in line]
    assert restart >= before
    assert log[restart]["restarted"] <= max(line["envelope"] for line in log[:before] if "envelope" in line)
    no_hole(log[:restart])
    no_hole(log[restart:])
    ended = [line for line in log[:restart] if line.get("ends")]
    cut = [line for line in log if "cut" in line]
    assert ended or cut == [{"cut": CALL, "cause": "restarted"}]
    assert made.failed_requests, "whoever asked was told"


@pytest.mark.parametrize("first", VICTIMS)
async def test_killed_in_every_order(tmp_path: Path, livekit: str, first: str) -> None:
    async def scenario(order: tuple[str, ...]) -> None:
        async with world(tmp_path / "-".join(order), livekit) as made:
            await killed_in_order(made, order)

    await asyncio.gather(*map(scenario, ORDERS[first]))


async def host_alone(directory: Path, livekit: str) -> None:
    """Twice: the runner's record is whole in the end, and equal to what another reader gets."""
    async with world(directory, livekit) as made:
        for _ in range(2):
            made.kill("host")
            assert made.stored() <= max(made.received())
            await made.survivors_go_on()
            made.start_host()
            await made.survivors_go_on()
        async with made._runners[0].client() as runner:
            await runner.stop_call(CALL, reason="done")
            await made.until(lambda: any(line.get("ends") for line in made.log()), "the end of the call")
            newest = max(made.received())
            replay = {}
            async with runner.events(0) as stream:
                async for record in stream:
                    envelope = getattr(record, "envelope", 0)
                    replay[envelope] = getattr(record, "seq", None), getattr(record, "producer", None)
                    if envelope >= newest:
                        break
        await made.drain()
        log = made.log()
        no_hole(log)
        assert not [line for line in log if line.keys() & {"gap", "lost", "cut", "restarted"}]
        came = {line["envelope"]: (line["seq"], line["producer"]) for line in log if "envelope" in line}
        assert {envelope: came[envelope] for envelope in replay} == replay


async def livekit_alone(directory: Path, livekit: str) -> None:
    """The call ends, and its record is whole."""
    async with world(directory, livekit) as made:
        made.kill("livekit")
        await made.survivors_go_on()
        await made.until(lambda: any(line.get("ends") for line in made.log()), "the end of the call", within=120)
        await made.drain()
        (end,) = [line for line in made.log() if line.get("ends")]
        assert end["body"]["payload"] == {"reason": "room_lost"}
        no_hole(made.log())
        assert not [line for line in made.log() if line.keys() & {"gap", "lost", "cut", "restarted"}]


async def runner_alone(directory: Path, livekit: str) -> None:
    """And none comes back: the host is told which call was cut, and goes."""
    async with world(directory, livekit, give_up=1.0) as made:
        made.kill("runner")
        await made.until(lambda: made.host_exit() is not None, "the host gives up")
        assert made.host_exit() == 0
        assert made.log()[-1] == {"over": "EventStreamError", "cut": [CALL]}
        assert made.stored() == max(made.received())
        no_hole(made.log())


async def test_one_is_killed_and_the_others_go_on(tmp_path: Path, livekit: str) -> None:
    await asyncio.gather(
        host_alone(tmp_path / "host", livekit),
        livekit_alone(tmp_path / "livekit", livekit),
        runner_alone(tmp_path / "runner", livekit),
    )
