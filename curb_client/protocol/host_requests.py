"""What a host asks of a runner: bodies and query parameters (host protocol, Shapes and Host side).

A null where a property may only be absent is refused here, as Curb refuses it; what a runner answers is read more
leniently.
"""

from __future__ import annotations

from pydantic import Field, StrictStr

from curb_client.errors import UsageError
from curb_client.protocol.contract import MAX_GRACE_MS, MAX_ID_LENGTH, MAX_SAFE_INTEGER, CallDirection
from curb_client.protocol.envelope import MalformedTextError, check_key, check_object
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.scalars import AbsentOr, Id, JsonObject, Key, NonEmpty, Positive, no_default
from curb_client.protocol.types import HostModel, Issue

__all__ = [
    "HostMessage",
    "StartCallRequest",
    "check_grace_ms",
    "encode_host_message",
    "read_from",
    "read_grace_ms",
]


class StartCallRequest(HostModel):
    """The body of ``POST /v1/sessions``: a call for the runner to take."""

    session_id: NonEmpty
    realtime_url: NonEmpty = Field(description="the LiveKit server, ws:// or wss://")
    realtime_token: NonEmpty = Field(repr=False, description="for the agent, scoped to the call's room")
    deployment_id: AbsentOr[NonEmpty] = Field(default=None, json_schema_extra=no_default)
    configuration_version: AbsentOr[Positive] = Field(default=None, json_schema_extra=no_default)
    client_context: dict[str, StrictStr] = Field(
        default_factory=dict, description="what the caller's page or app said; the agent reads client.<key>"
    )
    direction: CallDirection = Field(default="inbound", description="outbound when the host dialed the caller")
    experiments: dict[str, StrictStr] = Field(default_factory=dict, description="experiment name to variant name")


class HostMessage(HostModel):
    """The body of ``POST /v1/sessions/{id}/messages``: a message to a call's agent."""

    id: Id = Field(description="unique per call; delivery is idempotent by it")
    name: Key
    payload: JsonObject
    in_reply_to: AbsentOr[Id] = Field(
        default=None, description="the id of the agent's ask that this answers", json_schema_extra=no_default
    )


def encode_host_message(message: HostMessage) -> str:
    """The JSON text of a message, checked as strictly as Curb reads it, which counts UTF-16 units.

    Raises:
        InvalidKeyError: a name over 256 UTF-16 units.
        UsageError: an id over 128 UTF-16 units.
        InvalidPayloadError: the payload is not JSON.
    """
    check_key(message.name)
    check_object(message.payload)
    for name, value in (("id", message.id), ("in_reply_to", message.in_reply_to or "")):
        units = len(value.encode("utf-16-le")) // 2
        if units > MAX_ID_LENGTH:
            raise UsageError(f"{name} has {units} UTF-16 units, over the limit of {MAX_ID_LENGTH}: shorten it")
    return encode_json(message)


def check_grace_ms(grace_ms: object) -> int:
    """The milliseconds themselves, if a stop may name them.

    Raises:
        UsageError: no whole number from 0 to 60,000.
    """
    if isinstance(grace_ms, bool) or not isinstance(grace_ms, int) or not 0 <= grace_ms <= MAX_GRACE_MS:
        raise UsageError(f"graceMs must be a whole number from 0 to {MAX_GRACE_MS} milliseconds, not {grace_ms!r:.80}")
    return grace_ms


def read_grace_ms(text: str | None) -> int:
    """``graceMs`` of a stop's query, in milliseconds; 0 where it is absent.

    Raises:
        MalformedTextError: no whole number from 0 to 60,000, ready to be answered ``invalid_request``.
    """
    return 0 if text is None else _digits("graceMs", text, MAX_GRACE_MS)


def read_from(text: str | None) -> int | None:
    """``from`` of the event stream's query: the last envelope processed, None to follow from now on.

    Raises:
        MalformedTextError: no whole number from 0 to 2^53-1, ready to be answered ``invalid_request``.
    """
    return None if text is None else _digits("from", text, MAX_SAFE_INTEGER)


def _digits(name: str, text: str, most: int) -> int:
    # Only what every language's number parser reads alike: no sign, space, fraction, exponent or other alphabet.
    if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_SAFE_INTEGER)) and int(text) <= most:
        return int(text)
    raise MalformedTextError([Issue(path=[name], message=f"must be a whole number from 0 to {most}, in digits")])
