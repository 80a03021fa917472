"""The official client in Python against the endpoint."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import openai
import pytest

from curb_client import UnmatchedRequestError, UsageError
from curb_client.errors import CurbError
from curb_client.model import read_recording
from curb_client.model.endpoint.script import Call, ModelScript
from curb_client.model.endpoint.server import ModelEndpoint

TOOLS: list[Any] = [{"type": "function", "function": {"name": "find_order", "parameters": {"type": "object"}}}]


@pytest.fixture
def script() -> ModelScript:
    script = ModelScript()
    script.on("hello", text="Good morning, and welcome to the parcel desk.")
    script.on("order", text="Looking.", calls=[Call("find_order", {"number": "ä17"}), Call("skip_turn")])
    script.on(after="*", text="Found.")
    return script


@pytest.fixture
def endpoint(script: ModelScript) -> Iterator[ModelEndpoint]:
    with ModelEndpoint(script) as endpoint:
        yield endpoint


def client_of(endpoint: ModelEndpoint) -> openai.OpenAI:
    return openai.OpenAI(base_url=endpoint.url, api_key="any", max_retries=0, timeout=30)


def said(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def post(url: str, body: bytes, *, timeout: float = 30) -> tuple[int, Any]:
    try:
        with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=timeout) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def read_to_the_end(stream: Any) -> tuple[str, Exception | None]:
    """The text of a stream, and what ended it but its end."""
    text = ""
    try:
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""
    except Exception as error:
        return text, error
    return text, None


class TestChat:
    def test_whole(self, endpoint: ModelEndpoint) -> None:
        with client_of(endpoint) as client:
            answer = client.chat.completions.create(model="m", messages=said("hello"))
            assert answer.choices[0].message.content == "Good morning, and welcome to the parcel desk."
            assert answer.choices[0].finish_reason == "stop"
            assert answer.usage is not None
            assert answer.usage.total_tokens > answer.usage.completion_tokens > 0
            called = client.chat.completions.create(model="m", messages=said("my order"), tools=TOOLS)
        calls: Any = called.choices[0].message.tool_calls
        assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [
            ("find_order", {"number": "ä17"}),
            ("skip_turn", {}),
        ]
        assert called.choices[0].finish_reason == "tool_calls"
        assert [request.last_user_text for request in endpoint.requests] == ["hello", "my order"]

    def test_streamed(self, endpoint: ModelEndpoint) -> None:
        with client_of(endpoint) as client:
            chunks = list(
                client.chat.completions.create(
                    model="m", messages=said("hello"), stream=True, stream_options={"include_usage": True}
                )
            )
        texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
        assert len(texts) > 1
        assert "".join(texts) == "Good morning, and welcome to the parcel desk."
        assert chunks[-1].usage is not None

    def test_thoughts(self, script: ModelScript, endpoint: ModelEndpoint) -> None:
        script.on("think", text="Yes.", thinking="hm, is it?", chunk=4)
        with client_of(endpoint) as client:
            whole = client.chat.completions.create(model="m", messages=said("think")).choices[0].message
            chunks = list(client.chat.completions.create(model="m", messages=said("think"), stream=True))
        assert (whole.content, getattr(whole, "reasoning_content", None)) == ("Yes.", "hm, is it?")
        deltas = [chunk.choices[0].delta for chunk in chunks]
        thoughts = [delta.reasoning_content for delta in deltas if hasattr(delta, "reasoning_content")]
        assert thoughts == ["hm, ", "is i", "t?"]

    def test_the_helper_for_streams(self, endpoint: ModelEndpoint) -> None:
        with (
            client_of(endpoint) as client,
            client.chat.completions.stream(model="m", messages=said("my order"), tools=TOOLS) as stream,
        ):
            final = stream.get_final_completion()
        calls: Any = final.choices[0].message.tool_calls
        assert [call.function.name for call in calls] == ["find_order", "skip_turn"]
        assert final.choices[0].message.content == "Looking."

    def test_a_tools_result_comes_back(self, endpoint: ModelEndpoint) -> None:
        with client_of(endpoint) as client:
            first = client.chat.completions.create(model="m", messages=said("order"), tools=TOOLS).choices[0].message
            calls: Any = first.tool_calls
            results = [{"role": "tool", "tool_call_id": call.id, "content": "{}"} for call in calls]
            messages: list[Any] = [*said("order"), first.model_dump(exclude_none=True), *results]
            answer = client.chat.completions.create(model="m", messages=messages)
        assert answer.choices[0].message.content == "Found."
        assert [result.name for result in endpoint.requests[-1].results] == ["find_order", "skip_turn"]


class TestResponses:
    def test_whole(self, endpoint: ModelEndpoint) -> None:
        with client_of(endpoint) as client:
            answer = client.responses.create(model="m", instructions="Be brief.", input="hello")
        assert answer.output_text == "Good morning, and welcome to the parcel desk."
        assert answer.usage is not None
        assert endpoint.requests[0].system.prompt == "Be brief."

    def test_streamed(self, endpoint: ModelEndpoint) -> None:
        tools: list[Any] = [
            {"type": "function", "name": "find_order", "parameters": {"type": "object"}, "strict": False}
        ]
        with client_of(endpoint) as client, client.responses.stream(model="m", input="my order", tools=tools) as stream:
            texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        assert "".join(texts) == final.output_text == "Looking."
        calls = [item for item in final.output if item.type == "function_call"]
        assert [(call.name, json.loads(call.arguments)) for call in calls] == [
            ("find_order", {"number": "ä17"}),
            ("skip_turn", {}),
        ]


class TestTrouble:
    def test_a_request_that_no_rule_fits(self, endpoint: ModelEndpoint) -> None:
        endpoint.check()
        with (
            client_of(endpoint) as client,
            pytest.raises(openai.BadRequestError, match=r"(?s)no rule .*user: whatever"),
        ):
            client.chat.completions.create(model="m", messages=said("whatever"))
        with pytest.raises(UnmatchedRequestError, match=r"(?s)fits 1 of the requests.*user: whatever"):
            endpoint.check()

    def test_errors_and_rate_limits(self, script: ModelScript, endpoint: ModelEndpoint) -> None:
        script.on("busy", status=429, error="slow down", retry_after=3)
        script.on("broken", status=503)
        with client_of(endpoint) as client:
            with pytest.raises(openai.RateLimitError, match="slow down") as limited:
                client.chat.completions.create(model="m", messages=said("busy"), stream=True)
            assert limited.value.response.headers["Retry-After"] == "3"
            with pytest.raises(openai.InternalServerError):
                client.responses.create(model="m", input="broken")
        assert [recorded.status for recorded in endpoint.recorded] == [429, 503]

    def test_a_stream_that_is_cut(self, script: ModelScript, endpoint: ModelEndpoint) -> None:
        script.on("story", text="Once upon a time there was a parcel.", chunk=5, cut_after=3)
        with client_of(endpoint) as client:
            stream = client.chat.completions.create(model="m", messages=said("story"), stream=True)
            text, error = read_to_the_end(stream)
        assert error is not None
        assert text in ("", "Once ", "Once upon ")

    def test_an_answer_that_takes_its_time(self, script: ModelScript, endpoint: ModelEndpoint) -> None:
        script.on("slow", text="done", delay=0.3)
        with client_of(endpoint) as client:
            before = time.monotonic()
            list(client.chat.completions.create(model="m", messages=said("slow"), stream=True))
        assert time.monotonic() - before >= 0.3
        assert endpoint.recorded[0].took >= 0.3

    @pytest.mark.parametrize("body", [b"oops", b"[]", b"{}", b"\xff", b"[" * 100_000])
    @pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
    def test_bodies_that_are_no_requests(self, endpoint: ModelEndpoint, path: str, body: bytes) -> None:
        status, answer = post(endpoint.url + path, body)
        assert status == 400
        assert answer["error"]["type"] == "invalid_request_error"

    def test_a_client_that_goes_away_is_recorded_all_the_same(
        self, script: ModelScript, endpoint: ModelEndpoint
    ) -> None:
        script.on("slow", text="done", delay=5)
        with pytest.raises(TimeoutError):
            post(f"{endpoint.url}/chat/completions", json.dumps({"messages": said("slow")}).encode(), timeout=0.3)
        deadline = time.monotonic() + 30
        while not endpoint.recorded and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(endpoint.recorded) == 1


async def test_many_at_once_from_a_loop(endpoint: ModelEndpoint) -> None:
    async with openai.AsyncOpenAI(base_url=endpoint.url, api_key="any", max_retries=0, timeout=60) as client:
        models = await client.models.list()
        assert [model.id for model in models.data] == ["scripted"]
        answers = await asyncio.gather(
            *(client.chat.completions.create(model="m", messages=said("hello")) for _ in range(50))
        )
    assert len({answer.id for answer in answers}) == 50
    assert len(endpoint.recorded) == 50


class TestLife:
    def test_it_records_to_a_file(self, script: ModelScript, tmp_path: Path) -> None:
        path = tmp_path / "recording.jsonl"
        with ModelEndpoint(script, record_to=path) as endpoint, client_of(endpoint) as client:
            client.chat.completions.create(model="m", messages=said("hello"))
            client.responses.create(model="m", input="my order")
        assert list(read_recording(path)) == endpoint.recorded
        assert endpoint.recorded[1].answer["calls"][0] == {"tool": "find_order", "arguments": {"number": "ä17"}}

    def test_start_and_stop(self, script: ModelScript) -> None:
        endpoint = ModelEndpoint(script)
        with pytest.raises(UsageError, match="does not run"):
            _ = endpoint.url
        endpoint.stop()
        with endpoint, pytest.raises(UsageError, match="runs already"):
            endpoint.start()
        with endpoint, client_of(endpoint) as client:
            assert [model.id for model in client.models.list().data] == ["scripted"]

    def test_a_port_that_is_taken(self, script: ModelScript, endpoint: ModelEndpoint) -> None:
        port = urlsplit(endpoint.url).port
        assert port is not None
        with pytest.raises(CurbError, match=f"did not start at 127.0.0.1:{port}"):
            ModelEndpoint(script, port=port).start()
