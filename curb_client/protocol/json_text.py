"""JSON text, byte for byte the same from Python and JavaScript.

The standard encoder writes ``1.0`` and ``1e-05`` where JavaScript writes ``1`` and ``0.00001``, takes NaN, lone
surrogates and non-text keys, and never says where in the value the trouble is. Hence one of our own.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from json.encoder import encode_basestring
from typing import Any, Final

from pydantic import BaseModel

from curb_client.errors import InvalidPayloadError
from curb_client.protocol.contract import MAX_DEPTH, MAX_SAFE_INTEGER
from curb_client.protocol.types import WireModel

__all__ = ["decode_json", "encode_json", "path_text", "utf8_size", "without_lone_surrogates"]

Path = tuple[str | int, ...]


def encode_json(value: object) -> str:
    """The value as compact JSON text, non-ASCII unescaped, numbers as JavaScript writes them.

    Args:
        value: None, bool, int, float, str, list, tuple, mapping with text keys, enum member, dataclass or pydantic
            model, nested at will.

    Raises:
        InvalidPayloadError: NaN or infinity, a lone surrogate, an integer beyond 2^53-1, a key that is not text, a
            cycle, more than 200 levels, or another type; ``path`` leads to it.
    """
    pieces: list[str] = []
    _write(value, (), pieces)
    return "".join(pieces)


def decode_json(text: str) -> object:
    """The value of a JSON text.

    Raises:
        ValueError: not JSON, or nested deeper than 500 levels.
    """
    # Not left to the interpreter's limit: where that is near, finalizers that happen to run there fail as well.
    if text.count("[") + text.count("{") > _MAX_READ_DEPTH and _depth(text) > _MAX_READ_DEPTH:
        raise ValueError(_TOO_DEEP)
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def utf8_size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text.encode("utf-8"))


def without_lone_surrogates(value: Any) -> Any:
    """The JSON value with U+FFFD for each half of a surrogate pair in its texts and keys: JSON can say one, and no
    UTF-8 text carry it."""
    if isinstance(value, str):
        # A pair written as two escapes is one character already.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [without_lone_surrogates(inside) for inside in value]
    if isinstance(value, dict):
        return {without_lone_surrogates(name): without_lone_surrogates(inside) for name, inside in value.items()}
    return value


def path_text(path: Path) -> str:
    """A path as people write it: ``items[2].name``; the value itself is ``payload``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text.encode("utf-8", "backslashreplace").decode("utf-8") or "payload"


def _depth(text: str) -> int:
    outside_strings = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]
    brackets = _NO_BRACKETS.sub("", "".join(outside_strings))
    return max(itertools.accumulate(map(_LEVELS.__getitem__, brackets)), default=0)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_MAX_READ_DEPTH: Final = 500
_TOO_DEEP: Final = f"the JSON text is nested deeper than {_MAX_READ_DEPTH} levels"
_NO_BRACKETS: Final = re.compile(r"[^\[\]{}]+")
_LEVELS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_decoder: Final = json.JSONDecoder(parse_constant=_refuse_constant)  # json.loads would make one each time


def _write(value: object, path: Path, pieces: list[str]) -> None:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        pieces.append(_string(value, path))
    elif value is None or value is True or value is False:
        pieces.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, (int, float)):
        pieces.append(_number(value, path))
    elif isinstance(value, (dict, list, tuple, BaseModel, Mapping)) or _is_dataclass(value):
        if len(path) >= MAX_DEPTH:
            raise InvalidPayloadError(
                f"{path_text(path[:3])}… is nested deeper than {MAX_DEPTH} levels (or contains itself); flatten it",
                path,
            )
        if isinstance(value, (list, tuple)):
            _write_array(value, path, pieces)
        else:
            _write_object(value, path, pieces)
    else:
        raise InvalidPayloadError(
            f"{path_text(path)} is of type {type(value).__name__}, which JSON has no form for; "
            "convert it to text, a number, a list or a dict first",
            path,
        )


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _write_array(items: list[object] | tuple[object, ...], path: Path, pieces: list[str]) -> None:
    separator = "["
    for index, item in enumerate(items):
        pieces.append(separator)
        _write(item, (*path, index), pieces)
        separator = ","
    pieces.append("[]" if separator == "[" else "]")


def _write_object(value: object, path: Path, pieces: list[str]) -> None:
    separator = "{"
    for name, item in _properties(value, path):
        if not isinstance(name, str):
            raise InvalidPayloadError(
                f"{path_text(path)} has the key {name!r} of type {type(name).__name__}; JSON keys are text", path
            )
        inside = (*path, name)
        pieces += separator, _string(name, inside), ":"
        _write(item, inside, pieces)
        separator = ","
    pieces.append("{}" if separator == "{" else "}")


def _properties(value: object, path: Path) -> Iterable[tuple[object, object]]:
    if isinstance(value, dict):  # most are, and an abstract class takes longer to ask
        return value.items()
    if isinstance(value, BaseModel):
        try:
            wire = value.to_wire() if isinstance(value, WireModel) else value.model_dump(mode="json", by_alias=True)
            return wire.items()
        except ValueError as error:
            raise InvalidPayloadError(f"{path_text(path)} cannot be written as JSON: {error}", path) from error
    if isinstance(value, Mapping):
        return value.items()
    assert dataclasses.is_dataclass(value)
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]


def _string(text: str, path: Path) -> str:
    try:
        text.isascii() or text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidPayloadError(
            f"{path_text(path)} has a lone surrogate (U+{ord(text[error.start]):04X}) at character {error.start}, "
            "which no UTF-8 text can carry; remove it",
            path,
        ) from None
    return encode_basestring(text)


def _number(value: float, path: Path) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidPayloadError(f"{path_text(path)} is {value}, which JSON has no form for; send null", path)
        if not value.is_integer():
            return _javascript_number(value)
        value = int(value)
    if abs(value) > MAX_SAFE_INTEGER:
        # A number of 5,000 digits cannot even be printed; its size says enough.
        raise InvalidPayloadError(
            f"{path_text(path)} is a whole number of {value.bit_length()} bits, beyond 2^53-1, "
            "which a JavaScript peer would read as another number; send it as text",
            path,
        )
    return int.__repr__(value)


def _javascript_number(value: float) -> str:
    """A finite, non-integral float the way ECMAScript's Number::toString writes it."""
    text = float.__repr__(value)
    mantissa, found, exponent = text.partition("e-")
    if not found:
        return text
    power = int(exponent)
    if power > 6:
        return f"{mantissa}e-{power}"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}0.{'0' * (power - 1)}{mantissa.lstrip('-').replace('.', '')}"
