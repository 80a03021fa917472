"""The records of a runner's event stream (host protocol, Event stream).

A record's body is read by what it says of itself, its ``event`` or its ``type``. What the protocol texts show in
full must fit: the lifecycle bodies, and those of class ``host``. Everything else that is not known, or not of the
shape that was inferred, is an :class:`OtherBody` with its content, so that a newer runner's records stay readable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, PlainSerializer, PlainValidator, StrictStr, ValidationError, WithJsonSchema
from pydantic_core.core_schema import ValidationInfo

from curb_client.protocol.contract import (
    CONVERSATION_CLASS,
    EVENT_ENDED,
    EVENT_MESSAGE,
    EVENT_MESSAGES,
    EVENT_SETTINGS,
    EVENT_STARTED,
    HOST_CLASS,
    KNOWN_CLASSES,
    LIFECYCLE_CLASS,
)
from curb_client.protocol.json_text import path_text
from curb_client.protocol.scalars import (
    Count,
    Flag,
    Id,
    JsonObject,
    JsonValue,
    Key,
    Milliseconds,
    NonEmpty,
    Positive,
)
from curb_client.protocol.types import HostModel, issues_of

__all__ = [
    "BODY_RULES",
    "Body",
    "CallEnded",
    "CallMessage",
    "CallMessages",
    "CallSettings",
    "CallStarted",
    "EventBody",
    "EventDetails",
    "HostBody",
    "JournalRecord",
    "LifecycleDraining",
    "LifecycleEnded",
    "LifecycleReady",
    "OtherBody",
    "PingLine",
    "TurnBody",
    "is_complete",
    "lifecycle_body",
]

ModelT = TypeVar("ModelT", bound=HostModel)


class LifecycleReady(HostModel):
    """The runner is warm and takes calls."""

    event: Literal["ready"]
    address: NonEmpty = Field(description="host:port of the runner's listener")
    max_sessions: Count
    warmup_ms: Milliseconds


class LifecycleDraining(HostModel):
    """The runner takes no more calls."""

    event: Literal["draining"]
    signal: StrictStr | None = Field(default=None, description="the one that made it drain, if it was a signal")


class LifecycleEnded(HostModel):
    """The runner's last record, written before the listener closes."""

    event: Literal["ended"]


class HostBody(HostModel):
    """An agent's message to its host."""

    type: Literal["host"]
    seq: Positive
    at: Milliseconds
    id: Id
    name: Key
    payload: JsonObject
    expects_reply: Flag = Field(description="whether the agent waits for a message whose inReplyTo is this id")


class TurnBody(HostModel):
    """What was said in a call."""

    type: Literal["turn"]
    seq: Positive | None = None
    at: Milliseconds | None = None
    role: NonEmpty = Field(description="user or assistant")
    text: StrictStr


class CallStarted(HostModel):
    """The payload of ``curb.started``."""

    direction: NonEmpty = Field(description="inbound or outbound")


class CallEnded(HostModel):
    """The payload of ``curb.ended``."""

    reason: StrictStr


class CallMessages(HostModel):
    """The payload of ``curb.messages``: what was not delivered in a call."""

    undelivered_to_client: dict[str, Count] = Field(
        default_factory=dict, description="by key, the agent's messages that no app received"
    )
    refused_queued_host_messages: Count = Field(
        default=0, description="host messages taken while the call was starting, refused by its agent afterwards"
    )


class CallMessage(HostModel):
    """The payload of ``curb.message``: one app message."""

    direction: NonEmpty = Field(description="fromClient, toClient, fromHost or toHost")
    key: Key
    id: Id | None = None
    payload: JsonValue = Field(default_factory=dict, description="as sent, or the beginning of its JSON text")
    reply: JsonValue = Field(default=None, description="likewise; null or absent when there was none")
    code: StrictStr | None = Field(default=None, description="why the agent refused it")
    truncated: Flag | None = Field(default=None, description="true where payload or reply is cut")


class CallSettings(HostModel):
    """The payload of ``curb.settings``: settings that were changed."""

    origin: NonEmpty = Field(description="client or host")
    settings: JsonObject = Field(description="those then in force")


EventDetails = CallStarted | CallEnded | CallMessages | CallMessage | CallSettings

_DETAILS: Final[dict[str, type[EventDetails]]] = {
    EVENT_STARTED: CallStarted,
    EVENT_ENDED: CallEnded,
    EVENT_MESSAGES: CallMessages,
    EVENT_MESSAGE: CallMessage,
    EVENT_SETTINGS: CallSettings,
}


class EventBody(HostModel):
    """Something that happened in a call."""

    type: Literal["event"]
    seq: Positive | None = None
    at: Milliseconds | None = None
    name: NonEmpty
    payload: JsonValue = Field(default_factory=dict, description="a missing one is {}")

    def details(self) -> EventDetails | None:
        """The payload as the type of a known event; None for other events, and for a payload that does not fit."""
        model = _DETAILS.get(self.name)
        try:
            return None if model is None else model.from_wire(self.payload)
        except ValidationError:
            return None


@dataclass(frozen=True)
class OtherBody:
    """A body that this library does not know.

    Attributes:
        content: the JSON value, whole.
    """

    content: Any


LifecycleBody = LifecycleReady | LifecycleDraining | LifecycleEnded
Body = LifecycleBody | HostBody | TurnBody | EventBody | OtherBody

_LIFECYCLE: Final[dict[str, type[LifecycleBody]]] = {
    "ready": LifecycleReady,
    "draining": LifecycleDraining,
    "ended": LifecycleEnded,
}


def lifecycle_body(value: object) -> LifecycleBody | OtherBody:
    """The body of a lifecycle record; an unknown ``event`` is an :class:`OtherBody`.

    Raises:
        ValueError: no object with an ``event``, or one that does not fit.
    """
    event = value.get("event") if isinstance(value, dict) else None
    if not isinstance(event, str):
        raise ValueError("must be an object with the text event")
    model = _LIFECYCLE.get(event)
    return OtherBody(value) if model is None else _fitting(model, value)


_CALL: Final[dict[str, type[HostBody | TurnBody | EventBody]]] = {
    "host": HostBody,
    "turn": TurnBody,
    "event": EventBody,
}


def _call_body(value: object, *, must_fit: bool) -> HostBody | TurnBody | EventBody | OtherBody:
    """By its own type and whatever its class, whose name is not known for all: ``curb.ended`` must not be missed."""
    kind = value.get("type") if isinstance(value, dict) else None
    model = _CALL.get(kind) if isinstance(kind, str) else None
    if model is None:
        return OtherBody(value)
    try:
        return _fitting(model, value)
    except ValueError:
        if must_fit and model is HostBody:
            raise
        return OtherBody(value)


def _fitting(model: type[ModelT], value: object) -> ModelT:
    try:
        return model.from_wire(value)
    except ValidationError as error:
        wrong = [f"{path_text(tuple(issue.path))}: {issue.message}" for issue in issues_of(error, value)]
        raise ValueError("; ".join(wrong)) from None


def _read_body(value: Any, info: ValidationInfo) -> Body:
    if not isinstance(value, dict) and isinstance(value, (HostModel, OtherBody)):
        return value  # type: ignore[return-value]
    record_class = info.data.get("record_class")
    if record_class == LIFECYCLE_CLASS:
        return lifecycle_body(value)
    if record_class in (HOST_CLASS, CONVERSATION_CLASS) and not isinstance(value, dict):
        raise ValueError("must be an object")
    if record_class == HOST_CLASS and not isinstance(value.get("type"), str):
        raise ValueError("type: must be text")
    return _call_body(value, must_fit=record_class == HOST_CLASS)


def _write_body(body: Body) -> Any:
    return body.content if isinstance(body, OtherBody) else body.to_wire()


class JournalRecord(HostModel):
    """One line of the event stream. A class that is not known is valid, with its body whatever it is."""

    envelope: Positive = Field(description="runner-wide and gapless: the cursor to resume from")
    producer: NonEmpty = Field(description="runner, or a call's session id")
    seq: Positive = Field(description="gapless within its producer")
    record_class: NonEmpty = Field(alias="class")
    at: Milliseconds = Field(description="since the Unix epoch")
    body: Annotated[Body, PlainValidator(_read_body), PlainSerializer(_write_body), WithJsonSchema({})]

    @property
    def is_known(self) -> bool:
        """Whether a reader takes this record; others it skips, and counts.

        A body of a known type makes it known whatever its class.
        """
        return self.record_class in KNOWN_CLASSES or not isinstance(self.body, OtherBody)

    @property
    def ends_call(self) -> bool:
        """Whether this is the last record of a complete call."""
        return isinstance(self.body, EventBody) and self.body.name == EVENT_ENDED


class PingLine(HostModel):
    """A line of an idle event stream. It is no record and never advances a cursor."""

    ping: Milliseconds = Field(description="since the Unix epoch")


def is_complete(records: Iterable[JournalRecord]) -> bool:
    """Whether one call's records, in order, are its whole end: the last is ``curb.ended`` (Truncation rule)."""
    last = None
    for record in records:
        last = record
    return last is not None and last.ends_call


def _when(name: str, value: str, then: dict[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {name: {"const": value}}, "required": [name]}, "then": then}


def _fits(name: str, models: dict[str, type[HostModel]]) -> dict[str, Any]:
    rules = [_when(name, value, {"$ref": f"#/$defs/{model.__name__}"}) for value, model in models.items()]
    return {"type": "object", "required": [name], "properties": {name: {"type": "string"}}, "allOf": rules}


BODY_RULES: Final = [
    _when("class", LIFECYCLE_CLASS, {"properties": {"body": _fits("event", {**_LIFECYCLE})}}),
    _when("class", HOST_CLASS, {"properties": {"body": _fits("type", {"host": HostBody})}}),
    _when("class", CONVERSATION_CLASS, {"properties": {"body": {"type": "object"}}}),
]
"""What the schema of :class:`JournalRecord` adds: a record's class tells what its body must be."""
