"""A wrong call says what is wrong with it, sends nothing and disturbs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pydantic
import pytest
import pytest_asyncio
from livekit import rtc

from curb_client import AgentClient, InvalidKeyError, InvalidPayloadError, InvalidTimeoutError, UsageError
from curb_client.testing import LiveKitServerHandle
from tests.e2e.conftest import Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Witness:
    """An agent that writes down whatever reaches it, be it a message or not."""

    def __init__(self, client: AgentClient) -> None:
        self.client = client
        self.seen: list[str] = []

    async def take(self, request: rtc.RpcInvocationData) -> str:
        self.seen.append(request.payload)
        return '{"reply":"taken"}'

    async def saw_nothing(self) -> None:
        """And the next request works."""
        assert await self.client.ask("next", {"n": 1}) == "taken"
        (text,) = self.seen
        assert json.loads(text)["key"] == "next"
        self.seen.clear()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def witness(livekit: LiveKitServerHandle) -> AsyncIterator[Witness]:
    stage = Stage(livekit, f"bad-input-{os.getpid()}")
    async with stage.room("witness", kind="agent") as room, stage.client() as call:
        witness = Witness(call.agent)
        room.local_participant.register_rpc_method("curb.message", witness.take)
        room.local_participant.register_rpc_method("curb.update", witness.take)
        yield witness


BAD_KEYS = [
    pytest.param("", "0 UTF-16 units", id="empty"),
    pytest.param("k" * 257, "257 UTF-16 units", id="257"),
    pytest.param("𝄞" * 129, "258 UTF-16 units", id="astral"),
    pytest.param("k" * 255 + "𝄞", "257 UTF-16 units", id="astral at the end"),
    pytest.param("form\ud834", "lone surrogate at character 4", id="surrogate"),
    pytest.param(None, "not NoneType", id="None"),
    pytest.param(3, "not int", id="int"),
    pytest.param(b"form", "not bytes", id="bytes"),
]


@pytest.mark.parametrize(("key", "what"), BAD_KEYS)
async def test_a_bad_key(witness: Witness, key: Any, what: str) -> None:
    client = witness.client
    for call in (client.ask, client.send):
        with pytest.raises(InvalidKeyError, match=f"key .*{what}"):
            await call(key, {})
    calls: tuple[Callable[[], object], ...] = (
        lambda: client.on(key),
        lambda: client.on(key, print),
        lambda: client.messages(key),
        lambda: client.wait_for(key),
    )
    for listen in calls:
        with pytest.raises(InvalidKeyError, match=f"key .*{what}"):
            listen()
    await witness.saw_nothing()


async def test_the_longest_keys(witness: Witness) -> None:
    for key in ("k" * 256, "𝄞" * 128, "k" * 254 + "𝄞", " ", "\x00", "__proto__"):
        assert await witness.client.ask(key) == "taken"
        assert json.loads(witness.seen.pop())["key"] == key


class Unspeakable(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    inner: object


def _cycle() -> object:
    items: list[object] = []
    items.append({"again": items})
    return items


BAD_PAYLOADS = [
    pytest.param(object(), (), "payload is of type object", id="object"),
    pytest.param({"a": [1, {2, 3}]}, ("a", 1), r"a\[1\] is of type set", id="set"),
    pytest.param({"a": {"b": [0, 0, b"raw"]}}, ("a", "b", 2), r"a\.b\[2\] is of type bytes", id="bytes"),
    pytest.param([lambda: None], (0,), r"\[0\] is of type function", id="function"),
    pytest.param({"n": float("nan")}, ("n",), "n is nan", id="nan"),
    pytest.param([float("inf")], (0,), r"\[0\] is inf", id="inf"),
    pytest.param([{"n": float("-inf")}], (0, "n"), r"\[0\]\.n is -inf", id="-inf"),
    pytest.param("\ud834", (), r"payload has a lone surrogate \(U\+D834\) at character 0", id="surrogate"),
    pytest.param({"t": "ok\udd1e"}, ("t",), r"t has a lone surrogate \(U\+DD1E\) at character 2", id="inner surrogate"),
    pytest.param({"\ud834": 1}, ("\ud834",), "lone surrogate", id="surrogate in a name"),
    pytest.param({"n": 2**53}, ("n",), "n is a whole number of 54 bits, beyond", id="2^53"),
    pytest.param({"n": -(10**6000)}, ("n",), r"of \d+ bits, beyond 2\^53-1", id="6000 digits"),
    pytest.param([1e300], (0,), "beyond", id="1e300"),
    pytest.param(_cycle(), None, "contains itself", id="cycle"),
    pytest.param({"a": {3: 1}}, ("a",), "a has the key 3 of type int", id="int key"),
    pytest.param({None: 1}, (), "payload has the key None of type NoneType", id="None key"),
    pytest.param({"m": Unspeakable(inner=object())}, ("m",), "m cannot be written as JSON", id="model"),
]


@pytest.mark.parametrize(("payload", "path", "what"), BAD_PAYLOADS)
async def test_a_payload_that_is_not_json(witness: Witness, payload: Any, path: tuple[Any, ...], what: str) -> None:
    client = witness.client
    for call in (client.ask("form", payload), client.send("form", payload), client.update(payload)):
        with pytest.raises(InvalidPayloadError, match=what) as invalid:
            await call
        if path is not None:
            assert invalid.value.path == path
        assert str(invalid.value).isprintable()
    await witness.saw_nothing()


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), float("inf"), True, "3", [3], 86_401])
async def test_a_bad_timeout(witness: Witness, seconds: Any) -> None:
    client = witness.client
    for call in (
        client.ask("form", timeout=seconds),
        client.send("form", {}, timeout=seconds),
        client.update({}, timeout=seconds),
    ):
        with pytest.raises(InvalidTimeoutError, match=r"^timeout "):
            await call
    with pytest.raises(InvalidTimeoutError, match=r"^timeout "):
        client.wait_for("form", timeout=seconds)
    await witness.saw_nothing()


@pytest.mark.parametrize("message_id", ["", "i" * 129, "\ud834", 3, b"id"])
async def test_a_bad_message_id(witness: Witness, message_id: Any) -> None:
    for call in (witness.client.ask, witness.client.send):
        with pytest.raises(UsageError, match=r"^id "):
            await call("form", message_id=message_id)
    await witness.saw_nothing()


async def test_a_handler_that_is_no_function(witness: Witness) -> None:
    handler: Any = "show_form"
    with pytest.raises(UsageError, match="the handler of 'form' is no function but str"):
        witness.client.on("form", handler)
