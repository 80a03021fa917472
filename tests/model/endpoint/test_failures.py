"""What goes wrong at the endpoint itself, and odd requests: both sides hear of it."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import openai
import pytest

from curb_client import CurbError, UsageError
from curb_client.model import Answer, Call, ModelEndpoint, ModelScript, Rule, read_recording
from curb_client.model.endpoint.script_file import read_script


@contextmanager
def asked(url: str, body: bytes | None = None) -> Iterator[Any]:
    try:
        with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=30) as answer:
            yield answer
    except HTTPError as error:
        with error:
            yield error


def post(endpoint: ModelEndpoint, said: str, **options: Any) -> tuple[int, Any]:
    body = json.dumps({"messages": [{"role": "user", "content": said}], **options})
    with asked(f"{endpoint.url}/chat/completions", body.encode()) as answer:
        return answer.status, json.loads(answer.read())


def error_of(endpoint: ModelEndpoint, path: str) -> tuple[int, dict[str, Any]]:
    with asked(endpoint.url + path) as answer:
        return answer.status, json.loads(answer.read())["error"]


def fail(_: Any) -> Any:
    raise ZeroDivisionError("that fails")


class TestTheScriptFails:
    @pytest.mark.parametrize("rule", [Rule(Answer("x"), when=fail), Rule(fail)])
    def test_the_test_hears_of_it(self, rule: Rule) -> None:
        with ModelEndpoint(ModelScript([rule])) as endpoint:
            status, body = post(endpoint, "hello")
            assert status == 500
            assert body["error"]["type"] == "script_failed"
            assert "ZeroDivisionError: that fails" in body["error"]["message"]
            with pytest.raises(CurbError, match="failed at 1 of the requests: ZeroDivisionError: that fails") as failed:
                endpoint.check()
        assert isinstance(failed.value.__cause__, ZeroDivisionError)
        assert [recorded.status for recorded in endpoint.recorded] == [500]

    def test_a_client_does_not_try_again(self) -> None:
        with (
            ModelEndpoint(ModelScript([Rule(fail)])) as endpoint,
            openai.OpenAI(base_url=endpoint.url, api_key="any", timeout=30) as client,
        ):
            with pytest.raises(openai.InternalServerError):
                client.responses.create(model="m", input="hello")
            assert len(endpoint.recorded) == 1

    def test_an_answer_that_is_none(self) -> None:
        answer: Any = lambda _: "hello"  # noqa: E731
        with ModelEndpoint(ModelScript([Rule(answer)])) as endpoint:
            status, body = post(endpoint, "hello")
            assert (status, body["error"]["type"]) == (500, "server_error")
            with pytest.raises(CurbError, match="AttributeError"):
                endpoint.check()

    @pytest.mark.parametrize("value", ["2026-12-01", ".nan", "!!set {a}"])
    def test_arguments_that_are_no_json(self, value: str) -> None:
        with pytest.raises(UsageError, match=r"rules\[0\]\.then: the arguments of the call of 'a' are no JSON"):
            read_script(f"rules: [{{then: {{calls: [{{tool: a, arguments: {{day: {value}}}}}]}}}}]")
        with pytest.raises(UsageError, match="the arguments of the call of 'a' are no JSON"):
            Call("a", {"day": object()})


class TestRecordings:
    @pytest.mark.parametrize("stream", [False, True])
    def test_half_a_character(self, stream: bool, tmp_path: Path) -> None:
        script = ModelScript()
        script.on("hello", text="Yes?", calls=[Call("echo", {"a": "\ud83d"})])
        path = tmp_path / "recording.jsonl"
        with ModelEndpoint(script, record_to=path) as endpoint:
            body = json.dumps(
                {"model": "\ud83d", "stream": stream, "messages": [{"role": "user", "content": "hello \ud83d"}]}
            )
            with asked(f"{endpoint.url}/chat/completions", body.encode()) as answer:
                assert answer.status == 200
                assert b"Yes?" in answer.read()
            endpoint.check()
        assert list(read_recording(path)) == endpoint.recorded
        assert endpoint.requests[0].last_user_text == "hello \ud83d"

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        endpoint = ModelEndpoint(ModelScript(), record_to=tmp_path / "none" / "recording.jsonl")
        with pytest.raises(UsageError, match=r"record_to cannot be written: .*none.*; make its folder first"):
            endpoint.start()
        (tmp_path / "none").mkdir()
        with endpoint:
            assert endpoint.url


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    script = ModelScript()
    script.on("hello", text="Good morning.")
    script.on("limit", status=429, retry_after=1_234_567)
    script.on("soon", status=503, retry_after=0.25)
    script.on("long", status=400, code="context_length_exceeded")
    with ModelEndpoint(script, models=("small", "org/big")) as endpoint:
        yield endpoint


class TestOddRequests:
    def test_several_choices(self, endpoint: ModelEndpoint) -> None:
        status, body = post(endpoint, "hello", n=2)
        assert status == 400
        assert "n is 2; a scripted model gives one choice" in body["error"]["message"]
        assert post(endpoint, "hello", n=1)[0] == 200

    @pytest.mark.parametrize("name", ["small", "org/big"])
    def test_one_model(self, endpoint: ModelEndpoint, name: str) -> None:
        with openai.OpenAI(base_url=endpoint.url, api_key="any", timeout=30, max_retries=0) as client:
            assert client.models.retrieve(name).id == name
            with pytest.raises(openai.NotFoundError, match="there is no model 'other', only small, org/big"):
                client.models.retrieve("other")

    def test_errors_have_a_code(self, endpoint: ModelEndpoint) -> None:
        assert post(endpoint, "limit")[1]["error"]["code"] == "rate_limit_exceeded"
        assert post(endpoint, "long")[1]["error"]["code"] == "context_length_exceeded"
        assert error_of(endpoint, f"/models/{quote('ö')}")[1]["code"] == "model_not_found"

    def test_paths_that_are_not_there(self, endpoint: ModelEndpoint) -> None:
        assert error_of(endpoint, "/embeddings")[0] == 404
        assert error_of(endpoint, "/responses") == (
            405,
            {
                "message": "GET /v1/responses: Method Not Allowed",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            },
        )
        endpoint.check()

    @pytest.mark.parametrize(("said", "header"), [("limit", "1234567"), ("soon", "0.25")])
    def test_when_to_try_again(self, endpoint: ModelEndpoint, said: str, header: str) -> None:
        body = json.dumps({"messages": [{"role": "user", "content": said}]}).encode()
        with asked(f"{endpoint.url}/chat/completions", body) as answer:
            assert answer.headers["Retry-After"] == header

    @pytest.mark.parametrize("options", [{"retry_after": float("inf")}, {"retry_after": -1}, {"delay": float("nan")}])
    def test_seconds_that_are_none(self, options: dict[str, float]) -> None:
        with pytest.raises(UsageError, match=r"retry_after is|delay=nan"):
            Answer("x", **options)  # type: ignore[arg-type]


def test_an_address_of_ipv6() -> None:
    script = ModelScript()
    script.on("hello", text="Yes?")
    endpoint = ModelEndpoint(script, host="::1")
    if not has_ipv6():
        with pytest.raises(CurbError, match="did not start at ::1"):
            endpoint.start()
        return
    with endpoint:
        assert endpoint.url.startswith("http://[::1]:")
        assert post(endpoint, "hello")[0] == 200


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as listening:
            listening.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_the_fixture_tells_of_failures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen
        from curb_client.model import Answer, Rule

        def test_it(curb_model):
            curb_model.script.rules.append(Rule(Answer("x"), when=lambda _: 1 / 0))
            try:
                urlopen(Request(curb_model.url + "/chat/completions", b'{"messages": []}'), timeout=30)
            except HTTPError as error:
                error.close()
        """
    )
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*failed at 1 of the requests: ZeroDivisionError*"])
