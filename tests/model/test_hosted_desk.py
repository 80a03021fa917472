"""The insurance desk, given its call by a host."""

from __future__ import annotations

import sys

import pytest

from curb_client.model import Call, ModelEndpoint
from curb_client.testing import CurbCall
from curb_client.testing.runner_fixture import CurbRunner

pytestmark = pytest.mark.livekit

RUNNER = [sys.executable, "-m", "curb_client.cli", "runner", "curb_client.cli.insurance_desk:agent"]
DEADLINE = 30.0


async def test_a_host_unlocks_a_skill_of_the_agent_that_it_hosts(
    curb_call: CurbCall, curb_runner: CurbRunner, curb_model: ModelEndpoint
) -> None:
    curb_model.script.on("floor", calls=[Call("read_skill", {"path": "/claims"})])
    curb_model.script.on(after="read_skill", text="What is the number of your policy?")
    curb_model.script.on("somebody", text="A specialist calls you today.")
    environment = {"MODEL": "small-1", "OPENAI_BASE_URL": curb_model.url, "OPENAI_API_KEY": "any"}
    async with curb_runner(RUNNER, environment=environment) as hosted:
        await curb_call.say("The kitchen floor is wet.", within=DEADLINE)
        await curb_call.expect_said("What is the number of your policy?", within=DEADLINE)
        assert (await hosted.runner.send(hosted.session_id, "specialist.free", id="m-1")).delivered
        await curb_call.say("Can somebody call me?", within=DEADLINE)
        await curb_call.expect_said("A specialist calls you today.", within=DEADLINE)
        assert await curb_call.client.ask("desk") == {"policy": None, "claim": None}
    first, *_, last = curb_model.requests
    assert first.model == "small-1"
    assert first.context is not None
    assert last.context is not None
    assert [skill.name for skill in first.context.available_skills] == ["Claims"]
    assert [skill.name for skill in last.context.available_skills] == ["Claims", "Specialist"]
    curb_model.check()
