from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curb_client.errors import UsageError
from curb_client.protocol.contract import ADJUSTABLE_PATHS, AdjustablePath, RefusalCode, Sender
from curb_client.protocol.envelope import Refusal, encode_refusal
from curb_client.protocol.json_text import decode_json, encode_json
from curb_client.protocol.settings import (
    Overrides,
    ProviderRules,
    accept_update,
    check_adjustable,
    effective_settings,
)
from curb_client.protocol.types import EffectiveSettings, LlmUpdate, SessionUpdate, TtsSettings, TtsUpdate
from tests.protocol.vectors import cases, vectors

FILE = vectors("settings")
OWN = EffectiveSettings.model_validate(FILE["own"]["plain"])
EVERYTHING: Mapping[Sender, tuple[AdjustablePath, ...]] = {"client": ADJUSTABLE_PATHS, "host": ADJUSTABLE_PATHS}


def overrides_of(case: Any) -> Overrides:
    return {
        path: LlmUpdate.model_validate(value) if path == "llm" else value
        for path, value in case.get("overrides", {}).items()
    }


def rules_of(case: Any) -> ProviderRules:
    rules = case.get("rules", {})
    return ProviderRules(
        numeric_voices=rules.get("numericVoices", ("kugelaudio",)), without_language=rules.get("withoutLanguage", ())
    )


def accept(case: Any, own: EffectiveSettings, overrides: Overrides) -> Overrides:
    adjustable = FILE["everything"] if case["adjustable"] == "everything" else case["adjustable"]
    return accept_update(
        own, overrides, case["body"], sender=case["sender"], adjustable=adjustable, rules=rules_of(case)
    )


@pytest.mark.parametrize("case", cases("settings"))
def test_vector(case: Any) -> None:
    own = EffectiveSettings.model_validate(FILE["own"][case["own"]])
    overrides = overrides_of(case)
    given_case = copy.deepcopy((case, own, overrides))
    if "refused" in case:
        with pytest.raises(Refusal) as caught:
            accept(case, own, overrides)
        refusal = caught.value
        assert refusal.code.value == case["refused"]["code"]
        assert refusal.path == case["refused"].get("path")
        told = {tuple(issue.path) for issue in refusal.issues}
        assert told == set(map(tuple, case["refused"].get("issuePaths", [])))
        assert all(issue.message for issue in refusal.issues)
    else:
        after = accept(case, own, overrides)
        wire = {path: value.to_wire() if isinstance(value, LlmUpdate) else value for path, value in after.items()}
        assert wire == case["overridesAfter"]
        assert effective_settings(own, after).to_wire() == case["effective"]
    assert (case, own, overrides) == given_case, "nothing that was given may change"


def update(body: object, *, sender: Sender = "client", overrides: Overrides | None = None) -> Overrides:
    return accept_update(
        OWN,
        overrides or {},
        body,
        sender=sender,
        adjustable=EVERYTHING,
        rules=ProviderRules(without_language=("none",)),
    )


def test_overrides_survive_a_change_of_the_own_settings() -> None:
    overrides = update({"tts": {"voice": 17}})
    other = OWN.model_copy(update={"tts": TtsSettings(provider="kugelaudio", voice=3, model="new")})
    assert effective_settings(OWN, overrides).tts.voice == 17
    assert effective_settings(other, overrides).tts == TtsSettings(provider="kugelaudio", voice=17, model="new")


def test_an_empty_update_is_accepted_and_changes_nothing() -> None:
    overrides = update({"tts": {"voice": 17}})
    assert update({}, overrides=overrides) == overrides
    assert accept_update(OWN, {}, {}, sender="client", adjustable={}, rules=ProviderRules()) == {}


def test_without_overrides_the_own_settings_are_in_force() -> None:
    assert effective_settings(OWN, {}) == OWN


def test_an_update_may_be_a_model() -> None:
    assert update(SessionUpdate(tts=TtsUpdate(voice=17))) == {"tts.voice": 17}


def test_the_other_sender_replaces_an_override_of_the_same_path() -> None:
    overrides = update({"tts": {"voice": 1}, "stt": {"language": "en"}}, sender="host")
    assert update({"tts": {"voice": 2}}, overrides=overrides) == {"tts.voice": 2, "stt.language": "en"}


BODIES: dict[AdjustablePath, dict[str, dict[str, object]]] = {
    "tts.voice": {"tts": {"voice": 17}},
    "tts.model": {"tts": {"model": "kugel-2"}},
    "stt.language": {"stt": {"language": "en"}},
    "llm": {"llm": {"provider": "openai", "model": "m"}},
}
some_paths = st.sets(st.sampled_from(ADJUSTABLE_PATHS))


@settings(deadline=None)
@given(asked=st.permutations(ADJUSTABLE_PATHS), count=st.integers(0, 4), client=some_paths, host=some_paths)
def test_all_or_nothing_by_the_senders_own_list(
    asked: list[AdjustablePath], count: int, client: set[AdjustablePath], host: set[AdjustablePath]
) -> None:
    body: dict[str, dict[str, object]] = {}
    for path in asked[:count]:
        for group, inside in BODIES[path].items():
            body.setdefault(group, {}).update(inside)
    senders: list[Sender] = ["client", "host"]
    for sender in senders:
        listed = client if sender == "client" else host
        denied = [path for path in ADJUSTABLE_PATHS if path in asked[:count] and path not in listed]
        adjustable: Mapping[Sender, set[AdjustablePath]] = {"client": client, "host": host}
        if denied:
            with pytest.raises(Refusal) as caught:
                accept_update(OWN, {}, body, sender=sender, adjustable=adjustable, rules=ProviderRules())
            assert (caught.value.code, caught.value.path) == (RefusalCode.NOT_ADJUSTABLE, denied[0])
        else:
            after = accept_update(OWN, {}, body, sender=sender, adjustable=adjustable, rules=ProviderRules())
            assert set(after) == set(asked[:count])


@pytest.mark.parametrize(
    "text",
    [
        '{"tts":{"voice":1e999}}',
        '{"tts":{"voice":-1e999}}',
        '{"tts":{"voice":1' + "0" * 400 + "}}",
        '{"tts":{"voice":"\\ud800"}}',
        '{"tts":{"model":"\\ud800"}}',
        '{"stt":{"language":"\\ud800"}}',
        '{"llm":{"provider":"openai","model":"\\ud800"}}',
        '{"\\ud800":1}',
        '{"tts":{"\\ud800":1}}',
    ],
)
def test_what_could_not_be_answered_is_refused_and_the_refusal_can_be_sent(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        update(decode_json(text))
    code, data = encode_refusal(caught.value)
    assert code == "invalid_settings"
    assert data.encode("utf-8").startswith(b'{"issues":[')


@pytest.mark.parametrize("body", [{"tts": {"voice": 17}}, {"llm": {"provider": "anthropic", "model": "m"}}, {}])
def test_an_accepted_update_can_be_answered(body: object) -> None:
    answer = effective_settings(OWN, update(body))
    assert EffectiveSettings.model_validate(decode_json(encode_json(answer))) == answer
    assert "null" not in encode_json(answer)


def test_the_answer_that_the_protocol_text_shows() -> None:
    own = EffectiveSettings.model_validate(
        {
            "tts": {"provider": "kugelaudio", "voice": 1072},
            "stt": {"provider": "azure", "language": "de"},
            "llm": {"provider": "kugelaudio", "model": "qwen3.8-27b"},
        }
    )
    assert encode_json(effective_settings(own, {"tts.voice": 17})) == (
        '{"tts":{"provider":"kugelaudio","voice":17},"stt":{"provider":"azure","language":"de"},'
        '"llm":{"provider":"kugelaudio","model":"qwen3.8-27b"}}'
    )


@pytest.mark.parametrize(
    "adjustable",
    [{}, {"client": []}, {"client": ["tts.voice"], "host": ("llm", "stt.language")}, {"host": {"tts.model"}}],
)
def test_adjustable_may_be(adjustable: Any) -> None:
    check_adjustable(adjustable)


@pytest.mark.parametrize(
    ("adjustable", "told"),
    [
        ({"caller": ["tts.voice"]}, "'caller'"),
        ({"client": ["tts.speed"]}, "'tts.speed'"),
        ({"client": ["tts.voice"], "host": ["tts"]}, "'tts'"),
        ({"client": "tts.voice"}, "must be a list"),
    ],
)
def test_adjustable_may_not_be(adjustable: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_adjustable(adjustable)
