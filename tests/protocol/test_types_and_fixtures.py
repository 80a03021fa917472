from __future__ import annotations

import copy
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from curb_client.protocol.contract import LLM_PROVIDERS
from curb_client.protocol.json_text import decode_json, encode_json
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
        SCHEMA_TYPES[type_of(path)].from_wire(read(path))
    except ValidationError:
        return False
    return True


@cache
def validator(name: str) -> Draft202012Validator:
    document = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    return Draft202012Validator({**document, "$ref": f"#/$defs/{name}"})


def fits_the_schema(path: Path) -> bool:
    return bool(validator(type_of(path)).is_valid(read(path)))


@pytest.mark.parametrize("path", files("valid"), ids=lambda path: path.stem)
def test_valid(path: Path) -> None:
    assert fits_the_model(path)
    assert fits_the_schema(path)


@pytest.mark.parametrize("path", files("invalid"), ids=lambda path: path.stem)
def test_invalid(path: Path) -> None:
    assert not fits_the_model(path)
    assert not fits_the_schema(path)


@pytest.mark.parametrize(("verdict", "least", "in_total"), [("valid", 3, 150), ("invalid", 5, 250)])
def test_every_type_has_fixtures(verdict: str, least: int, in_total: int) -> None:
    found = Counter(type_of(path) for path in files(verdict))
    assert set(found) == set(SCHEMA_TYPES)
    assert min(found.values()) >= least
    assert sum(found.values()) >= in_total


@pytest.mark.parametrize("path", files("valid"), ids=lambda path: path.stem)
def test_what_was_read_can_be_written_and_read_again(path: Path) -> None:
    model = SCHEMA_TYPES[type_of(path)]
    value = model.from_wire(read(path))
    written = decode_json(encode_json(value))
    assert model.from_wire(written) == value
    assert validator(type_of(path)).is_valid(written)


# One verdict of model and schema, beyond the fixtures

scalars: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.0, 1.5, -0.0, 60_000, 2**53 - 1, 2**53, "", "x", "ready", "host", "1", [], {}]
)
json_values = scalars | st.recursive(
    scalars | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside, max_size=2),
    max_leaves=4,
)
lengths = st.sampled_from([0, 1, 127, 128, 129, 256, 257])
texts = st.builds(lambda character, count: character * count, st.sampled_from(["k", "é", "😀"]), lengths)


@cache
def fixtures_of(name: str) -> list[Any]:
    return [read(path) for verdict in ("valid", "invalid") for path in files(verdict) if type_of(path) == name]


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Every property and element, as its container and its name or index."""
    if not isinstance(value, (dict, list)):
        return []
    own = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [*((value, name) for name, _ in own), *(place for _, inside in own for place in places_in(inside))]


@pytest.mark.parametrize("name", SCHEMA_TYPES)
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_model_and_schema_agree(name: str, data: st.DataObject) -> None:
    value = [copy.deepcopy(data.draw(st.sampled_from(fixtures_of(name))))]
    for _ in range(data.draw(st.integers(1, 3))):
        places = places_in(value)
        container, at = data.draw(st.sampled_from(places))
        if at != 0 and data.draw(st.booleans()):
            del container[at]
        else:
            container[at] = data.draw(json_values | texts)
        if not value:
            return
    try:
        SCHEMA_TYPES[name].from_wire(value[0])
        fits = True
    except ValidationError:
        fits = False
    assert fits is validator(name).is_valid(value[0]), value[0]


def test_a_python_name_is_no_name_on_the_wire() -> None:
    update = {"llm": {"provider": "openai-compatible", "model": "m", "base_url": "https://llm.example.com"}}
    read_update = SessionUpdate.from_wire(update)
    assert read_update.llm is not None
    assert read_update.llm.base_url is None
    in_python = SessionUpdate.model_validate(update).llm
    assert in_python is not None
    assert in_python.base_url == "https://llm.example.com"


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
