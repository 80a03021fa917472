"""Answers in the form of the Responses API: one body, or a stream of typed events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from curb_client.model.endpoint.answering import Answering

__all__ = ["response_body", "response_events"]


def response_body(answering: Answering) -> dict[str, Any]:
    """The answer whole."""
    return _response(answering, "completed", [item for item, _ in _items(answering)])


def response_events(answering: Answering) -> Iterator[str]:
    """The answer as server-sent events, each named by its ``type``."""
    for number, event in enumerate(_events(answering)):
        data = json.dumps({**event, "sequence_number": number}, ensure_ascii=False)
        yield f"event: {event['type']}\ndata: {data}"


def _events(answering: Answering) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": _response(answering, "in_progress", [])}
    yield {"type": "response.in_progress", "response": _response(answering, "in_progress", [])}
    for index, (item, deltas) in enumerate(_items(answering)):
        place = {"item_id": item["id"], "output_index": index}
        is_text = item["type"] == "message"
        empty: dict[str, Any] = {"content": []} if is_text else {"arguments": ""}
        begun = {**item, "status": "in_progress", **empty}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        yield from _text_events(item, place, deltas) if is_text else _call_events(item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response_body(answering)}


def _text_events(item: dict[str, Any], place: dict[str, Any], deltas: list[str]) -> Iterator[dict[str, Any]]:
    place = {**place, "content_index": 0}
    (part,) = item["content"]
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for delta in deltas:
        yield {"type": "response.output_text.delta", **place, "delta": delta, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def _call_events(item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
    done = {"arguments": item["arguments"], "name": item["name"]}
    yield {"type": "response.function_call_arguments.done", **place, **done}


def _items(answering: Answering) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """The finished items of the output, each with the pieces of its text."""
    if answering.answer.text or not answering.calls:
        part = {"type": "output_text", "text": answering.answer.text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": f"msg_{answering.id}", "status": "completed", "role": "assistant"}
        yield {**message, "content": [part]}, answering.answer.pieces()
    for call_id, call, arguments in answering.calls:
        item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "status": "completed"}
        yield {**item, "name": call.tool, "arguments": arguments}, []


def _response(answering: Answering, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    before, after = answering.prompt_tokens, answering.answer_tokens
    usage = {
        "input_tokens": before,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": after,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": before + after,
    }
    return {
        "id": f"resp_{answering.id}",
        "object": "response",
        "created_at": answering.created,
        "status": status,
        "model": answering.model,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }
