"""The part of a request that a provider's prompt cache may keep: the system text and the transcript.

The context is written anew for every request and comes last, so that all before it stays the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from curb_client.model.message import Message
from curb_client.model.request import ModelRequest
from curb_client.model.written import written

__all__ = ["PrefixStep", "estimate_tokens", "prefix_steps"]


@dataclass(frozen=True)
class PrefixStep:
    """How a request begins, compared with the one before it.

    Attributes:
        broken_at: what is not as it was, in words; None while the prefix is the same.
        tools_changed: a provider's cache begins with the tools, so other tools break it, whatever the prefix.
        cached_tokens: estimate of what the cache can give: the prefix of the request before; 0 where it is broken.
        tokens: estimate of the whole request, its tools aside.
    """

    broken_at: str | None
    tools_changed: bool
    cached_tokens: int
    tokens: int

    @property
    def cached_share(self) -> float:
        """Of the request, from 0 to 1."""
        return self.cached_tokens / self.tokens if self.tokens else 0.0


def prefix_steps(requests: list[ModelRequest]) -> list[PrefixStep]:
    """A step for each request but the first."""
    return [_step(before, after) for before, after in pairwise(requests)]


def estimate_tokens(text: str) -> int:
    """A rough count for any model: four bytes of UTF-8 are a token, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def _step(before: ModelRequest, after: ModelRequest) -> PrefixStep:
    broken_at = _difference(before, after)
    tools_changed = before.tools != after.tools
    context = "" if after.context is None else after.context.render()
    total = estimate_tokens(_text(after)) + estimate_tokens(context)
    return PrefixStep(
        broken_at, tools_changed, 0 if broken_at or tools_changed else estimate_tokens(_text(before)), total
    )


def _difference(before: ModelRequest, after: ModelRequest) -> str | None:
    old, new = before.system.render(), after.system.render()
    if old != new:
        return f"the system text, at character {_first_difference(old, new)}"
    last = len(before.transcript) - 1
    for number, message in enumerate(before.transcript):
        if number >= len(after.transcript):
            return f"message {number + 1} ({message.role}), which is gone"
        other = after.transcript[number]
        old, new = _message(message), _message(other)
        if number == last:  # a context that ended this message took the line break before it along
            old, new = old.rstrip("\n"), new.rstrip("\n")
        where = f"message {number + 1} ({message.role})"
        if old != new:
            return f"{where}, at character {_first_difference(old, new)}"
        if keys := _other_keys(message, other, is_last=number == last):
            return f"{where}, in {', '.join(keys)}"
    return None


def _other_keys(before: Message, after: Message, *, is_last: bool) -> list[str]:
    """Keys of the messages' JSON whose values differ; null is as good as nothing."""
    old, new = before.raw, after.raw
    if old is None or new is None:
        return []
    if is_last:
        old, new = _at_its_end(old), _at_its_end(new)
    return [str(key) for key in dict.fromkeys([*old, *new]) if written(old.get(key)) != written(new.get(key))]


def _at_its_end(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without line breaks behind the last text."""
    content = raw.get("content")
    if isinstance(content, str):
        return {**raw, "content": content.rstrip("\n")}
    if isinstance(content, list) and content and isinstance(content[-1], Mapping):
        text = content[-1].get("text")
        if isinstance(text, str):
            return {**raw, "content": [*content[:-1], {**content[-1], "text": text.rstrip("\n")}]}
    return raw


def _first_difference(old: str, new: str) -> int:
    same = next((at for at, (left, right) in enumerate(zip(old, new, strict=False)) if left != right), None)
    return (min(len(old), len(new)) if same is None else same) + 1


def _text(request: ModelRequest) -> str:
    return "\n".join([request.system.render(), *(_message(message) for message in request.transcript)])


def _message(message: Message) -> str:
    calls = [f"{call.id} {call.name} {call.arguments}" for call in message.calls]
    return "\n".join([f"{message.role} {message.call_id}", *calls, message.render()])
