"""How an agent that leaves makes sure that its last answers are out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from livekit import rtc

from curb_client.protocol.contract import RefusalCode
from curb_client.protocol.envelope import Refusal
from curb_client.room.answers_under_way import AnswersUnderWay


class FakeRoom:
    """Also its own local participant."""

    identity = "agent"

    def __init__(self, *identities: str) -> None:
        self.remote_participants = dict.fromkeys(identities)
        self.local_participant = self
        self.notes: list[list[str]] = []
        self.sending: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)

    async def send_text(self, text: str, *, topic: str, destination_identities: list[str]) -> None:
        self.notes.append(destination_identities)
        await self.sending()


def under_way(room: FakeRoom) -> AnswersUnderWay:
    return AnswersUnderWay(cast(rtc.Room, room))


async def notes_after_an_answer(room: FakeRoom, identity: str = "caller") -> list[list[str]]:
    answers = under_way(room)
    with answers.answering(identity):
        pass
    await answers.sent()
    return room.notes


async def test_without_an_answer_nothing_is_sent() -> None:
    room = FakeRoom("caller")
    await under_way(room).sent()
    assert room.notes == []


async def test_notes_to_oneself_go_behind_an_answer() -> None:
    assert await notes_after_an_answer(FakeRoom("caller")) == [["agent"], ["agent"]]


async def test_one_that_the_server_has_not_told_of_yet_counts() -> None:
    assert await notes_after_an_answer(FakeRoom(), "early") == [["agent"], ["agent"]]


async def test_an_answer_of_a_while_ago_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("curb_client.room.answers_under_way.time.monotonic", lambda: now[0])
    room = FakeRoom("caller")
    answers = under_way(room)
    with answers.answering("caller"):
        pass
    now[0] += 1.1
    await answers.sent()
    assert room.notes == []


async def test_a_refusal_is_an_answer() -> None:
    room = FakeRoom("caller")
    answers = under_way(room)
    with pytest.raises(Refusal), answers.answering("caller"):
        raise Refusal(RefusalCode.NO_HANDLER)
    await answers.sent()
    assert len(room.notes) == 2


async def test_a_request_that_was_given_up_has_none() -> None:
    room = FakeRoom("caller")
    answers = under_way(room)
    with pytest.raises(asyncio.CancelledError), answers.answering("caller"):
        raise asyncio.CancelledError
    await answers.sent()
    assert room.notes == []


async def test_one_that_has_left_needs_no_answer() -> None:
    room = FakeRoom("caller", "other")
    answers = under_way(room)
    for identity in ("caller", "other"):
        with answers.answering(identity):
            pass
    del room.remote_participants["other"]

    async def caller_leaves() -> None:
        room.remote_participants.clear()

    room.sending = caller_leaves
    await answers.sent()
    assert len(room.notes) == 1


async def test_an_answer_about_to_be_given_goes_before_the_notes() -> None:
    room = FakeRoom("caller")
    answers = under_way(room)
    handling = answers.answering("caller")
    handling.__enter__()
    leaving = asyncio.ensure_future(answers.sent())
    await asyncio.sleep(0.02)
    assert room.notes == []
    handling.__exit__(None, None, None)
    await leaving
    assert len(room.notes) == 2


async def test_a_handler_that_does_not_end_is_left_behind() -> None:
    answers = under_way(FakeRoom("caller"))
    handling = answers.answering("caller")
    handling.__enter__()
    await asyncio.wait_for(answers.sent(), 10)
    handling.__exit__(None, None, None)


async def lost() -> Any:
    raise ConnectionError("the room is gone")


@pytest.mark.parametrize("sending", [lambda: asyncio.sleep(60), lost], ids=["that takes too long", "that fails"])
async def test_a_note(sending: Callable[[], Awaitable[object]]) -> None:
    room = FakeRoom("caller")
    room.sending = sending
    assert len(await asyncio.wait_for(notes_after_an_answer(room), 10)) == 1
