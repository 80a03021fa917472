"""The single values that the protocol's types are made of.

A JSON number is an integer when its value is whole, as in JavaScript and in JSON Schema: ``1.0`` is read as 1. A
boolean is no number. Lengths count code points, as JSON Schema does.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema
from pydantic_core.core_schema import ValidationInfo

from curb_client.protocol.contract import MAX_ID_LENGTH, MAX_KEY_LENGTH, MAX_SAFE_INTEGER

__all__ = [
    "WIRE",
    "AbsentOr",
    "Count",
    "Flag",
    "Id",
    "JsonObject",
    "JsonValue",
    "Key",
    "Milliseconds",
    "NonEmpty",
    "Positive",
    "Yes",
    "no_default",
]

WIRE: Final = object()
"""The validation context of values that came over the wire, where only the wire's names count."""

T = TypeVar("T")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _boolean(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError("must be a boolean")
    return value


def _given(value: Any, info: ValidationInfo) -> Any:
    if value is None and info.context is WIRE:
        raise ValueError("must not be null; leave it out")
    return value


def no_default(schema: dict[str, Any]) -> None:
    """For ``json_schema_extra`` of :data:`AbsentOr`: null is the default in Python, and no value on the wire."""
    schema.pop("default", None)


JsonValue = Any
"""Whatever JSON can say: None, bool, int, float, str, list or dict."""

JsonObject = dict[str, Any]
Key = Annotated[StrictStr, Field(min_length=1, max_length=MAX_KEY_LENGTH, description="used verbatim on the wire")]
Id = Annotated[StrictStr, Field(min_length=1, max_length=MAX_ID_LENGTH, description="unique per sender and call")]
NonEmpty = Annotated[StrictStr, Field(min_length=1)]
Flag = StrictBool
Yes = Annotated[Literal[True], BeforeValidator(_boolean)]

Whole = Annotated[StrictInt, BeforeValidator(_whole)]
Count = Annotated[StrictInt, Field(ge=0, le=MAX_SAFE_INTEGER), BeforeValidator(_whole)]
Positive = Annotated[StrictInt, Field(ge=1, le=MAX_SAFE_INTEGER), BeforeValidator(_whole)]
Milliseconds = Annotated[
    Annotated[StrictInt | StrictFloat, Field(ge=0, le=MAX_SAFE_INTEGER)],
    BeforeValidator(_whole),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": MAX_SAFE_INTEGER}),
]
AbsentOr = Annotated[T | SkipJsonSchema[None], BeforeValidator(_given)]
"""A property that may be absent and not null: from a host, whose mistakes should be told."""
