"""An event stream that breaks again and again."""

from __future__ import annotations

import pytest

from curb_client.errors import EventStreamError
from curb_client.host import Gap
from tests.host.scripted_runner import PING, ready, refuses, scripted_runner, sends, streams, turn
from tests.host.test_events import client, envelopes, follow, take


async def test_a_runner_that_fails_for_a_while_is_asked_again() -> None:
    script = streams(refuses(500, {"error": "internal"}), refuses(502, {"proxy": "no"}), sends([ready()]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner) as stream:
        assert envelopes(await take(stream, 1)) == [1]


async def test_it_gives_up_after_a_while_and_names_the_open_calls() -> None:
    script = streams(sends([ready(), turn(2, seq=1)], then="reset"), sends([], then="end"))
    async with (
        scripted_runner(script) as server,
        client(server) as runner,
        follow(runner, give_up_after=0.3) as stream,
    ):
        await take(stream, 2)
        server.script = streams(refuses(503, {}))
        with pytest.raises(EventStreamError, match=r"0\.3 s \(give_up_after\)") as raised:
            await take(stream, 1)
    assert raised.value.cut == ("call-1",)


async def test_it_gives_up_where_connections_are_accepted_and_say_nothing() -> None:
    async with scripted_runner(streams(sends([], then="end"))) as server, client(server) as runner:
        for options in ({}, {"read_timeout": 0.01}):
            async with follow(runner, give_up_after=0.1, **options) as stream:
                with pytest.raises(EventStreamError, match=r"0\.1 s \(give_up_after\): it "):
                    await take(stream, 1)
            server.script = streams(sends([]))
    assert len(server.requests) > 3


async def test_a_stream_from_now_on_that_breaks_before_its_first_record_is_a_gap() -> None:
    script = streams(sends([PING], then="end"), sends([turn(7, seq=3), turn(8, seq=4)]))
    async with scripted_runner(script) as server, client(server) as runner, follow(runner, None) as stream:
        assert envelopes(await take(stream, 3)) == [Gap(1, 6, "missing"), 7, 8]
