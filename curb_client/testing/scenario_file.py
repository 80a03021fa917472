"""The form of a scenario: a YAML file that says what a caller's app does, and what the agent must do then.

::

    name: A quote                   # the file's name unless given
    agent:                          # of command, python and script, one
      command: node agent.mjs       # or a list; run without a shell, and told its room by LIVEKIT_URL and LIVEKIT_TOKEN
      cwd: ../node-agent            # from the file's folder, which it is unless given
      env: {PRICE: "12"}
      worker: quotes                # it is a worker of livekit-agents with this agent name
      within: 30                    # seconds until the agent must answer
      # python: agent:add_handlers  # a function, plain or async, that is given the AgentCall; may have env too
      # settings: {tts: …, stt: …, llm: …}   # with python, as in a script
      # adjustable: {client: [tts.voice]}
      # script: {on: {…}}           # see curb_client.testing.script_file
    within: 5                       # seconds for each step that does not say otherwise
    strict: true                    # a message of the agent that no step expects is a failure
    steps:
      - {send: note, payload: {text: hello}}
      - {ask: quote, payload: {plan: basic}, reply: {price: 12}}       # the whole reply; any unless given
      - {ask: quote, payload: {plan: gold}, reply_has: {price: 20}}    # at least that
      - {ask: quote, payload: {plan: 3}, refused: invalid_payload, issues: [plan]}
      - {expect: show-form, payload: {fields: [name]}, within: 2}      # or payload_has
      - {expect_nothing: 0.5}                                          # seconds; or {key: show-form, within: 0.5}
      - {update: {tts: {voice: 17}}, settings: {tts: {voice: 17}}}     # at least these are in force then
      - {update: {stt: {language: de}}, refused: not_adjustable, path: stt.language}
      - {say: hello there}                                             # LiveKit's chat
      - {wait: 0.5}

Plain values are read as in a script.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictStr,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from typing_extensions import Self

from curb_client.protocol.contract import AdjustablePath, RefusalCode, Sender
from curb_client.protocol.json_text import decode_json, encode_json
from curb_client.room.trace import NOTHING
from curb_client.testing.recorder import shortened
from curb_client.testing.script_file import Key, Script, Seconds, SettingsPart
from curb_client.testing.written_files import Part

__all__ = [
    "Ask",
    "Expect",
    "ExpectNothing",
    "Request",
    "Say",
    "ScenarioAgent",
    "ScenarioForm",
    "Send",
    "Step",
    "TimedStep",
    "Update",
    "Wait",
]

STEP_SECONDS: Final = 5.0
AGENT_SECONDS: Final = 30.0
NOTHING_SECONDS: Final = 0.5
_AGENT_KINDS: Final = ("command", "python", "script")
_ONLY_WITH: Final[Mapping[str, Sequence[str]]] = {
    "cwd": ("command",),
    "worker": ("command",),
    "env": ("command", "python"),
    "settings": ("python",),
    "adjustable": ("python",),
}
_SET_FOR_IT: Final = ("LIVEKIT_URL", "LIVEKIT_TOKEN", "LIVEKIT_ROOM", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET")


# Values


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("must be text; a number or true in quotes is text")
    if not value or "\0" in value:
        raise ValueError("must be text of one character or more, none of them NUL")
    return value


def _command(value: object) -> object:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise ValueError(f"cannot be split into words: {str(error).lower()}") from None
    if not isinstance(value, list) or not value:
        raise ValueError("must be a program and its arguments, as text or as a list of texts")
    for index, word in enumerate(value):
        if not isinstance(word, str) or "\0" in word or not (word or index):
            raise ValueError(f"[{index}] must be text; a number or true in quotes is text")
    return value


def _environment(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError('must have a text for each variable, such as {PRICE: "12"}')
    for name, text in value.items():
        if not isinstance(name, str) or not re.fullmatch(r"[^=\0]+", name):
            raise ValueError(f"has {name!r:.80}, which cannot be a variable's name")
        if name in _SET_FOR_IT:
            raise ValueError(f"has {name}, which is set for the agent; leave it out")
        if not isinstance(text, str) or "\0" in text:
            raise ValueError(f"must be text for {name}; a number or true in quotes is text")
    return value


def _function_path(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", value):
        raise ValueError("must be a module and a function in it, such as my_package.agent:add_handlers")
    return value


def _json(value: object) -> object:
    return decode_json(encode_json(value))


def _json_object(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("must have properties, such as {tts: {voice: 17}}")
    return _json(value)


def _code(value: object) -> object:
    codes = [code.value for code in RefusalCode]
    if value not in codes:
        raise ValueError(f"must be one of {', '.join(codes)}")
    return value


def _issue_path(value: object) -> object:
    """As text, which is how a refusal's issues are told."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(step, (str, int)) and not isinstance(step, bool) for step in value):
        return ".".join(map(str, value))
    raise ValueError("must be the path of an issue, such as plan, items.0.name or [items, 0, name]")


def _silence(value: object) -> object:
    return value if isinstance(value, Mapping) else {"within": value}


def _not_empty(value: list[Any]) -> list[Any]:
    if not value:
        raise ValueError("must have a step or more")
    return value


def _as_written(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    check(value)
    return value


Text = Annotated[Any, AfterValidator(_text)]
Json = Annotated[Any, AfterValidator(_json)]
JsonObject = Annotated[Any, AfterValidator(_json_object)]


# The agent


class ScenarioAgent(Part):
    """Who the agent is: a ``command``, a ``python`` function or a ``script``.

    Attributes:
        within: seconds until it must answer.
    """

    command: Annotated[Any, AfterValidator(_command)] = None
    cwd: Text = "."
    env: Annotated[Any, AfterValidator(_environment)] = Field(default_factory=dict)
    worker: StrictStr | None = None
    python: Annotated[Any, AfterValidator(_function_path)] = None
    settings: SettingsPart | None = None
    adjustable: dict[Sender, list[AdjustablePath]] = Field(default_factory=dict)
    script: Annotated[Script | None, WrapValidator(_as_written)] = None
    within: Seconds = AGENT_SECONDS

    @property
    def script_form(self) -> Mapping[str, Any] | None:
        """The script as it is in the file, checked; None where the agent has none."""
        form: Any = self.script
        return form if isinstance(form, Mapping) else None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [kind for kind in _AGENT_KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"must have exactly one of {', '.join(_AGENT_KINDS)}")
        for name, kinds in _ONLY_WITH.items():
            if name in self.model_fields_set and given[0] not in kinds:
                raise ValueError(f"has {name}, which goes with {' or '.join(kinds)} alone; leave it out")
        return self


# The steps


class Step(Part):
    """One step."""

    kind: ClassVar[str]

    @property
    def text(self) -> str:
        """What it does, on a line."""
        return f"{self.kind} {self.particulars()}"

    def particulars(self) -> str:
        """Its key and payload, or what it has instead."""
        raise NotImplementedError


class TimedStep(Step):
    """A step that waits for the agent.

    Attributes:
        within: seconds, None for the scenario's.
    """

    within: Seconds = None


class Request(TimedStep):
    """What the agent answers.

    Attributes:
        refused: the code with which it must refuse, None where it must not.
        issues: the paths of the refusal's issues, in any order; None for any.
    """

    refused: Annotated[Any, AfterValidator(_code)] = None
    issues: list[Annotated[Any, AfterValidator(_issue_path)]] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = self.model_fields_set
        for answer in ("reply", "reply_has", "settings"):
            if answer in given and self.refused is not None:
                raise ValueError(f"has both {answer} and refused; leave one of them out")
        if {"reply", "reply_has"} <= given:
            raise ValueError("has both reply and reply_has; leave one of them out")
        if self.issues is not None and self.refused not in ("invalid_payload", "invalid_settings"):
            raise ValueError("has issues, which only `refused: invalid_payload` and `invalid_settings` have")
        if "path" in given and self.refused != "not_adjustable":
            raise ValueError("has a path, which only `refused: not_adjustable` has")
        return self


class Send(Request):
    """A message to the agent, which must take it, or refuse it as told."""

    kind = "send"
    key: Key = Field(alias="send")
    payload: Json = NOTHING

    def particulars(self) -> str:
        return f"{self.key}{_shown(self.payload)}"


class Ask(Request):
    """A message to the agent, and the reply to it: this one, or at least that."""

    kind = "ask"
    key: Key = Field(alias="ask")
    payload: Json = NOTHING
    reply: Json = NOTHING
    reply_has: Json = NOTHING

    def particulars(self) -> str:
        return f"{self.key}{_shown(self.payload)}"


class Update(Request):
    """A change of settings: at least ``settings`` are in force then, or ``path`` may not be changed."""

    kind = "update"
    change: JsonObject = Field(alias="update")
    settings: JsonObject = NOTHING
    path: Text = None

    def particulars(self) -> str:
        return shortened(self.change)


class Expect(TimedStep):
    """A message of the agent, come already or to come, with this payload or at least that."""

    kind = "expect"
    key: Key = Field(alias="expect")
    payload: Json = NOTHING
    payload_has: Json = NOTHING

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if {"payload", "payload_has"} <= self.model_fields_set:
            raise ValueError("has both payload and payload_has; leave one of them out")
        return self

    def particulars(self) -> str:
        at_least = "" if self.payload_has is NOTHING else f" with at least {shortened(self.payload_has)}"
        return f"{self.key}{_shown(self.payload)}{at_least}"


class Silence(Part):
    """How long there must be no message, or none with this key, in seconds."""

    key: Key = None
    within: Seconds = NOTHING_SECONDS


class ExpectNothing(Step):
    """No message that no step expected before."""

    kind = "expect_nothing"
    silence: Annotated[Silence, BeforeValidator(_silence)] = Field(alias="expect_nothing")

    def particulars(self) -> str:
        of_key = "" if self.silence.key is None else f"with the key {self.silence.key} "
        return f"{of_key}for {self.silence.within:g} s"


class Say(TimedStep):
    """Words typed to the agent: LiveKit's chat."""

    kind = "say"
    words: Text = Field(alias="say")

    def particulars(self) -> str:
        return shortened(self.words)


class Wait(Step):
    """So many seconds."""

    kind = "wait"
    seconds: Seconds = Field(alias="wait")

    def particulars(self) -> str:
        return f"{self.seconds:g} s"


def _shown(payload: object) -> str:
    return "" if payload is NOTHING else f" {shortened(payload)}"


_KINDS: Final = ("send", "ask", "expect", "expect_nothing", "update", "say", "wait")
_TAGS: Final = {kind: f"a step of the kind {kind}" for kind in _KINDS}


def _tag(step: object) -> str | None:
    kinds = [kind for kind in _KINDS if kind in step] if isinstance(step, Mapping) else []
    return _TAGS[kinds[0]] if len(kinds) == 1 else None


AnyStep = Annotated[
    Annotated[Send, Tag(_TAGS["send"])]
    | Annotated[Ask, Tag(_TAGS["ask"])]
    | Annotated[Expect, Tag(_TAGS["expect"])]
    | Annotated[ExpectNothing, Tag(_TAGS["expect_nothing"])]
    | Annotated[Update, Tag(_TAGS["update"])]
    | Annotated[Say, Tag(_TAGS["say"])]
    | Annotated[Wait, Tag(_TAGS["wait"])],
    Discriminator(
        _tag,
        custom_error_type="no_step",
        custom_error_message=f"must have exactly one of {', '.join(_KINDS)}",
    ),
]


class ScenarioForm(Part):
    """A whole file."""

    name: Text = None
    agent: ScenarioAgent
    within: Seconds = STEP_SECONDS
    strict: StrictBool = True
    steps: Annotated[list[AnyStep], AfterValidator(_not_empty)]
