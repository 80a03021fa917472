"""Answers in the form of chat completions: one body, or a stream of chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from curb_client.model.endpoint.answering import Answering

__all__ = ["chat_body", "chat_events"]


def chat_body(answering: Answering) -> dict[str, Any]:
    """The answer whole."""
    message: dict[str, Any] = {"role": "assistant", "content": answering.answer.text or None, "refusal": None}
    if answering.answer.thinking:
        message["reasoning_content"] = answering.answer.thinking
    if answering.calls:
        message["tool_calls"] = [_call(call_id, call.tool, arguments) for call_id, call, arguments in answering.calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish(answering), "logprobs": None}
    return {**_envelope(answering, "chat.completion"), "choices": [choice], "usage": _usage(answering)}


def chat_events(answering: Answering, *, with_usage: bool) -> Iterator[str]:
    """The answer as server-sent events; the last one is ``[DONE]``."""
    for delta in _deltas(answering):
        yield _chunk(answering, [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}])
    last = {"index": 0, "delta": {}, "finish_reason": _finish(answering), "logprobs": None}
    yield _chunk(answering, [last])
    if with_usage:
        yield _chunk(answering, [], usage=_usage(answering))
    yield "data: [DONE]"


def _deltas(answering: Answering) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for thought in answering.answer.thoughts():
        yield {"reasoning_content": thought}
    for piece in answering.answer.pieces():
        yield {"content": piece}
    for index, (call_id, call, arguments) in enumerate(answering.calls):  # first id and name, then the arguments
        yield {"tool_calls": [{"index": index, **_call(call_id, call.tool, "")}]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _finish(answering: Answering) -> str:
    return "tool_calls" if answering.calls else "stop"


def _chunk(answering: Answering, choices: list[dict[str, Any]], **others: Any) -> str:
    chunk = {**_envelope(answering, "chat.completion.chunk"), "choices": choices, **others}
    return f"data: {json.dumps(chunk, ensure_ascii=False)}"


def _envelope(answering: Answering, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answering.id}", "object": kind, "created": answering.created, "model": answering.model}


def _usage(answering: Answering) -> dict[str, Any]:
    before, after = answering.prompt_tokens, answering.answer_tokens
    return {
        "prompt_tokens": before,
        "completion_tokens": after,
        "total_tokens": before + after,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
