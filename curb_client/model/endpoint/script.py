"""What a scripted model answers: rules on the request, the first that fits decides."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from curb_client.errors import UsageError
from curb_client.model.message import Message
from curb_client.model.request import ModelRequest

__all__ = ["Answer", "Call", "ModelScript", "Rule"]

ANY_TOOL: Final = "*"


@dataclass(frozen=True)
class Call:
    """A tool that the model calls.

    Attributes:
        tool: its name. arguments: a JSON object.

    Raises:
        UsageError: the arguments have no form in JSON.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            json.dumps(dict(self.arguments), allow_nan=False)
        except (RecursionError, TypeError, ValueError) as error:
            raise UsageError(f"the arguments of the call of {self.tool!r} are no JSON: {error}") from None


@dataclass(frozen=True)
class Answer:
    """What the model does with a request.

    Attributes:
        text: what it says. calls: the tools that it calls, after the text.
        thinking: what it thinks before that, as ``reasoning_content``; in chat completions alone.
        delay: seconds before the first byte of the answer; a comment keeps a stream alive meanwhile.
        status: of HTTP; another than 200 is an error, with ``error`` as its message.
        code: of an error, ``context_length_exceeded`` say; the one that OpenAI gives with the status unless given.
        retry_after: seconds that an error tells the client to wait, a rate limit's say.
        chunk: characters of text in each piece of a stream.
        cut_after: pieces of a stream after which the connection breaks off.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    delay: float = 0.0
    status: int = 200
    error: str = "the script says so"
    retry_after: float | None = None
    chunk: int = 16
    cut_after: int | None = None
    thinking: str = ""
    code: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.delay < math.inf or self.chunk < 1 or (self.cut_after is not None and self.cut_after < 0):
            raise UsageError(f"no answer: delay={self.delay}, chunk={self.chunk}, cut_after={self.cut_after}")
        if self.status != 200 and not 400 <= self.status <= 599:
            raise UsageError(f"status is {self.status}; give 200, or an error from 400 to 599")
        if self.retry_after is not None and not 0 <= self.retry_after < math.inf:
            raise UsageError(f"retry_after is {self.retry_after}; give seconds, from 0")

    def pieces(self) -> list[str]:
        """The text as a stream carries it."""
        return self._in_pieces(self.text)

    def thoughts(self) -> list[str]:
        """What it thinks, as a stream carries it."""
        return self._in_pieces(self.thinking)

    def _in_pieces(self, text: str) -> list[str]:
        return [text[at : at + self.chunk] for at in range(0, len(text), self.chunk)]

    def to_json(self) -> dict[str, Any]:
        """For a recording: what was said and called, or the error."""
        if self.status != 200:
            return {"error": self.error}
        calls = [{"tool": call.tool, "arguments": dict(call.arguments)} for call in self.calls]
        return {"text": self.text, "calls": calls} if calls else {"text": self.text}


@dataclass
class Rule:
    """What fits a request, and the answer to it. Everything that is given must fit.

    Attributes:
        answer: the answer, or a function that makes one of the request.
        said: what the person's last words contain, upper or lower case; or a compiled pattern that is found in them.
        offers: tools that the request offers. lacks: tools that it does not.
        after: the tool whose result is the newest message, ``"*"`` for any. Without it the rule is for requests in
            which the person spoke last. The runtime's notices do not count.
        turn: how many times the person has spoken, from 1.
        when: a function that has the last word.
        times: how often the rule may be used; any number unless given.
    """

    answer: Answer | Callable[[ModelRequest], Answer]
    said: str | re.Pattern[str] | None = None
    offers: Sequence[str] = ()
    lacks: Sequence[str] = ()
    after: str | None = None
    turn: int | None = None
    when: Callable[[ModelRequest], bool] | None = None
    times: int | None = None

    used: int = field(default=0, init=False)

    def fits(self, request: ModelRequest) -> bool:
        """Whether the rule is for this request, and not used up."""
        return (
            (self.times is None or self.used < self.times)
            and self._fits_position(request)
            and self._fits_words(request.last_user_text)
            and all(request.tool(name) is not None for name in self.offers)
            and not any(request.tool(name) is not None for name in self.lacks)
            and (self.when is None or self.when(request))
        )

    def use(self, request: ModelRequest) -> Answer:
        """The answer; the rule counts as used once more."""
        self.used += 1
        return self.answer if isinstance(self.answer, Answer) else self.answer(request)

    def _fits_position(self, request: ModelRequest) -> bool:
        turns = sum(1 for message in request.transcript if message.role == "user" and message.text)
        if self.turn is not None and turns != self.turn:
            return False
        newest = next((message for message in reversed(request.transcript) if not _is_notice(message)), None)
        if newest is None or newest.role != "tool":
            return self.after is None
        return self.after == ANY_TOOL or self.after == request.results[-1].name

    def _fits_words(self, words: str) -> bool:
        if self.said is None:
            return True
        if isinstance(self.said, str):
            return self.said.casefold() in words.casefold()
        return self.said.search(words) is not None


def _is_notice(message: Message) -> bool:
    return bool(message.events) and not message.text


class ModelScript:
    """Rules in their order.

    Args:
        rules: the first that fits answers.
        is_strict: a request that no rule fits is an error; else it is answered with an empty text.
    """

    def __init__(self, rules: Sequence[Rule] = (), *, is_strict: bool = True) -> None:
        self.rules = list(rules)
        self.is_strict = is_strict

    def on(self, said: str | re.Pattern[str] | None = None, *, text: str = "", **options: Any) -> Rule:
        """Add a rule: ``script.on("hello", text="Good morning.")``; options are those of Rule and Answer.

        Raises:
            UsageError: an option that neither has.
        """
        answer = {name: options.pop(name) for name in list(options) if name in Answer.__dataclass_fields__}
        if unknown := options.keys() - {"offers", "lacks", "after", "turn", "when", "times"}:
            raise UsageError(f"{min(unknown)} is no option of a rule or an answer")
        rule = Rule(Answer(text=text, **answer), said=said, **options)
        self.rules.append(rule)
        return rule

    def answer(self, request: ModelRequest) -> Answer | None:
        """The answer to a request; None where the script has none."""
        rule = next((rule for rule in self.rules if rule.fits(request)), None)
        if rule is not None:
            return rule.use(request)
        return None if self.is_strict else Answer()
