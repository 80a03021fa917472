"""Values from the wire as the type that the user asked for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from curb_client.errors import InvalidPayloadError, InvalidReplyError
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.types import Issue, issues_of

__all__ = ["SchemaMismatchError", "as_reply", "parse_as"]

T = TypeVar("T")


class SchemaMismatchError(ValueError):
    """The value does not fit; ``issues`` say where."""

    def __init__(self, issues: list[Issue]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, issue.path)) or 'value'}: {issue.message}" for issue in issues))
        self.issues = issues


def parse_as(wanted: type[T], value: object) -> T:
    """``value``, which came from JSON, as a pydantic model, dataclass, TypedDict or any type that pydantic knows.

    Raises:
        SchemaMismatchError: it does not fit.
    """
    try:
        adapter = _adapter(cast(Any, wanted))
        parsed: T = adapter.validate_json(encode_json(value))
    except InvalidPayloadError as error:  # half a surrogate pair: JSON can say it, UTF-8 cannot
        raise SchemaMismatchError([Issue(path=list(error.path), message=str(error))]) from None
    except ValidationError as error:
        raise SchemaMismatchError(issues_of(error, value)) from None
    return parsed


def as_reply(wanted: type[T] | None, value: object, what: str) -> T | Any:
    """The value itself when no type is wanted.

    Raises:
        InvalidReplyError: it does not fit the type.
    """
    if wanted is None:
        return value
    try:
        return parse_as(wanted, value)
    except SchemaMismatchError as error:
        name = getattr(wanted, "__name__", str(wanted))
        raise InvalidReplyError(f"{what} does not fit {name}: {error}", value, error.issues) from None


@lru_cache(maxsize=256)
def _adapter(wanted: Any) -> TypeAdapter[Any]:
    return TypeAdapter(wanted)
