from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from curb_client.protocol.contract import LLM_PROVIDERS
from curb_client.protocol.schema import SCHEMA_PATH, SCHEMA_TYPES
from curb_client.protocol.types import (
    EffectiveSettings,
    Issue,
    LlmSettings,
    LlmUpdate,
    MessageReply,
    MessageRequest,
    SessionUpdate,
    SttSettings,
    TtsSettings,
    TtsUpdate,
    issues_of,
)
from tests.protocol.vectors import FIXTURES, read


def files(verdict: str) -> list[Path]:
    return sorted((FIXTURES / verdict).glob("*.json"))


def type_of(path: Path) -> str:
    return path.name.partition(".")[0]


def fits_the_model(path: Path) -> bool:
    try:
        SCHEMA_TYPES[type_of(path)].model_validate(read(path))
    except ValidationError:
        return False
    return True


def fits_the_schema(path: Path) -> bool:
    document = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    validator = Draft202012Validator({**document, "$ref": f"#/$defs/{type_of(path)}"})
    return bool(validator.is_valid(read(path)))


@pytest.mark.parametrize("path", files("valid"), ids=lambda path: path.stem)
def test_valid(path: Path) -> None:
    assert fits_the_model(path)
    assert fits_the_schema(path)


@pytest.mark.parametrize("path", files("invalid"), ids=lambda path: path.stem)
def test_invalid(path: Path) -> None:
    assert not fits_the_model(path)
    assert not fits_the_schema(path)


@pytest.mark.parametrize(("verdict", "least", "in_total"), [("valid", 3, 25), ("invalid", 5, 35)])
def test_every_type_has_fixtures(verdict: str, least: int, in_total: int) -> None:
    found = Counter(type_of(path) for path in files(verdict))
    assert set(found) == set(SCHEMA_TYPES)
    assert min(found.values()) >= least
    assert sum(found.values()) >= in_total


@pytest.mark.parametrize("path", files("valid"), ids=lambda path: path.stem)
def test_what_was_read_can_be_written_and_read_again(path: Path) -> None:
    model = SCHEMA_TYPES[type_of(path)]
    value = model.model_validate(read(path))
    written = value.to_wire()  # type: ignore[attr-defined]
    assert model.model_validate(json.loads(json.dumps(written))) == value


def test_a_missing_payload_is_an_empty_object_and_null_stays_null() -> None:
    assert MessageRequest(key="k", id="i").payload == {}
    assert MessageRequest(key="k", id="i", payload=None).payload is None
    assert MessageRequest(key="k", id="i", payload=None).to_wire() == {"key": "k", "id": "i", "payload": None}


def test_payloads_are_not_shared() -> None:
    assert MessageRequest(key="k", id="1").payload is not MessageRequest(key="k", id="2").payload


def test_nulls_inside_a_payload_are_kept() -> None:
    payload = {"a": None, "b": [None, {"c": None}]}
    assert MessageRequest(key="k", id="i", payload=payload).to_wire()["payload"] == payload


def test_what_is_not_given_is_left_out() -> None:
    assert SessionUpdate(tts=TtsUpdate(voice=17)).to_wire() == {"tts": {"voice": 17}}
    assert SessionUpdate().to_wire() == {}
    assert MessageReply().to_wire() == {}


def test_unknown_properties_are_ignored() -> None:
    request = MessageRequest.model_validate({"key": "k", "id": "i", "payload": 1, "later": True})
    assert request.to_wire() == {"key": "k", "id": "i", "payload": 1}


def test_base_url_has_the_wires_name_when_written() -> None:
    llm = LlmUpdate(provider="openai-compatible", model="m", base_url="https://llm.example.com")
    assert llm.to_wire() == {"provider": "openai-compatible", "model": "m", "baseURL": "https://llm.example.com"}
    assert LlmUpdate.model_validate(llm.to_wire()) == llm


@pytest.mark.parametrize("provider", LLM_PROVIDERS)
def test_every_llm_provider_may_be_asked_for(provider: str) -> None:
    assert LlmUpdate.model_validate({"provider": provider, "model": "m"}).provider == provider


@pytest.mark.parametrize("voice", [17, 17.5, "17", "alloy"])
def test_a_voice_keeps_its_type(voice: object) -> None:
    read_voice = SessionUpdate.model_validate({"tts": {"voice": voice}}).tts
    assert read_voice is not None
    assert read_voice.voice == voice
    assert type(read_voice.voice) is type(voice)


def test_values_cannot_be_changed() -> None:
    settings = EffectiveSettings(
        tts=TtsSettings(provider="a"), stt=SttSettings(provider="b"), llm=LlmSettings(provider="c", model="m")
    )
    with pytest.raises(ValidationError):
        settings.tts.voice = 5  # type: ignore[misc]


# issues_of


def paths(model: type[BaseModel], value: Any) -> list[list[str | int]]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(value)
    return [issue.path for issue in issues_of(caught.value, value)]


class Line(BaseModel):
    amount: int | list[int]


class Order(BaseModel):
    lines: list[Line]


def test_issue_paths_lead_to_the_value() -> None:
    assert paths(Order, {"lines": [{"amount": 1}, {"amount": [1, "two"]}]}) == [
        ["lines", 1, "amount"],
        ["lines", 1, "amount", 1],
    ]


def test_issue_paths_lead_to_a_missing_property() -> None:
    assert paths(Order, {"lines": [{}]}) == [["lines", 0, "amount"]]
    assert paths(Order, {}) == [["lines"]]


def test_issue_paths_do_not_name_members_of_unions() -> None:
    assert set(map(tuple, paths(SessionUpdate, {"tts": {"voice": True}}))) == {("tts", "voice")}
    assert paths(SessionUpdate, {"llm": {"model": "m"}}) == [["llm", "provider"]]


def test_the_whole_value_has_the_empty_path() -> None:
    assert paths(Order, 5) == [[]]


def test_issues_say_what_is_wrong() -> None:
    with pytest.raises(ValidationError) as caught:
        Order.model_validate({})
    assert issues_of(caught.value, {}) == [Issue(path=["lines"], message="Field required")]
