"""Every scenario with the client in Python, and with the one in JavaScript on Node.js."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.parity.apps import NodeProcess, PythonApp, build_for_node
from tests.parity.conftest import Plays
from tests.parity.scene import Scenario
from tests.parity.table import SCENARIOS

pytestmark = [pytest.mark.livekit, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(js: Path, plays: Plays) -> AsyncIterator[NodeProcess]:
    async with NodeProcess.running(build_for_node(js, "parity")) as process:
        yield process
        await plays.end()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_python(plays: Plays, scenario: Scenario) -> None:
    await plays.play(scenario, "python", PythonApp)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_node(plays: Plays, node: NodeProcess, scenario: Scenario) -> None:
    await plays.play(scenario, "node", node.app)
    assert node.unhandled() == []
