"""The single values that the protocol's types are made of.

A JSON number is an integer when its value is whole, as in JavaScript and in JSON Schema: ``1.0`` is read as 1. A
boolean is no number. Lengths count code points, as JSON Schema does.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidatorFunctionWrapHandler,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema
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


class _Number:
    """A number within bounds. An int is checked without a call into Python, as a stream has several a record."""

    def __init__(self, least: int, *, or_float: bool = False) -> None:
        self._int = core_schema.int_schema(strict=True, ge=least, le=MAX_SAFE_INTEGER)
        self._float = core_schema.float_schema(strict=True, ge=least, le=MAX_SAFE_INTEGER)
        self._kinds = [self._int, self._float] if or_float else [self._int]
        what = "number" if or_float else "integer"
        self._message = f"Input should be a valid {what} from {least} to {MAX_SAFE_INTEGER}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        otherwise = core_schema.union_schema(list(self._kinds), mode="left_to_right")
        return core_schema.union_schema(
            [self._int, core_schema.no_info_before_validator_function(_whole, otherwise)],
            mode="left_to_right",
            custom_error_type="number_in_bounds",
            custom_error_message=self._message,
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(self._kinds[-1])


Whole = Annotated[StrictInt, BeforeValidator(_whole)]
Count = Annotated[int, _Number(0)]
Positive = Annotated[int, _Number(1)]
Milliseconds = Annotated[int | float, _Number(0, or_float=True)]


class _AbsentOr:
    """None in Python, and nothing on the wire; any other value is told what is wrong with it alone."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        (given,) = (each for each in get_args(source) if each is not type(None))
        return core_schema.with_info_wrap_validator_function(_given, handler(given))


def _given(value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if value is not None:
        return validate(value)
    if info.context is WIRE:
        raise ValueError("must not be null; leave it out")
    return None


AbsentOr = Annotated[T | None, _AbsentOr()]
"""A property that may be absent and not null: from a host, whose mistakes should be told."""
