"""The host protocol's HTTP interface as an OpenAPI 3.1 document, generated from the models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from curb_client.protocol.contract import MAX_GRACE_MS, MAX_SAFE_INTEGER, STATUS_BY_CODE, ErrorCode
from curb_client.protocol.schema import protocol_schema

__all__ = ["openapi_document"]

_SESSION: Final = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "the call's session id",
    "schema": {"type": "string", "minLength": 1},
}
_OF_AGENT: Final = (ErrorCode.NOT_ADJUSTABLE, ErrorCode.INVALID_SETTINGS)
_OF_MESSAGE: Final = (ErrorCode.NO_HANDLER, ErrorCode.INVALID_PAYLOAD, ErrorCode.HANDLER_FAILED)
_EVERYWHERE: Final = (ErrorCode.UNAUTHORIZED, ErrorCode.INVALID_REQUEST, ErrorCode.INTERNAL)


def openapi_document() -> dict[str, Any]:
    """The document; ``components.schemas`` are the types of ``protocol.schema.json``."""
    types = json.loads(json.dumps(protocol_schema()["$defs"]).replace('"#/$defs/', '"#/components/schemas/'))
    types["StartCallRequest"]["properties"]["realtimeUrl"]["pattern"] = "^(wss?|https?)://"
    return {
        "openapi": "3.1.0",
        "info": {"title": "Curb host protocol", "version": "1"},
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "schemas": types,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths() -> dict[str, Any]:
    return {
        "/health": {"get": _health()},
        "/v1/sessions": {"post": _start()},
        "/v1/sessions/{id}": {
            "parameters": [_SESSION],
            "get": _operation("getCall", "How far a call is", {200: "LiveCall"}, errors=(ErrorCode.SESSION_NOT_FOUND,)),
            "patch": _operation(
                "updateCall",
                "Change a call's settings",
                {200: "SettingsAnswer"},
                body="SessionUpdate",
                errors=(ErrorCode.SESSION_NOT_FOUND, *_OF_AGENT),
            ),
            "delete": _stop(),
        },
        "/v1/sessions/{id}/messages": {
            "parameters": [_SESSION],
            "post": _operation(
                "sendMessage",
                "Send a message to a call's agent; answered once its handlers have run",
                {202: "MessageAnswer"},
                body="HostMessage",
                errors=(
                    ErrorCode.SESSION_NOT_FOUND,
                    ErrorCode.RUNNER_AT_CAPACITY,
                    ErrorCode.RUNNER_TAKES_NO_CALLS,
                    *_OF_MESSAGE,
                ),
            ),
        },
        "/v1/runner": {
            "get": _operation(
                "getRunner", "The runner's status", {200: "RunnerStatus"}, errors=(ErrorCode.RUNNER_TAKES_NO_CALLS,)
            )
        },
        "/v1/runner/events": {"get": _events()},
        "/v1/runner/drain": {
            "post": _operation(
                "drainRunner",
                "Take no more calls, finish those there are, end",
                {202: "DrainAnswer"},
                errors=(ErrorCode.RUNNER_TAKES_NO_CALLS,),
            )
        },
    }


def _start() -> dict[str, Any]:
    operation = _operation(
        "startCall",
        "Start a call; a repeat changes nothing",
        {201: "StartCallAnswer", 200: "StartCallAnswer"},
        body="StartCallRequest",
        errors=(
            ErrorCode.RUNNER_AT_CAPACITY,
            ErrorCode.GENERATION_MISMATCH,
            ErrorCode.RUNNER_DRAINING,
            ErrorCode.RUNNER_TAKES_NO_CALLS,
        ),
    )
    operation["responses"]["201"]["links"] = {
        name: {"operationId": name, "parameters": {"id": "$response.body#/sessionId"}}
        for name in ("getCall", "updateCall", "stopCall", "sendMessage")
    }
    return operation


def _health() -> dict[str, Any]:
    operation = _operation("getHealth", "Whether it is there; needs no token", {200: "Health"})
    return {**operation, "security": [], "responses": {"200": _answer("Health")}}


def _stop() -> dict[str, Any]:
    grace = {"type": "integer", "minimum": 0, "maximum": MAX_GRACE_MS, "default": 0}
    return {
        **_operation("stopCall", "End a call; stopping one that is not there is a success too", {200: "StopAnswer"}),
        "parameters": [
            {"name": "reason", "in": "query", "schema": {"type": "string"}, "description": "of its curb.ended"},
            {"name": "graceMs", "in": "query", "schema": grace, "description": "for the agent to finish, milliseconds"},
        ],
    }


def _events() -> dict[str, Any]:
    operation = _operation(
        "getEvents",
        "What the runner has to say, one JSON value a line",
        {},
        errors=(ErrorCode.CURSOR_TOO_OLD, ErrorCode.NO_JOURNAL),
    )
    line = {"anyOf": [_ref("JournalRecord"), _ref("PingLine")]}
    operation["responses"]["200"] = {
        "description": "it goes on until the runner ends",
        "content": {"application/x-ndjson": {"x-line-schema": line}},
    }
    cursor = {"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER}
    operation["parameters"] = [
        {"name": "from", "in": "query", "schema": cursor, "description": "the last envelope processed"}
    ]
    return operation


def _operation(
    name: str,
    summary: str,
    answers: Mapping[int, str],
    *,
    body: str | None = None,
    errors: Sequence[ErrorCode] = (),
) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in (*_EVERYWHERE, *errors):
        by_status.setdefault(STATUS_BY_CODE[code], []).append(code.value)
    responses = {str(status): _answer(name) for status, name in answers.items()}
    responses.update({str(status): _answer("ErrorBody", ", ".join(codes)) for status, codes in by_status.items()})
    operation: dict[str, Any] = {"operationId": name, "summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(body)}}}
    return operation


def _answer(name: str, description: str | None = None) -> dict[str, Any]:
    return {"description": description or name, "content": {"application/json": {"schema": _ref(name)}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
