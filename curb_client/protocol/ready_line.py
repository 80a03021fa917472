"""The lifecycle lines on a runner's stdout, among whatever else it prints (host protocol, The ready line)."""

from __future__ import annotations

from curb_client.protocol.contract import LIFECYCLE_PREFIX
from curb_client.protocol.envelope import MalformedTextError
from curb_client.protocol.json_text import decode_json, encode_json
from curb_client.protocol.records import LifecycleBody, OtherBody, lifecycle_body
from curb_client.protocol.types import Issue

__all__ = ["read_lifecycle_line", "write_lifecycle_line"]


def write_lifecycle_line(body: LifecycleBody) -> str:
    """The line, without its end: ``curb-hosted {"event":"ready",…}``, ``event`` always first.

    Raises:
        InvalidPayloadError: a text with a lone surrogate.
    """
    return LIFECYCLE_PREFIX + encode_json(body)


def read_lifecycle_line(line: str) -> LifecycleBody | OtherBody | None:
    """The lifecycle body in a line of output, with or without its end; None for any other output.

    Other output is also what has the prefix and then no JSON object with an ``event``. An unknown event is an
    :class:`OtherBody`.

    Raises:
        MalformedTextError: a known event whose body does not fit: a host that waits for ``ready`` should hear of it.
    """
    if not line.startswith(LIFECYCLE_PREFIX):
        return None
    try:
        value = decode_json(line[len(LIFECYCLE_PREFIX) :])
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("event"), str):
        return None
    try:
        return lifecycle_body(value)
    except ValueError as error:
        raise MalformedTextError([Issue(path=[], message=f"the lifecycle line does not fit: {error}")]) from None
