"""From keys, ids and payloads to the texts that travel, and back (host protocol, Client side).

Sending is strict and fails before anything is sent. Receiving is lenient: unknown properties are ignored, and what
cannot be read raises :class:`MalformedTextError`, for the carrier to count or to refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from curb_client.errors import AgentRefusedError, InvalidKeyError, InvalidPayloadError, InvalidReplyError, UsageError
from curb_client.protocol.contract import (
    LIVEKIT_RESERVED_NUMBERS,
    MAX_CODE_LENGTH,
    MAX_ID_LENGTH,
    MAX_KEY_LENGTH,
    MAX_REFUSAL_DATA_BYTES,
    MAX_REQUEST_BYTES,
    RefusalCode,
)
from curb_client.protocol.json_text import decode_json, encode_json, utf8_size, without_lone_surrogates
from curb_client.protocol.types import AgentMessage, EffectiveSettings, Issue, MessageRequest, RefusalData, issues_of

__all__ = [
    "MalformedTextError",
    "Refusal",
    "check_key",
    "check_object",
    "decode_message",
    "decode_refusal",
    "decode_reply",
    "decode_request",
    "encode_message",
    "encode_refusal",
    "encode_reply",
    "encode_request",
    "encode_update",
]

ModelT = TypeVar("ModelT", bound=BaseModel)


class MalformedTextError(ValueError):
    """A text from a peer that is not the JSON object it should be.

    Attributes:
        issues: what is wrong, ready to be sent back.
    """

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, i.path)) or 'text'}: {i.message}" for i in issues))
        self.issues = list(issues)


class Refusal(Exception):  # noqa: N818 - the protocol calls it a refusal
    """An agent's no, before it becomes an RPC error."""

    def __init__(self, code: RefusalCode, *, issues: Sequence[Issue] = (), path: str | None = None) -> None:
        super().__init__(code.value)
        self.code = code
        self.issues = tuple(issues)
        self.path = path


# Keys and ids


def check_key(key: object) -> str:
    """The key itself, if it may be sent.

    Raises:
        InvalidKeyError: not text, empty, over 256 UTF-16 units, or with a lone surrogate.
    """
    if not isinstance(key, str):
        raise InvalidKeyError(f"key must be text, not {type(key).__name__}")
    try:
        units = len(key.encode("utf-16-le")) // 2
    except UnicodeEncodeError as error:
        raise InvalidKeyError(f"key has a lone surrogate at character {error.start}; remove it") from None
    if not 1 <= units <= MAX_KEY_LENGTH:
        raise InvalidKeyError(
            f"key has {units} UTF-16 units; it must have 1 to {MAX_KEY_LENGTH}" + (": shorten it" if units else "")
        )
    return key


def check_object(payload: object) -> str:
    """The JSON text of a payload that must be a JSON object (``toClient``, ``toHost``, ``askHost``).

    Raises:
        InvalidPayloadError: not JSON, or JSON but no object.
    """
    text = encode_json(payload)
    if not text.startswith("{"):
        raise InvalidPayloadError(
            f"payload is of type {type(payload).__name__}; what an agent sends must be a JSON object: wrap it in a dict"
        )
    return text


# Client to agent


def encode_request(key: str, request_id: str, payload: object) -> str:
    """The RPC payload of ``curb.message``: ``{key, id, payload}``.

    Raises:
        InvalidKeyError, InvalidPayloadError: see :func:`check_key` and :func:`encode_json`.
        UsageError: an id that is no text of 1 to 128 characters.
        AgentRefusedError: ``payload_too_large`` when the text has more than 15,360 bytes.
    """
    text = f'{{"key":{encode_json(check_key(key))},"id":{_id_text(request_id)},"payload":{encode_json(payload)}}}'
    return _within_limit(text, f"the request {key!r:.80}")


def _id_text(request_id: object) -> str:
    if not isinstance(request_id, str) or not 1 <= len(request_id) <= MAX_ID_LENGTH:
        raise UsageError(f"id must be text of 1 to {MAX_ID_LENGTH} characters, not {request_id!r:.160}")
    try:
        return encode_json(request_id)
    except InvalidPayloadError:
        raise UsageError(f"id has a lone surrogate: {request_id!r:.160}; remove it") from None


def encode_update(update: object) -> str:
    """The RPC payload of ``curb.update``: the settings as given, refused here only if they are too large.

    Raises:
        InvalidPayloadError: not JSON.
        AgentRefusedError: ``payload_too_large``.
    """
    return _within_limit(encode_json(update), "the settings update")


def decode_request(text: str) -> MessageRequest:
    """Raises:
    MalformedTextError: no ``{key, id, payload}`` in there.
    """
    return _decode(text, MessageRequest)


def _within_limit(text: str, what: str) -> str:
    size = utf8_size(text)
    if size > MAX_REQUEST_BYTES:
        raise AgentRefusedError(
            RefusalCode.PAYLOAD_TOO_LARGE.value,
            f"payload_too_large: {what} has {size} bytes of JSON, {size - MAX_REQUEST_BYTES} over the limit of "
            f"{MAX_REQUEST_BYTES}; nothing was sent: split it, or send a reference to the data",
            size=size,
            limit=MAX_REQUEST_BYTES,
        )
    return text


# The agent's answer


def encode_reply(reply: object) -> str:
    """``{reply}``, or ``{}`` when there is none.

    Raises:
        InvalidPayloadError: the reply is not JSON, or over 15,360 bytes with its envelope.
    """
    text = "{}" if reply is None else f'{{"reply":{encode_json(reply)}}}'
    size = utf8_size(text)
    if size > MAX_REQUEST_BYTES:
        raise InvalidPayloadError(f"the reply has {size} bytes of JSON; the limit is {MAX_REQUEST_BYTES}: shorten it")
    return text


def decode_reply(text: str) -> object:
    """The reply in the answer, None where it is null or absent.

    Raises:
        InvalidReplyError: the answer is no JSON object.
    """
    answer = _answer(text, "the agent's answer")
    if not isinstance(answer, dict):
        raise InvalidReplyError(f"the agent's answer is not a JSON object: {text!r:.200}", answer)
    return answer.get("reply")


def decode_settings(text: str) -> EffectiveSettings:
    """The settings in the answer to ``curb.update``.

    Raises:
        InvalidReplyError: the answer is none.
    """
    answer = _answer(text, "the answer to the update")
    try:
        return EffectiveSettings.from_wire(answer)
    except ValidationError as error:
        issues = issues_of(error, answer)
        raise InvalidReplyError(f"the answer to the update is no settings: {error}", answer, issues) from None


def _answer(text: str, what: str) -> object:
    try:
        return decode_json(text)
    except ValueError as error:
        raise InvalidReplyError(f"{what} is not JSON ({error}): {text!r:.200}", text) from None


def encode_refusal(refusal: Refusal) -> tuple[str, str]:
    """A refusal as the message and the data of an RPC error; the data is ``""`` when there is nothing to add.

    LiveKit would cut data over 15,360 bytes in the middle: issues are left out from the end until it fits, and a last
    one says how many.
    """
    if refusal.path is not None:
        return refusal.code.value, encode_json({"path": refusal.path})
    if not refusal.issues:
        return refusal.code.value, ""
    texts = _fitting(refusal.issues, MAX_REFUSAL_DATA_BYTES - 13)
    return refusal.code.value, f'{{"issues":[{",".join(texts)}]}}'


def _fitting(issues: Sequence[Issue], room: int) -> list[str]:
    texts = [encode_json(_short(issue)) for issue in issues]
    if sum(utf8_size(text) + 1 for text in texts) <= room:
        return texts
    more = 60  # bytes, the most that the closing issue and a comma take
    kept: list[str] = []
    for text in texts:
        more += utf8_size(text) + 1
        if more > room:
            break
        kept.append(text)
    return [*kept, encode_json({"path": [], "message": f"{len(texts) - len(kept)} more"})]


def _short(issue: Issue) -> dict[str, object]:
    """An issue that any UTF-8 text can carry, and whose own message leaves room for others."""
    message = without_lone_surrogates(issue.message).encode()
    limit = MAX_REFUSAL_DATA_BYTES // 4
    return {
        "path": without_lone_surrogates(issue.path),
        "message": message[:limit].decode("utf-8", "ignore") + ("…" if len(message) > limit else ""),
    }


def decode_refusal(number: int, message: str, data: str | None) -> AgentRefusedError | None:
    """The refusal that an RPC error carries, or None if it is LiveKit's own error.

    A known code counts whatever the number; an unknown one must look like a code and have a number outside the range
    that LiveKit reserves. Data that cannot be read counts as absent.
    """
    known = message in {code.value for code in RefusalCode}
    if not known and (number in LIVEKIT_RESERVED_NUMBERS or not _looks_like_a_code(message)):
        return None
    try:
        details = _decode(data, RefusalData) if data else RefusalData()
    except MalformedTextError:
        details = RefusalData()
    issues = details.issues or []
    told = [f"{'.'.join(map(str, issue.path)) or 'payload'}: {issue.message}" for issue in issues[:3]]
    if details.path is not None:
        told.append(f"{details.path} may not be changed by this client")
    return AgentRefusedError(
        message, f"{message}: {'; '.join(told)}" if told else message, issues=issues, path=details.path
    )


def _looks_like_a_code(message: str) -> bool:
    return (
        len(message) <= MAX_CODE_LENGTH
        and message[:1].isalpha()
        and all(c == "_" or (c.isascii() and (c.islower() or c.isdigit())) for c in message)
    )


# Agent to client


def encode_message(key: str, message_id: str, payload: object) -> str:
    """The text of a stream on ``curb.message``: ``{key, id, payload}``.

    Raises:
        InvalidKeyError, InvalidPayloadError: see :func:`check_key` and :func:`check_object`.
    """
    return f'{{"key":{encode_json(check_key(key))},"id":{encode_json(message_id)},"payload":{check_object(payload)}}}'


def decode_message(text: str) -> AgentMessage:
    """Raises:
    MalformedTextError: no ``{key, payload}`` in there.
    """
    return _decode(text, AgentMessage)


def _decode(text: str, model: type[ModelT]) -> ModelT:
    try:
        value = decode_json(text)
    except ValueError as error:
        raise MalformedTextError([Issue(path=[], message=f"not JSON: {error}")]) from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise MalformedTextError(issues_of(error, value)) from None
