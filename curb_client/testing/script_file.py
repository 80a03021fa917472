"""The form of a script for :class:`~curb_client.testing.scripted.ScriptedAgent`, in Python and as a YAML file.

::

    settings: {tts: {provider: kugelaudio, voice: 1072}, stt: {provider: azure}, llm: {provider: openai, model: large}}
    adjustable: {client: [tts.voice]}
    on_join:
      - {send: hello, payload: {text: hi}, after: 0.1}
    on:
      quote:                                    # tried from the first to the last
        - {when: {plan: gold}, reply: {price: 20}}
        - {reply: {price: 12}}
      open-form: {send: show-form, payload: {fields: [name, policy]}}
      claim: {refuse: invalid_payload, issues: [{path: [name], message: required}]}
      slow: {reply: {ok: true}, after: 2, times: 1}

Plain values are read as JSON reads them: numbers, ``true``, ``false`` and ``null``; all else, such as ``no``, ``01067``
or ``2024-05-01``, is text.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from typing_extensions import Self

from curb_client.errors import UsageError
from curb_client.protocol.contract import AdjustablePath, Sender
from curb_client.protocol.envelope import check_key, check_object, encode_reply
from curb_client.protocol.json_text import decode_json, encode_json
from curb_client.protocol.types import EffectiveSettings, Issue, LlmSettings, SttSettings, TtsSettings
from curb_client.room.arguments import MAX_TIMEOUT_SECONDS
from curb_client.room.trace import NOTHING
from curb_client.testing.written_files import Part, check_part, decode_yaml

__all__ = ["Key", "Message", "Rule", "Script", "Seconds", "SettingsPart", "check_reachable", "read_script"]

# The parts of a script


def _seconds(value: object) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_TIMEOUT_SECONDS:  # type: ignore[operator]
        raise ValueError(f"must be a number of seconds from 0 to {MAX_TIMEOUT_SECONDS:.0f}")
    return float(value)  # type: ignore[arg-type]


def _count(value: object) -> object:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError("must be a whole number, 1 or more")
    return value


def _step(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("must be a property's name or an index")
    return value


def _json_object(value: object) -> object:
    return decode_json(check_object(value))


def _reply(value: object) -> object:
    if callable(value):
        return _function(value, "payload, meta")
    encode_reply(value)
    return decode_json(encode_json(value))


def _condition(value: object) -> object:
    if not callable(value):
        return decode_json(encode_json(value))
    if inspect.iscoroutinefunction(value):
        raise ValueError("must be a plain function: a rule is chosen at once")
    return _function(value, "payload")


def _function(function: Callable[..., Any], parameters: str) -> Callable[..., Any]:
    if isinstance(function, type):
        raise ValueError(f"is a class; give a value of it, or a function ({parameters})")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return function
    try:
        signature.bind(*parameters.split(", "))
    except TypeError as error:
        raise ValueError(f"must be a function that takes ({parameters}): {error}") from None
    return function


def _as_list(value: object) -> object:
    """One may be written without the list."""
    return value if isinstance(value, (list, tuple)) else [value]


Key = Annotated[Any, AfterValidator(check_key)]
Seconds = Annotated[Any, AfterValidator(_seconds)]
PartT = TypeVar("PartT", bound=Part)
Parts = Annotated[list[PartT], BeforeValidator(_as_list)]


class Message(Part):
    """A message to the clients, ``after`` seconds."""

    key: Key = Field(alias="send")
    payload: Annotated[Any, AfterValidator(_json_object)] = Field(default_factory=dict)
    after: Seconds = 0.0


class _Issue(Part, Issue):
    path: list[Annotated[Any, AfterValidator(_step)]]


class Rule(Part):
    """What to do with a message: reply or refuse, and what to send then; ``after`` seconds, ``times`` at most."""

    short_forms: ClassVar[Sequence[str]] = ("send", "payload")

    when: Annotated[Any, AfterValidator(_condition)] = NOTHING
    reply: Annotated[Any, AfterValidator(_reply)] = None
    refuse: Literal["invalid_payload", "no_handler", "handler_failed"] | None = None
    issues: Parts[_Issue] = Field(default_factory=list)
    after: Seconds = 0.0
    times: Annotated[Any, AfterValidator(_count)] = None
    then: Parts[Message] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, value: object) -> object:
        """One message may stand in the rule itself: ``{send: show-form, payload: {}}``."""
        if not isinstance(value, Mapping) or not value.keys() & set(cls.short_forms):
            return value
        if "send" not in value:
            raise ValueError("has a payload, but no message to `send`")
        if "then" in value:
            raise ValueError("has both send and then; put all messages into then")
        rest = {name: part for name, part in value.items() if name not in cls.short_forms}
        return {**rest, "then": [{name: value[name] for name in cls.short_forms if name in value}]}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.refuse is not None and "reply" in self.model_fields_set:
            raise ValueError("has both reply and refuse; leave one of them out")
        if self.issues and self.refuse != "invalid_payload":
            raise ValueError("has issues, which only `refuse: invalid_payload` carries")
        return self

    def takes(self, payload: object) -> bool:
        """Whether it is for this payload. Raises whatever a function given as ``when`` raises."""
        if callable(self.when):
            return bool(self.when(payload))
        return self.when is NOTHING or _matches(self.when, payload)

    def hides(self, other: Rule) -> bool:
        """Whether the other one, tried later, would never be used."""
        if self.times is not None or callable(self.when):
            return False
        if self.when is NOTHING:
            return True
        return other.when is not NOTHING and not callable(other.when) and _matches(self.when, other.when)


def _matches(pattern: object, value: object) -> bool:
    """Whether an object has at least the pattern's properties, or anything else is equal, as JSON sees it."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            name in value and _matches(part, value[name]) for name, part in pattern.items()
        )
    if isinstance(pattern, list):
        return isinstance(value, list) and len(pattern) == len(value) and all(map(_matches, pattern, value))
    if isinstance(pattern, bool) or isinstance(value, bool):
        return pattern is value
    return pattern == value


def check_reachable(rules: Sequence[Rule]) -> Sequence[Rule]:
    """Raises:
    ValueError: one of them would never be used.
    """
    if not rules:
        raise ValueError("has no rule; `{}` takes everything and replies nothing")
    for later, rule in enumerate(rules):
        for earlier in range(later):
            if rules[earlier].hides(rule):
                raise ValueError(
                    f"[{later}] would never be used: [{earlier}] comes first and takes all that it takes; "
                    "put specific rules before general ones"
                )
    return rules


class _Tts(Part, TtsSettings):
    pass


class _Stt(Part, SttSettings):
    pass


class _Llm(Part, LlmSettings):
    pass


class SettingsPart(Part, EffectiveSettings):
    tts: _Tts
    stt: _Stt
    llm: _Llm


class Script(Part):
    """A whole script."""

    settings: SettingsPart | None = None
    adjustable: dict[Sender, list[AdjustablePath]] = Field(default_factory=dict)
    on_join: Parts[Message] = Field(default_factory=list)
    on: dict[Key, Annotated[Parts[Rule], AfterValidator(check_reachable)]] = Field(default_factory=dict)


# Reading one, and what is wrong with it


def read_script(path: str | os.PathLike[str]) -> Script:
    """The script in a YAML file.

    Raises:
        UsageError: it cannot be read, is not YAML, has a property twice, or is no script; with file and place.
    """
    name = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: {error}") from error
    return check_part(Script, decode_yaml(text, name), name)
