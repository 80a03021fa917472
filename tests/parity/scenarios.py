"""What every client does in a call, in one room that these scenarios share: ``SHARED``, for table and tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from curb_client.protocol.contract import MAX_MESSAGE_BYTES, MESSAGE
from curb_client.protocol.envelope import encode_request, encode_update
from tests.e2e.conftest import SETTINGS, until
from tests.parity.scene import WITHIN, Scenario, Scene, has_come

__all__ = ["SHARED"]

ID: Final = "00000000-0000-4000-8000-000000000000"
SHARED: Final[list[Scenario]] = []
Play = Callable[[Scene], Awaitable[None]]
IN_FORCE: Final = {**SETTINGS, "llm": {"provider": "openai-compatible", "model": "large"}}
"""The agent's settings, as a client may see them."""


def scenario(name: str) -> Callable[[Play], Play]:
    def add(play: Play) -> Play:
        SHARED.append(Scenario(name, play))
        return play

    return add


def refused(name: str, failing: tuple[Any, ...], error: dict[str, Any]) -> None:
    """An operation that fails with just this."""

    async def play(scene: Scene) -> None:
        assert await scene.app.failure(*failing) == error

    SHARED.append(Scenario(name, play))


def filling(request_bytes: int, unit: str = "x") -> str:
    """A text that makes a request with ``ID`` so many bytes."""
    rest = request_bytes - len(encode_request("note", ID, "").encode())
    count, more = divmod(rest, len(unit.encode()))
    return unit * count + "x" * more


# The agent, and what it answers


@scenario("the agent is ready")
async def agent_is_ready(scene: Scene) -> None:
    assert await scene.app.got("presence") == {"state": "ready", "identity": "agent"}
    assert (await scene.app.got("told"))[-1] == "ready"


@scenario("send")
async def send(scene: Scene) -> None:
    assert await scene.app.got("send", "note", {"text": "hello"}) is None


@scenario("ask")
async def ask(scene: Scene) -> None:
    assert await scene.app.got("ask", "quote", {"plan": "basic"}, {"timeout": 20}) == {"plan": "basic", "price": 12}


@scenario("ask: no reply is null")
async def no_reply(scene: Scene) -> None:
    assert await scene.app.got("ask", "note", {}) is None


@scenario("ask: a payload not given is {}")
async def no_payload(scene: Scene) -> None:
    assert await scene.app.got("askNothing", "echo") == {}


@scenario("ask: every JSON value, there and back")
async def values(scene: Scene) -> None:
    all_kinds: list[Any] = [None, False, "", 'é😀 " \\ \u2028 \x00', 0, -1.5, 2**53 - 1, [], {"": [{"a": [None, {}]}]}]
    for value in all_kinds:
        assert await scene.app.got("ask", "echo", value) == value


@scenario("100 asks at once")
async def many_asks(scene: Scene) -> None:
    tasks = [await scene.app.begin("ask", "echo", {"n": n}, {"timeout": 60}) for n in range(100)]
    assert [await task for task in tasks] == [["ok", {"n": n}] for n in range(100)]


@scenario("a repeated id is not handled twice")
async def repeated_id(scene: Scene) -> None:
    for _ in range(2):
        assert await scene.app.got("ask", "count", {}, {"messageId": "repeated"}) == 1


@scenario("15,360 bytes")
async def largest(scene: Scene) -> None:
    await scene.app.got("send", "note", filling(15_360), {"messageId": ID})


@scenario("15,360 bytes of emoji")
async def largest_of_emoji(scene: Scene) -> None:
    await scene.app.got("send", "note", filling(15_360, "😀"), {"messageId": ID[:-1] + "1"})


@scenario("keys of 1 and of 256 units, as they are")
async def keys(scene: Scene) -> None:
    for key in ("k", "k" * 256, "😀" * 128, " a key/with: anything "):
        await scene.app.got("send", key, {})


@scenario("an id of 128 characters")
async def long_id(scene: Scene) -> None:
    await scene.app.got("send", "note", {}, {"messageId": "i" * 128})


# What is refused

UPDATE: Final = {"stt": {"language": "x" * (15_361 - len(encode_update({"stt": {"language": ""}})))}}
TOO_LARGE: Final = {"name": "AgentRefusedError", "code": "payload_too_large", "size": 15_361, "limit": 15_360}
refused("15,361 bytes", ("send", "note", filling(15_361), {"messageId": ID}), TOO_LARGE)
refused("15,361 bytes of emoji", ("ask", "note", filling(15_361, "😀"), {"messageId": ID}), TOO_LARGE)
refused("an update of 15,361 bytes", ("update", UPDATE), TOO_LARGE)
for title, key in {"empty": "", "of 257 units": "k" * 257, "of 258 units of emoji": "😀" * 129}.items():
    refused(f"a key that is {title}", ("send", key, {}), {"name": "InvalidKeyError"})
    refused(f"listening to a key that is {title}", ("on", key, "log"), {"name": "InvalidKeyError"})
for title, message_id in {"empty": "", "of 129 characters": "i" * 129}.items():
    refused(f"an id that is {title}", ("send", "note", {}, {"messageId": message_id}), {"name": "UsageError"})
for title, odd in {"NaN": "<NaN>", "2^53": "<2^53>", "a lone surrogate": "<lone surrogate>"}.items():
    error = {"name": "InvalidPayloadError", "path": ["a", 1]}
    refused(f"a payload with {title}", ("send", "note", {"a": [0, odd]}), error)
refused("a negative time-out", ("ask", "echo", {}, {"timeout": -1}), {"name": "InvalidTimeoutError"})
refused("no_handler", ("send", "nobody-listens", {}), {"name": "AgentRefusedError", "code": "no_handler"})
refused("handler_failed", ("ask", "broken", {}), {"name": "AgentRefusedError", "code": "handler_failed"})
refused(
    "not_adjustable, with its path",
    ("update", {"tts": {"voice": 3}, "stt": {"language": "de"}}),
    {"name": "AgentRefusedError", "code": "not_adjustable", "path": "stt.language"},
)


def refused_with_issue(name: str, failing: tuple[Any, ...], code: str, path: list[str | int]) -> None:
    async def play(scene: Scene) -> None:
        error = await scene.app.failure(*failing)
        ((found, message),) = [(issue["path"], issue["message"]) for issue in error.pop("issues")]
        assert error == {"name": "AgentRefusedError", "code": code}
        assert found == path
        assert message

    SHARED.append(Scenario(name, play))


refused_with_issue("invalid_payload, with issues", ("ask", "quote", {"plan": 3}), "invalid_payload", ["plan"])
refused_with_issue(
    "invalid_settings, with issues", ("update", {"tts": {"model": 5}}), "invalid_settings", ["tts", "model"]
)
refused_with_issue(
    "invalid_settings, an unknown setting", ("update", {"tts": {"speed": 2}}), "invalid_settings", ["tts", "speed"]
)


@scenario("update")
async def update(scene: Scene) -> None:
    settings = {**IN_FORCE, "tts": {"provider": "kugelaudio", "voice": 17}}
    assert await scene.app.got("update", {"tts": {"voice": 17}}) == settings
    assert await scene.app.got("update", {}) == settings


@scenario("no answer in time is 1502, and the next ask works")
async def no_answer(scene: Scene) -> None:
    message_id = "slow"
    asked = await scene.app.begin("ask", "slow", {}, {"timeout": 1, "messageId": message_id})
    assert await asked == ["failed", {"name": "RpcError", "code": 1502}]
    assert scene.begun[message_id] == 1
    assert await scene.app.got("ask", "echo", 1) == 1


# The agent's messages


@scenario("a message of the agent")
async def message(scene: Scene) -> None:
    form = await scene.app.begin("waitFor", "show-form", {"timeout": 20})
    await scene.app.got("send", "open-form", {})
    assert await form == ["ok", {"fields": ["name", "policy"]}]


@scenario("a message of 60,000 emoji")
async def large_message(scene: Scene) -> None:
    waiting = await scene.app.begin("waitFor", "large", {"timeout": 30})
    await scene.app.got("presence")
    await scene.say("large", {"text": "é😀" * 60_000})
    assert await waiting == ["ok", {"text": "é😀" * 60_000}]


@scenario("waiting for a message that does not come")
async def no_message(scene: Scene) -> None:
    assert await scene.app.failure("waitFor", "never", {"timeout": 0.2}) == {"name": "MessageTimeoutError"}


@scenario("handlers, and no more after they are removed")
async def handlers(scene: Scene) -> None:
    for name in ("first", "second"):
        await scene.app.got("on", "status", name)
    await scene.say("status", {"n": 1})
    await has_come(scene.app, "log", bool, "second")
    await scene.app.got("off", "first")
    await scene.say("status", {"n": 2})
    told = await has_come(scene.app, "log", lambda log: len(log) == 2, "second")
    assert told == [[{"n": 1}, "agent"], [{"n": 2}, "agent"]]
    assert await scene.app.got("log", "first") == [[{"n": 1}, "agent"]]


@scenario("messages, one after the other")
async def messages(scene: Scene) -> None:
    listening = await scene.app.begin("messages", "status", 3)
    await scene.app.got("presence")
    await scene.say("status", *({"n": n} for n in range(4)))
    assert await listening == ["ok", [{"n": n} for n in range(3)]]


@scenario("500 messages in order")
async def order(scene: Scene) -> None:
    await scene.app.got("on", "number", "numbers")
    await scene.say("number", *({"n": n} for n in range(500)))
    numbers = await has_come(scene.app, "log", lambda log: len(log) == 500, "numbers")
    assert [payload["n"] for payload, _ in numbers] == list(range(500))


@scenario("a message without a handler is counted")
async def unhandled(scene: Scene) -> None:
    await scene.say("nobody", {}, {})
    counts = await has_come(scene.app, "counts", lambda counts: counts["unhandled"] == {"nobody": 2})
    assert [counts[name] for name in ("malformed", "incomplete", "foreign", "late")] == [0, 0, 0, 0]


@scenario("malformed messages are counted, and the next one comes")
async def malformed(scene: Scene) -> None:
    await scene.app.got("on", "status", "status")
    texts = ["", "{", "[]", "null", '{"payload":1}', '{"key":""}', '{"key":7}', '{"key":"status","id":""}']
    for text in texts:
        await scene.say_text(text)
    await scene.say_text('{"key":"status","unknown":1}')
    assert await has_come(scene.app, "log", bool, "status") == [[{}, "agent"]]
    counts = await scene.app.got("counts")
    assert (counts["malformed"], counts["unhandled"]) == (len(texts), {})


@scenario("a message over 4 MiB is dropped and counted, and the next one comes")
async def over_limit(scene: Scene) -> None:
    await scene.app.got("on", "status", "status")
    await scene.say_text('{"key":"status","payload":"' + "x" * MAX_MESSAGE_BYTES + '"}')
    await scene.say("status", {"n": 1})
    assert await has_come(scene.app, "log", bool, "status") == [[{"n": 1}, "agent"]]
    counts = await scene.app.got("counts")
    assert (counts["over_limit"], counts["incomplete"], counts["malformed"]) == (1, 0, 0)


@scenario("messages of somebody else are counted")
async def foreign(scene: Scene) -> None:
    async with scene.stage.room("stranger") as stranger:
        await stranger.local_participant.set_attributes({"here": "1"})
        await until(lambda: "caller" in stranger.remote_participants, within=WITHIN, what="the caller is seen")
        await stranger.local_participant.send_text('{"key":"status"}', topic=MESSAGE, destination_identities=["caller"])
        counts = await has_come(scene.app, "counts", lambda counts: counts["foreign"] == 1)
    assert counts["unhandled"] == {}


@scenario("a message that stops is overtaken, and comes late")
async def overtaken(scene: Scene) -> None:
    await scene.app.got("on", "status", "status")
    writer = await scene.agent.room.local_participant.stream_text(topic=MESSAGE, destination_identities=["caller"])
    await writer.write('{"key":"status","payload":')
    await scene.say("status", {"n": 2})
    assert await has_come(scene.app, "log", bool, "status") == [[{"n": 2}, "agent"]]
    await writer.write('{"n":1}}')
    await writer.aclose()
    log = await has_come(scene.app, "log", lambda log: len(log) == 2, "status")
    assert [payload for payload, _ in log] == [{"n": 2}, {"n": 1}]
    assert (await scene.app.got("counts"))["late"] == 1


# One client a room


@scenario("a second client of the room is refused")
async def second(scene: Scene) -> None:
    assert await scene.app.failure("second") == {"name": "RoomInUseError"}
    assert await scene.app.got("ask", "echo", 1) == 1


@scenario("closed: what waits ends, and the room takes the next client")
async def closed(scene: Scene) -> None:
    message_id = "closed"
    asked = await scene.app.begin("ask", "slow", {}, {"messageId": message_id})
    waiting = await scene.app.begin("waitFor", "never", {})
    listening = await scene.app.begin("messages", "status", 1)
    await scene.until_begun(message_id)
    await scene.app.got("close")
    assert await asked == await waiting == ["failed", {"name": "ClosedError"}]
    assert await listening == ["ok", []]
    assert await scene.app.failure("send", "note", {}) == {"name": "ClosedError"}
    assert await scene.app.got("presence") == {"state": "closed", "identity": None}
    await scene.app.got("open")
    assert await scene.app.got("ask", "echo", 1) == 1


@scenario("an agent that is named, and absent")
async def named(scene: Scene) -> None:
    await scene.app.got("close")
    await scene.app.got("open", "nobody")
    assert await scene.app.got("presence") == {"state": "absent", "identity": None}
    failure = await scene.app.failure("send", "note", {}, {"timeout": 0.3})
    assert failure == {"name": "AgentUnavailableError", "state": "absent"}
