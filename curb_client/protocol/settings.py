"""Live session settings: who may change what, and what is then in force (host protocol, Live session settings).

An update is checked in three steps, and refused as a whole at the first that fails: its shape, the permissions of its
sender, its values. What was accepted lies over the agent's own settings as overrides, path by path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import ValidationError

from curb_client.errors import InvalidPayloadError, UsageError
from curb_client.protocol.contract import ADJUSTABLE_PATHS, SENDERS, AdjustablePath, RefusalCode, Sender
from curb_client.protocol.envelope import Refusal
from curb_client.protocol.json_text import encode_json
from curb_client.protocol.types import EffectiveSettings, Issue, LlmSettings, LlmUpdate, SessionUpdate, issues_of

__all__ = ["Adjustable", "Overrides", "ProviderRules", "accept_update", "check_adjustable", "effective_settings"]

Adjustable = Mapping[Sender, Collection[AdjustablePath]]
"""The paths that each sender may change; a sender or a path not listed may not."""

Overrides = Mapping[AdjustablePath, object]
"""Accepted values by path; that of ``llm`` is a whole :class:`LlmUpdate`."""

_KNOWN_PROPERTIES: Mapping[str, Collection[str]] = {
    "": ("tts", "stt", "llm"),
    "tts": ("voice", "model"),
    "stt": ("language",),
    "llm": ("provider", "model", "baseURL"),
}


@dataclass(frozen=True)
class ProviderRules:
    """What some providers do not take.

    Attributes:
        numeric_voices: TTS providers whose voices are numbers.
        without_language: STT providers that take no language.
    """

    numeric_voices: Collection[str] = field(default=("kugelaudio",))
    without_language: Collection[str] = field(default=())


def check_adjustable(adjustable: Adjustable) -> None:
    """Raises:
    UsageError: a sender or a path that does not exist.
    """
    for sender, paths in adjustable.items():
        if sender not in SENDERS:
            raise UsageError(f"adjustable has the sender {sender!r}; the senders are {', '.join(SENDERS)}")
        if isinstance(paths, str):
            raise UsageError(f"adjustable[{sender!r}] is text; it must be a list of paths: [{paths!r}]")
        for path in paths:
            if path not in ADJUSTABLE_PATHS:
                raise UsageError(
                    f"adjustable[{sender!r}] has the path {path!r}; the paths are {', '.join(ADJUSTABLE_PATHS)}"
                )


def effective_settings(own: EffectiveSettings, overrides: Overrides) -> EffectiveSettings:
    """The settings in force: the agent's own with the accepted changes over them."""
    tts, stt, llm = own.tts, own.stt, own.llm
    if "tts.voice" in overrides:
        tts = tts.model_copy(update={"voice": overrides["tts.voice"]})
    if "tts.model" in overrides:
        tts = tts.model_copy(update={"model": overrides["tts.model"]})
    if "stt.language" in overrides:
        stt = stt.model_copy(update={"language": overrides["stt.language"]})
    changed = overrides.get("llm")
    if isinstance(changed, LlmUpdate):
        base_url = changed.base_url or (own.llm.base_url if changed.provider == "openai-compatible" else None)
        llm = LlmSettings(provider=changed.provider, model=changed.model, base_url=base_url)
    return EffectiveSettings(tts=tts, stt=stt, llm=llm)


def accept_update(
    own: EffectiveSettings,
    overrides: Overrides,
    body: object,
    *,
    sender: Sender,
    adjustable: Adjustable,
    rules: ProviderRules,
) -> dict[AdjustablePath, object]:
    """The overrides after the update.

    Args:
        own: the agent's own settings, without overrides.
        overrides: those accepted before; not changed.
        body: the decoded update.

    Raises:
        Refusal: ``invalid_settings`` with issues, or ``not_adjustable`` with the first path that is not listed.
    """
    update = _shape(body)
    changes = _changes(update)
    for path in changes:
        if path not in adjustable.get(sender, ()):
            raise Refusal(RefusalCode.NOT_ADJUSTABLE, path=path)
    issues = _value_issues(own, changes, sender, rules)
    if issues:
        raise Refusal(RefusalCode.INVALID_SETTINGS, issues=issues)
    return {**overrides, **changes}


def _shape(body: object) -> SessionUpdate:
    try:
        update = SessionUpdate.model_validate(body)
    except ValidationError as error:
        raise Refusal(RefusalCode.INVALID_SETTINGS, issues=issues_of(error, body)) from None
    assert isinstance(body, (dict, SessionUpdate))
    if isinstance(body, dict):
        wrong = [issue for issue in _property_issues(body) if issue is not None]
        if wrong:
            raise Refusal(RefusalCode.INVALID_SETTINGS, issues=wrong)
    return update


def _property_issues(body: dict[str, object]) -> Iterator[Issue | None]:
    """What the model lets pass: decoding is lenient elsewhere, but a setting that does nothing would mislead."""
    for group, inside in body.items():
        yield _property_issue((group,), inside, _KNOWN_PROPERTIES[""])
        if isinstance(inside, dict) and group in _KNOWN_PROPERTIES:
            for name, value in inside.items():
                yield _property_issue((group, name), value, _KNOWN_PROPERTIES[group])


def _property_issue(path: tuple[str, ...], value: object, known: Collection[str]) -> Issue | None:
    if path[-1] not in known:
        return Issue(path=list(path), message=f"unknown setting; known are {', '.join(known)}")
    if value is None:
        return Issue(path=list(path), message="must not be null; leave it out to keep it as it is")
    return None


def _changes(update: SessionUpdate) -> dict[AdjustablePath, object]:
    values: dict[AdjustablePath, object] = {
        "tts.voice": update.tts and update.tts.voice,
        "tts.model": update.tts and update.tts.model,
        "stt.language": update.stt and update.stt.language,
        "llm": update.llm,
    }
    return {path: value for path, value in values.items() if value is not None}


def _value_issues(own: EffectiveSettings, changes: Overrides, sender: Sender, rules: ProviderRules) -> list[Issue]:
    issues = [
        Issue(path=list(path.split(".")), message="must not be empty") for path, value in changes.items() if value == ""
    ]
    issues += [issue for path, value in changes.items() for issue in _writing_issues(path, value)]
    voice = changes.get("tts.voice")
    if voice is not None and own.tts.provider in rules.numeric_voices and not _is_numeric(voice):
        issues.append(Issue(path=["tts", "voice"], message=f"{own.tts.provider} voices are numbers"))
    if "stt.language" in changes and own.stt.provider in rules.without_language:
        issues.append(Issue(path=["stt", "language"], message=f"{own.stt.provider} takes no language"))
    llm = changes.get("llm")
    if isinstance(llm, LlmUpdate):
        if not llm.model:
            issues.append(Issue(path=["llm", "model"], message="must not be empty"))
        wrong = _endpoint_issue(own.llm, llm, sender)
        if wrong:
            issues.append(Issue(path=["llm", "baseURL"], message=wrong))
    return issues


def _writing_issues(path: str, value: object) -> list[Issue]:
    """The answer carries the value back, so it must be one that can be written."""
    try:
        encode_json(value)
    except InvalidPayloadError as error:
        return [Issue(path=[*path.split("."), *error.path], message="cannot be written as JSON")]
    return []


def _is_numeric(voice: object) -> bool:
    return isinstance(voice, (int, float)) or (isinstance(voice, str) and voice.isascii() and voice.isdigit())


def _endpoint_issue(own: LlmSettings, llm: LlmUpdate, sender: Sender) -> str | None:
    """The endpoint receives the agent's key, so a client may not choose it."""
    if llm.base_url is None:
        missing = llm.provider == "openai-compatible" and own.base_url is None
        return "the agent has no endpoint of its own for openai-compatible; name one" if missing else None
    if sender == "client":
        is_own = llm.provider == "openai-compatible" and llm.base_url == own.base_url
        return None if is_own else "a client may only name the agent's own endpoint; leave it out"
    try:
        url = urlsplit(llm.base_url)
        host, _ = url.hostname, url.port  # the port is read only now
    except ValueError:
        return "not a URL"
    if any(character <= " " for character in llm.base_url):
        return "must not have spaces or control characters"
    if url.scheme not in ("http", "https") or not host:
        return "must be an http or https URL with a host"
    if url.username is not None or url.password is not None:
        return "must not carry user information"
    return None
