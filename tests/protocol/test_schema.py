from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from curb_client.protocol import schema
from curb_client.protocol.schema import SCHEMA_PATH, SCHEMA_TYPES, protocol_schema


def committed() -> dict[str, Any]:
    document = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inside in value.values():
            yield from objects(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from objects(inside)


def test_the_committed_file_is_up_to_date(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(schema, "SCHEMA_PATH", tmp_path / "protocol.schema.json")
    schema.write_schema()
    generated = (tmp_path / "protocol.schema.json").read_bytes()
    assert generated == SCHEMA_PATH.read_bytes(), "run: python -m curb_client.protocol.schema"


def test_it_is_a_2020_12_schema() -> None:
    assert committed()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(committed())


def test_every_type_is_under_defs() -> None:
    assert set(SCHEMA_TYPES) == {
        "AgentMessage",
        "CallEnded",
        "CallMessage",
        "CallMessages",
        "CallSettings",
        "CallStarted",
        "DrainAnswer",
        "EffectiveSettings",
        "ErrorBody",
        "EventBody",
        "Health",
        "HostBody",
        "HostMessage",
        "Issue",
        "JournalRecord",
        "LifecycleDraining",
        "LifecycleEnded",
        "LifecycleReady",
        "LiveCall",
        "MessageAnswer",
        "MessageReply",
        "MessageRequest",
        "PingLine",
        "RefusalData",
        "RunnerStatus",
        "SessionUpdate",
        "SettingsAnswer",
        "StartCallAnswer",
        "StartCallRequest",
        "StopAnswer",
        "TransferAnswer",
        "TransferCancel",
        "TransferStart",
        "TurnBody",
    }
    assert set(SCHEMA_TYPES) <= set(committed()["$defs"])


def test_every_type_is_an_object_and_every_reference_leads_to_one() -> None:
    definitions = committed()["$defs"]
    assert all(definition["type"] == "object" for definition in definitions.values())
    references = {node["$ref"] for node in objects(definitions) if "$ref" in node}
    assert references
    assert references <= {f"#/$defs/{name}" for name in definitions}


def test_unknown_properties_are_never_forbidden() -> None:
    for node in objects(committed()):
        assert node.get("additionalProperties") is not False
        assert "unevaluatedProperties" not in node
        assert "propertyNames" not in node


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("AgentMessage", {"key"}),
        ("DrainAnswer", {"draining"}),
        ("EffectiveSettings", {"tts", "stt", "llm"}),
        ("ErrorBody", {"error"}),
        ("Health", {"ok", "protocolVersion", "versions"}),
        ("HostBody", {"type", "seq", "at", "id", "name", "payload", "expectsReply"}),
        ("HostMessage", {"id", "name", "payload"}),
        ("Issue", {"path", "message"}),
        ("JournalRecord", {"envelope", "producer", "seq", "class", "at", "body"}),
        ("LifecycleDraining", {"event"}),
        ("LifecycleReady", {"event", "address", "maxSessions", "warmupMs"}),
        ("LiveCall", {"sessionId", "state", "startedAtMs"}),
        ("LlmUpdate", {"provider", "model"}),
        ("MessageAnswer", {"id", "delivered"}),
        ("MessageReply", set()),
        ("MessageRequest", {"key", "id"}),
        ("RefusalData", set()),
        ("RunnerStatus", {"protocolVersion", "maxSessions", "activeSessions", "draining", "sessions"}),
        ("SessionUpdate", set()),
        ("SettingsAnswer", {"sessionId", "settings"}),
        ("StartCallAnswer", {"sessionId", "accepted"}),
        ("StartCallRequest", {"sessionId", "realtimeUrl", "realtimeToken"}),
        ("StopAnswer", {"sessionId", "stopped"}),
    ],
)
def test_what_is_required(name: str, required: set[str]) -> None:
    assert set(protocol_schema()["$defs"][name].get("required", [])) == required


def test_names_are_the_wires() -> None:
    definitions = committed()["$defs"]
    assert set(definitions["LlmUpdate"]["properties"]) == {"provider", "model", "baseURL"}
    assert set(definitions["LlmSettings"]["properties"]) == {"provider", "model", "baseURL"}


def test_what_the_texts_name_is_there() -> None:
    definitions = committed()["$defs"]
    assert set(definitions["StartCallRequest"]["properties"]) == {
        "sessionId",
        "realtimeUrl",
        "realtimeToken",
        "deploymentId",
        "configurationVersion",
        "clientContext",
        "direction",
        "experiments",
    }
    assert set(definitions["HostMessage"]["properties"]) == {"id", "name", "payload", "inReplyTo"}
    assert set(definitions["ErrorBody"]["properties"]) == {
        "error",
        "detail",
        "versions",
        "requested",
        "oldestRetained",
        "path",
        "issues",
    }
    assert definitions["LiveCall"]["properties"]["state"]["enum"] == ["starting", "connected", "ending", "ended"]


def test_where_null_is_refused_it_is_no_default() -> None:
    for name in ("StartCallRequest", "HostMessage"):
        for inside in committed()["$defs"][name]["properties"].values():
            assert "anyOf" not in inside
            assert inside.get("default", "") is not None
