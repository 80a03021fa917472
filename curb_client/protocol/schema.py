"""The protocol's types as one JSON Schema 2020-12 document, every type under ``$defs``.

``python -m curb_client.protocol.schema`` writes it to ``protocol.schema.json`` beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from curb_client.protocol import host_requests, host_types, records, types

__all__ = ["SCHEMA_PATH", "SCHEMA_TYPES", "protocol_schema"]

SCHEMA_PATH: Final = Path(__file__).with_name("protocol.schema.json")

SCHEMA_TYPES: Final[dict[str, type[types.WireModel]]] = {
    model.__name__: model
    for model in (
        types.AgentMessage,
        types.EffectiveSettings,
        types.Issue,
        types.MessageReply,
        types.MessageRequest,
        types.RefusalData,
        types.SessionUpdate,
        host_requests.HostMessage,
        host_requests.StartCallRequest,
        host_types.DrainAnswer,
        host_types.ErrorBody,
        host_types.Health,
        host_types.LiveCall,
        host_types.MessageAnswer,
        host_types.RunnerStatus,
        host_types.SettingsAnswer,
        host_types.StartCallAnswer,
        host_types.StopAnswer,
        host_types.TransferAnswer,
        host_types.TransferCancel,
        host_types.TransferStart,
        records.CallEnded,
        records.CallMessage,
        records.CallMessages,
        records.CallSettings,
        records.CallStarted,
        records.EventBody,
        records.HostBody,
        records.JournalRecord,
        records.LifecycleDraining,
        records.LifecycleEnded,
        records.LifecycleReady,
        records.PingLine,
        records.TurnBody,
    )
}


def protocol_schema() -> dict[str, Any]:
    """The document, generated anew from the models."""
    _, document = models_json_schema([(model, "validation") for model in SCHEMA_TYPES.values()], by_alias=True)
    document["$defs"]["JournalRecord"]["allOf"] = records.BODY_RULES
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The Curb protocol as curb_client implements it",
        "$defs": document["$defs"],
    }


def write_schema() -> None:
    """Write the committed file."""
    SCHEMA_PATH.write_text(json.dumps(protocol_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_schema()
