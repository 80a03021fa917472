"""The two forms of a request's JSON, read into messages and tools; both are what other programs wrote, so anything
may be missing or of another type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from curb_client.model.context import Problem
from curb_client.model.message import TEXT_PARTS, Message, Part, ToolCall, parts_of_user_text
from curb_client.model.written import written

__all__ = ["read"]

Tool = tuple[str, str, Mapping[str, Any]]
"""Name, description, schema of the arguments."""


def read(body: Any, problems: list[Problem]) -> tuple[list[Message], list[Tool]]:
    """Messages and tools of a request of either form; what does not fit is told to ``problems``."""
    if not isinstance(body, Mapping):
        if not problems:
            problems.append(Problem(1, f"the request is {_kind(body)}; it must be an object"))
        return [], []
    is_chat = "messages" in body or "input" not in body
    messages = list(_chat(body, problems) if is_chat else _responses(body, problems))
    return messages, list(_tools(body, problems))


def _chat(body: Mapping[str, Any], problems: list[Problem]) -> Iterator[Message]:
    for where, item in _objects(body, "messages", problems, must_be=True):
        role = _text_of(item, "role", where, problems)
        calls = tuple(
            _chat_call(call, f"{where}.{at}", problems) for at, call in _objects(item, "tool_calls", problems, where)
        )
        call_id = _text_of(item, "tool_call_id", where, problems) if role == "tool" else ""
        yield Message(role, _texts(item.get("content"), role, where, problems), calls, call_id, item)


def _chat_call(item: Mapping[str, Any], where: str, problems: list[Problem]) -> ToolCall:
    function = item.get("function")
    if not isinstance(function, Mapping):
        problems.append(Problem(1, f"function is {_kind(function)}; it must be an object", where))
        function = {}
    name, arguments = (_text_of(function, key, where, problems) for key in ("name", "arguments"))
    return ToolCall(_text_of(item, "id", where, problems), name, arguments)


def _responses(body: Mapping[str, Any], problems: list[Problem]) -> Iterator[Message]:
    if isinstance(body.get("instructions"), str):
        yield Message.of_text("system", body["instructions"])
    if isinstance(body["input"], str):
        yield Message.of_text("user", body["input"])
        return
    for where, item in _objects(body, "input", problems, must_be=True):
        kind = item.get("type", "message")
        if kind == "function_call":
            call = ToolCall(*(_text_of(item, key, where, problems) for key in ("call_id", "name", "arguments")))
            yield Message("assistant", calls=(call,), raw=item)
        elif kind == "function_call_output":
            texts = _texts(item.get("output"), "tool", where, problems)
            yield Message("tool", texts, call_id=_text_of(item, "call_id", where, problems), raw=item)
        elif kind == "message":
            role = _text_of(item, "role", where, problems)
            yield Message(role, _texts(item.get("content"), role, where, problems), raw=item)
        else:
            yield Message(kind if isinstance(kind, str) else written(kind), ((written(dict(item)),),), raw=item)


def _texts(content: Any, role: str, where: str, problems: list[Problem]) -> tuple[tuple[Part, ...], ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (_parts(content, role),)
    if not isinstance(content, list):
        problems.append(Problem(1, f"content is {_kind(content)}; it must be text or a list of parts", where))
        return ()
    texts: list[tuple[Part, ...]] = []
    for number, part in enumerate(content):
        place = f"{where}.content[{number}]"
        if not isinstance(part, Mapping):
            problems.append(Problem(1, f"is {_kind(part)}; it must be an object", place))
        elif part.get("type") not in TEXT_PARTS:
            problems.append(Problem(1, f"is a part of type {written(part.get('type'))}; only text is read", place))
        elif isinstance(part.get("text"), str):
            texts.append(_parts(part["text"], role))
        else:
            problems.append(Problem(1, f"text is {_kind(part.get('text'))}; it must be text", place))
    return tuple(texts)


def _parts(text: str, role: str) -> tuple[Part, ...]:
    return parts_of_user_text(text) if role == "user" else (text,)


def _tools(body: Mapping[str, Any], problems: list[Problem]) -> Iterator[Tool]:
    for where, item in _objects(body, "tools", problems):
        if item.get("type", "function") != "function":  # a provider's own tool: it has no name of its own
            continue
        function = item.get("function", item)
        if not isinstance(function, Mapping):
            problems.append(Problem(1, f"function is {_kind(function)}; it must be an object", where))
            continue
        description, schema = function.get("description"), function.get("parameters")
        yield (
            _text_of(function, "name", where, problems),
            description if isinstance(description, str) else "",
            schema if isinstance(schema, Mapping) else {},
        )


def _objects(
    owner: Mapping[str, Any], key: str, problems: list[Problem], where: str = "", *, must_be: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a list, each with its place."""
    value = owner.get(key)
    if not isinstance(value, list):
        if must_be or value is not None:
            problems.append(Problem(1, f"{key} is {_kind(value)}; it must be a list", where))
        return
    for number, item in enumerate(value):
        if isinstance(item, Mapping):
            yield f"{key}[{number}]", item
        else:
            problems.append(Problem(1, f"{key}[{number}] is {_kind(item)}; it must be an object", where))


def _text_of(owner: Mapping[str, Any], key: str, where: str, problems: list[Problem]) -> str:
    value = owner.get(key)
    if isinstance(value, str):
        return value
    problems.append(Problem(1, f"{key} is {_kind(value)}; it must be text", where))
    return ""


def _kind(value: Any) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"
