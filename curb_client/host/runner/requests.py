"""An HTTP request as the routes need it: path, query and body, read strictly."""

from __future__ import annotations

import math
import re
from typing import Any, Final, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from aiohttp import web
from pydantic import ValidationError

from curb_client.host.runner.refusals import RunnerRefusal
from curb_client.protocol.contract import MAX_DEPTH, ErrorCode
from curb_client.protocol.json_text import decode_json
from curb_client.protocol.types import HostModel, Issue, issues_of
from curb_client.room.sdk import finish_within

__all__ = ["check_realtime_url", "parse_body", "path_of", "query_of", "read_json", "target_of"]

BODY_SECONDS: Final = 30.0
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")

ModelT = TypeVar("ModelT", bound=HostModel)


def target_of(request: web.BaseRequest) -> tuple[str, str]:
    """Path and query as they were sent; a proxy may send the whole URL."""
    target = request.raw_path
    if not target.startswith("/"):
        try:
            parts = urlsplit(target)
        except ValueError:
            return target, ""
        return (parts.path or "/", parts.query) if parts.scheme in ("http", "https") else (target, "")
    path, _, query = target.partition("#")[0].partition("?")
    return path, query


def path_of(request: web.BaseRequest) -> list[str]:
    """The decoded segments of the path; ``/v1/runner`` has two.

    Raises:
        RunnerRefusal: malformed percent-encoding.
    """
    path = target_of(request)[0]
    return [_decoded("path", segment) for segment in path[1:].split("/")] if path.startswith("/") else [path]


def query_of(request: web.BaseRequest, *known: str) -> dict[str, str]:
    """The parameters of these names that are there; others are ignored.

    Raises:
        RunnerRefusal: malformed percent-encoding, or a parameter given twice.
    """
    values: dict[str, str] = {}
    for part in target_of(request)[1].split("&"):
        name, _, value = (_decoded("query", piece.replace("+", " ")) for piece in part.partition("="))
        if name in values:
            raise RunnerRefusal.invalid([Issue(path=[name], message="is given more than once")])
        if name in known:
            values[name] = value
    return values


async def read_json(request: web.BaseRequest, most_bytes: int) -> Any:
    """The request's body, a JSON value.

    Raises:
        RunnerRefusal: too large, too slow, or no JSON in UTF-8.
    """
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # else an error would find the answer begun
    reading = _body(request, most_bytes)
    try:
        # What came with the head needs no deadline, and so no task of its own.
        data = await (reading if request.content.is_eof() else finish_within(reading, BODY_SECONDS))
    except TimeoutError:
        raise _invalid(f"the body was not there within {BODY_SECONDS:g} s") from None
    try:
        return decode_json(data.decode("utf-8"))
    except ValueError as error:
        raise _invalid(f"the body is not JSON: {error}") from None


def parse_body(model: type[ModelT], value: Any) -> ModelT:
    """The model of a body.

    Raises:
        RunnerRefusal: it does not fit, or has a text or number that could not be passed on.
    """
    if not isinstance(value, dict):
        raise _invalid("the body must be a JSON object")
    try:
        parsed = model.from_wire(value)
    except ValidationError as error:
        raise RunnerRefusal.invalid(issues_of(error, value)) from None
    declared = {field.alias or name for name, field in model.model_fields.items()}
    for name in declared & value.keys():
        _check_carriable(value[name], [name])
    return parsed


def check_realtime_url(url: str) -> None:
    """LiveKit's SDK would be given anything, and say so only in the log.

    Raises:
        RunnerRefusal: no ws, wss, http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("ws", "wss", "http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or any(character <= " " for character in url):
        issue = Issue(path=["realtimeUrl"], message="must be the LiveKit server's URL, ws:// or wss://")
        raise RunnerRefusal.invalid([issue])


def _check_carriable(value: Any, path: list[str | int]) -> None:
    """JSON can spell what cannot be passed on; numbers of any size can, to an agent in Python."""
    wrong = None
    if isinstance(value, (dict, list)):
        if len(path) > MAX_DEPTH:
            raise RunnerRefusal.invalid([Issue(path=path[:1], message=f"is nested deeper than {MAX_DEPTH} levels")])
        for step, inside in value.items() if isinstance(value, dict) else enumerate(value):
            _check_carriable(step, path)
            _check_carriable(inside, [*path, step])
    elif isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            wrong = "has a lone surrogate; remove it"
    elif isinstance(value, float) and not math.isfinite(value):
        wrong = "is a number out of range"
    if wrong is not None:
        raise RunnerRefusal.invalid([Issue(path=path, message=wrong)])


async def _body(request: web.BaseRequest, most_bytes: int) -> bytes:
    data = bytearray()
    try:
        while chunk := await request.content.readany():
            data += chunk
            if len(data) > most_bytes:
                raise _invalid(f"the body is over the limit of {most_bytes} bytes; send a reference to the data")
    except web.RequestPayloadError as error:
        raise _invalid("the body is broken off, or not of the length that its header says") from error
    return bytes(data)


def _decoded(part: str, text: str) -> str:
    try:
        if _BAD_ESCAPE.search(text):
            raise ValueError
        return unquote_to_bytes(text).decode("utf-8")
    except ValueError:
        raise _invalid(
            f"the {part} has malformed percent-encoding; write each byte of UTF-8 as % and two digits"
        ) from None


def _invalid(detail: str) -> RunnerRefusal:
    return RunnerRefusal(ErrorCode.INVALID_REQUEST, detail)
