"""The decoders of the protocol: a client's, an agent's and a host's."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

from pydantic import ValidationError

from curb_client.errors import InvalidPayloadError, InvalidReplyError
from curb_client.protocol.contract import MAX_REFUSAL_DATA_BYTES, REFUSAL_NUMBER, RefusalCode
from curb_client.protocol.envelope import (
    MalformedTextError,
    Refusal,
    decode_message,
    decode_refusal,
    decode_reply,
    decode_request,
    encode_refusal,
)
from curb_client.protocol.host_requests import HostMessage, StartCallRequest, read_from, read_grace_ms
from curb_client.protocol.json_text import decode_json, encode_json, utf8_size
from curb_client.protocol.ndjson import LineDecoder, MalformedLine
from curb_client.protocol.ready_line import read_lifecycle_line
from curb_client.protocol.settings import ProviderRules
from curb_client.protocol.types import EffectiveSettings
from curb_client.room.live_settings import LiveSettings
from tests.fuzz.target import Target, text_of

__all__ = ["TARGETS"]

_SETTINGS: Final = EffectiveSettings.from_wire(
    {
        "tts": {"provider": "kugelaudio", "voice": 1072},
        "stt": {"provider": "azure", "language": "en"},
        "llm": {"provider": "openai-compatible", "model": "large", "baseURL": "http://llm.internal/v1"},
    }
)
_EVERYTHING: Final = ("tts.voice", "tts.model", "stt.language", "llm")
_LINE_LIMIT: Final = 512
_RECORD: Final = {
    "envelope": 7,
    "producer": "s-1",
    "seq": 3,
    "class": "conversation",
    "at": "2025-01-01T00:00:00.000Z",
    "body": {"event": "turn", "turn": 1, "role": "user", "text": "hello"},
}


def json_text(data: bytes) -> None:
    """What is read can be written and read again, where it can be written at all."""
    try:
        value = decode_json(text_of(data))
    except ValueError:
        return
    with contextlib.suppress(InvalidPayloadError):
        text = encode_json(value)
        assert encode_json(decode_json(text)) == text


def message(data: bytes) -> None:
    """The text of a stream on ``curb.message``."""
    with contextlib.suppress(MalformedTextError):
        read = decode_message(text_of(data))
        assert 1 <= len(read.key) <= 256


def request(data: bytes) -> None:
    """The payload of the RPC ``curb.message``; what is wrong with it can be answered."""
    try:
        read = decode_request(text_of(data))
    except MalformedTextError as error:
        code, told = encode_refusal(Refusal(RefusalCode.INVALID_PAYLOAD, issues=error.issues))
        assert utf8_size(told) <= MAX_REFUSAL_DATA_BYTES
        answered = decode_refusal(REFUSAL_NUMBER, code, told)
        assert answered is not None
        assert answered.issues
        return
    assert 1 <= len(read.key) <= 256
    assert 1 <= len(read.id) <= 128


def reply(data: bytes) -> None:
    """The agent's answer."""
    with contextlib.suppress(InvalidReplyError):
        decode_reply(text_of(data))


def refusal(data: bytes) -> None:
    """An RPC error: its code, a line, its message, a line, its data."""
    number, _, rest = text_of(data).partition("\n")
    words, _, told = rest.partition("\n")
    code = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else REFUSAL_NUMBER
    refused = decode_refusal(code, words, told)
    assert refused is None or refused.code == words


def settings_update(data: bytes) -> None:
    """A change of settings: refused and nothing changed, or taken with an answer that can be written."""
    try:
        body = decode_json(text_of(data))
    except ValueError:
        return
    live = LiveSettings(_SETTINGS, {"client": _EVERYTHING, "host": _EVERYTHING}, ProviderRules())
    for sender in ("client", "host"):
        before = live.effective
        try:
            encode_json(live.update(body, sender).to_wire())
        except Refusal as refused:
            assert live.effective == before
            encode_refusal(refused)


def events(data: bytes) -> None:
    """A stream of records: the same lines however it is cut."""
    whole, bits = LineDecoder(_LINE_LIMIT), LineDecoder(_LINE_LIMIT)
    lines = [*whole.feed(data), *whole.end()]
    cut = [line for at in range(len(data)) for line in bits.feed(data[at : at + 1])]
    assert [*cut, *bits.end()] == lines
    assert all(line.error for line in lines if isinstance(line, MalformedLine))
    assert whole.skipped == bits.skipped


def lifecycle_line(data: bytes) -> None:
    """A line of a runner's output."""
    with contextlib.suppress(MalformedTextError):
        read_lifecycle_line(text_of(data))


def host_request(data: bytes) -> None:
    """What a host asks of a runner."""
    text = text_of(data)
    for read in (read_grace_ms, read_from):
        with contextlib.suppress(MalformedTextError):
            assert read(text) is not None
    try:
        body: Any = decode_json(text)
    except ValueError:
        return
    for model in (StartCallRequest, HostMessage):
        with contextlib.suppress(ValidationError):
            model.from_wire(body)


TARGETS: Final = (
    Target.of(
        json_text, ['{"a":[1,2.5e-7,null,true,"\\ud834\\udd1e"]}', "[[[[[]]]]]", '"\\ud834"', "9007199254740993"]
    ),
    Target.of(message, ['{"key":"show-form","id":"m-1","payload":{"fields":["name"]}}', '{"key":""}', "{}"]),
    Target.of(request, ['{"key":"quote","id":"r-1","payload":{"plan":"basic"}}', '{"key":1,"id":[],"payload":null}']),
    Target.of(reply, ['{"reply":{"price":12}}', "{}", '{"reply":null}', "[1]"]),
    Target.of(
        refusal,
        [
            '4220\ninvalid_payload\n{"issues":[{"path":["a",0],"message":"missing"}]}',
            '4220\nnot_adjustable\n{"path":"tts.voice"}',
            "1500\nApplication error in method handler\n",
        ],
    ),
    Target.of(
        settings_update,
        [
            '{"tts":{"voice":17,"model":"m"},"stt":{"language":"de"}}',
            '{"llm":{"provider":"openai-compatible","model":"small","baseURL":"https://a.example:8443/v1"}}',
            '{"llm":{"provider":"anthropic","model":""}}',
        ],
    ),
    Target.of(
        events, [json.dumps(_RECORD) + "\n", '{"ping":1}\r\n\n{"envelope":1', json.dumps({**_RECORD, "class": "x"})]
    ),
    Target.of(
        lifecycle_line,
        ['curb-hosted {"event":"ready","address":"127.0.0.1:7071","protocolVersion":1}\n', 'curb-hosted {"event":"x"}'],
    ),
    Target.of(
        host_request,
        [
            "60000",
            '{"sessionId":"s-1","realtimeUrl":"ws://127.0.0.1:7880","realtimeToken":"t","clientContext":{"lang":"de"}}',
            '{"id":"m-1","name":"human.requested","payload":{"topic":"refund"},"inReplyTo":"a-1"}',
        ],
    ),
)
