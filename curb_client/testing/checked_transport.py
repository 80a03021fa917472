"""What a runner says, held against ``protocol.schema.json`` as it comes."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from importlib import resources
from typing import Any, Final

import jsonschema

from curb_client.errors import RunnerUnreachableError
from curb_client.host.openapi import openapi_document
from curb_client.host.transport import Answer, ByteStream, Request, Transport
from curb_client.protocol.json_text import decode_json
from curb_client.protocol.ndjson import LineSplitter, MalformedLine

__all__ = ["CheckedTransport", "mismatch"]

MOST_TOLD: Final = 20
_EXCERPT: Final = 200  # characters


class CheckedTransport:
    """A carrier that holds every answer and every line of the event stream against the schema, and passes them on.

    Args:
        carrier: does the work; it is closed with this.

    Attributes:
        answers: how many were checked. lines: likewise, pings too.
        violations: what does not fit, one text each; the first 20.
    """

    def __init__(self, carrier: Transport) -> None:
        self.answers = 0
        self.lines = 0
        self.violations: list[str] = []
        self._carrier = carrier
        self._streams: set[_CheckedStream] = set()

    async def request(self, request: Request) -> Answer:
        """The carrier's."""
        answer = await self._carrier.request(request)
        self._answered(request, answer)
        return answer

    async def stream(self, request: Request) -> Answer | ByteStream:
        """The carrier's."""
        answer = await self._carrier.stream(request)
        if isinstance(answer, Answer):
            self._answered(request, answer)
            return answer
        stream = _CheckedStream(self, answer)
        self._streams.add(stream)
        return stream

    async def aclose(self) -> None:
        """Close the carrier."""
        await self._carrier.aclose()

    def cut_streams(self) -> int:
        """Break the connections of the streams that are open, as a network does; returns how many there were."""
        streams = list(self._streams)
        for stream in streams:
            stream.cut()
        return len(streams)

    def check_line(self, line: bytes | MalformedLine) -> None:
        """Check one line of a stream."""
        self.lines += 1
        if isinstance(line, MalformedLine):
            self._violated("a line of the stream", line.error, line.excerpt)
            return
        try:
            value = decode_json(line.decode())
        except ValueError as error:
            self._violated("a line of the stream", f"is not JSON: {error}", line)
            return
        is_ping = isinstance(value, dict) and "ping" in value and "envelope" not in value
        name = "PingLine" if is_ping else "JournalRecord"
        if (wrong := mismatch(name, value)) is not None:
            self._violated("a line of the stream", wrong, line)

    def closed(self, stream: _CheckedStream) -> None:
        """Note that a stream is over."""
        self._streams.discard(stream)

    def _answered(self, request: Request, answer: Answer) -> None:
        self.answers += 1
        what = f"the answer {answer.status} to {request.method} {request.path.partition('?')[0]}"
        try:
            value = decode_json(answer.body.decode())
        except ValueError as error:
            self._violated(what, f"is not JSON: {error}", answer.body)
            return
        is_success = 200 <= answer.status < 300
        name = _answer_types().get((request.method, _template(request.path))) if is_success else "ErrorBody"
        wrong = f"is no answer of the protocol: {request.method} has none there" if name is None else None
        if name is not None:
            wrong = mismatch(name, value)
        if wrong is not None:
            self._violated(what, wrong, answer.body)

    def _violated(self, what: str, how: str, content: bytes) -> None:
        if len(self.violations) < MOST_TOLD:
            excerpt = content[: 4 * _EXCERPT].decode(errors="replace")[:_EXCERPT]
            self.violations.append(f"{what} {how}; it begins {excerpt}")


class _CheckedStream:
    def __init__(self, checks: CheckedTransport, stream: ByteStream) -> None:
        self._checks = checks
        self._stream = stream
        self._splitter = LineSplitter()
        self._cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def read(self) -> bytes:
        reading = asyncio.ensure_future(self._stream.read())
        try:
            waiting: set[asyncio.Future[Any]] = {reading, self._cut}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not reading.done():
                reading.cancel()
        if self._cut.done():
            self.close()
            raise RunnerUnreachableError("the stream was cut on purpose (cut_streams)", maybe_taken=True)
        data = reading.result()
        for line in self._splitter.feed(data) if data else self._splitter.end():
            self._checks.check_line(line)
        return data

    def cut(self) -> None:
        if not self._cut.done():
            self._cut.set_result(None)

    def close(self) -> None:
        self._checks.closed(self)
        self._stream.close()


def mismatch(name: str, value: object) -> str | None:
    """In which way a JSON value is not of this type of ``protocol.schema.json``; None where it is."""
    error = jsonschema.exceptions.best_match(_validator(name).iter_errors(value))
    if error is None:
        return None
    where = "/".join(map(str, error.absolute_path)) or "the whole"
    return f"is no {name}: {where}: {error.message:.300}"


@functools.cache
def _schema() -> Any:
    return json.loads((resources.files("curb_client.protocol") / "protocol.schema.json").read_text(encoding="utf-8"))


@functools.cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _schema()["$defs"]})


def _template(path: str) -> str:
    return re.sub(r"^/v1/sessions/[^/?]+", "/v1/sessions/{id}", path.partition("?")[0])


@functools.cache
def _answer_types() -> dict[tuple[str, str], str]:
    """The type of a success, by method and path."""
    types: dict[tuple[str, str], str] = {}
    for path, item in openapi_document()["paths"].items():
        for method, operation in item.items():
            if method == "parameters":
                continue
            for status, response in operation["responses"].items():
                schema = response.get("content", {}).get("application/json", {}).get("schema")
                if status.startswith("2") and schema is not None:
                    types[method.upper(), path] = schema["$ref"].rpartition("/")[2]
    return types
