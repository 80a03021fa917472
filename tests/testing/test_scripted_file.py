"""A script's form: what a file may say, and what is said of one that is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from curb_client.errors import UsageError
from curb_client.testing.script_file import Rule, Script, read_script
from curb_client.testing.written_files import check_part

EXAMPLE = Path(__file__).parents[2] / "examples" / "scripted-agent.yaml"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("agent.yaml")


def error_of(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as wrong:
        read_script(path)
    return str(wrong.value)


def test_the_example_is_read() -> None:
    script = read_script(EXAMPLE)
    assert script.settings is not None
    assert script.settings.tts.voice == 1072
    assert script.adjustable == {"client": ["tts.voice"]}
    assert [(message.key, message.payload, message.after) for message in script.on_join] == [
        ("hello", {"text": "hi"}, 0.1)
    ]
    assert list(script.on) == ["quote", "open-form", "claim", "flaky", "slow", "note"]
    gold, other = script.on["quote"]
    assert (gold.when, gold.reply, other.reply) == ({"plan": "gold"}, {"price": 20}, {"price": 12})
    (form,) = script.on["open-form"]
    assert [(message.key, message.payload) for message in form.then] == [("show-form", {"fields": ["name", "policy"]})]


def test_an_empty_script_is_one(script: Path) -> None:
    script.write_text("{}", encoding="utf-8")
    assert read_script(script) == Script()


def test_a_script_may_be_json(script: Path) -> None:
    script.write_text('{"on":{"quote":{"reply":{"price":1.5e1,"text":"zu\\u00a0früh"}}}}', encoding="utf-8")
    assert read_script(script).on["quote"][0].reply == {"price": 15, "text": "zu\u00a0früh"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-0", 0),
        ("01067", "01067"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1.5", 1.5),
        ("1e3", 1000),
        (".5", ".5"),
        (".nan", ".nan"),
        ("0x1f", "0x1f"),
        ("2024-05-01", "2024-05-01"),
        ("'12'", "12"),
        ("=", "="),
    ],
)
def test_plain_values_are_those_of_json(script: Path, text: str, value: object) -> None:
    script.write_text(f"on: {{quote: {{reply: [{text or 'null'}], when: {{a: {text}}}}}}}", encoding="utf-8")
    (rule,) = read_script(script).on["quote"]
    assert repr(rule.reply) == repr([value])
    assert repr(rule.when) == repr({"a": value})


def test_anchors_and_merges_work(script: Path) -> None:
    script.write_text(
        "on:\n  quote: {when: &gold {plan: gold}, reply: &base {price: 20, currency: EUR}}\n"
        "  offer: {when: *gold, reply: {<<: *base, price: 12}}\n",
        encoding="utf-8",
    )
    (offer,) = read_script(script).on["offer"]
    assert (offer.when, offer.reply) == ({"plan": "gold"}, {"price": 12, "currency": "EUR"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("on:\n  a: {}\n  a: {}\n", "agent.yaml: line 3, column 3: 'a' is there twice"),
        ("on:\n  a: {reply: {x: 1, 'x': 2}}", "agent.yaml: line 2, column 21: 'x' is there twice"),
        ("on: [", "agent.yaml: line 1, column 6: expected the node content, but found '<stream end>'"),
        ("on: {}\n---\n{}", "agent.yaml: line 2, column 1: but found another document"),
        ("? [a]\n: 1", "agent.yaml: line 1, column 3: found unhashable key"),
        ("a\x01", "agent.yaml: unacceptable character #x0001"),
        ("[" * 3000, "agent.yaml is nested too deeply"),
        ("on: " + "9" * 5000, "agent.yaml: Exceeds the limit (4300"),
        (
            "on: {a: {reply: !!python/object/apply:os.getcwd []}}",
            (
                "agent.yaml: line 1, column 17: could not determine a constructor for the tag "
                "'tag:yaml.org,2002:python/object/apply:os.getcwd'"
            ),
        ),
    ],
)
def test_what_is_no_yaml(script: Path, text: str, message: str) -> None:
    assert error_of(script, text).startswith(message)


RULE = "when, reply, refuse, issues, after, times, then, send, payload"
OBJECT = "what an agent sends must be a JSON object: wrap it in a dict"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have properties, of these: settings, adjustable, on_join, on; it is null"),
        ("of: {}", "of: no such property; there are settings, adjustable, on_join, on"),
        ("on: 3", "on: Input should be a valid dictionary; it is 3"),
        ("on: {1: {}}", "on[1]: must be text, not int; it is 1"),
        ("on: {'': {}}", 'on[""]: has 0 UTF-16 units; it must have 1 to 256; it is ""'),
        ("on: {quote: }", f"on.quote: must have properties, of these: {RULE}; it is null"),
        ("on: {quote: [{}, 1]}", f"on.quote[1]: must have properties, of these: {RULE}; it is 1"),
        ("on: {quote: []}", "on.quote: has no rule; `{}` takes everything and replies nothing; it is []"),
        ("on: {a.b: {repyl: 1}}", f'on["a.b"].repyl: no such property; there are {RULE}'),
        ("on: {q: {after: -1}}", "on.q.after: must be a number of seconds from 0 to 86400; it is -1"),
        (
            "on: {q: [{times: 1}, {after: 86401}]}",
            "on.q[1].after: must be a number of seconds from 0 to 86400; it is 86401",
        ),
        ("on: {q: {after: '2'}}", 'on.q.after: must be a number of seconds from 0 to 86400; it is "2"'),
        ("on: {q: {after: true}}", "on.q.after: must be a number of seconds from 0 to 86400; it is true"),
        ("on: {q: {times: 0}}", "on.q.times: must be a whole number, 1 or more; it is 0"),
        ("on: {q: {times: 1.5}}", "on.q.times: must be a whole number, 1 or more; it is 1.5"),
        (
            "on: {q: {refuse: no}}",
            "on.q.refuse: Input should be 'invalid_payload', 'no_handler' or 'handler_failed'; it is \"no\"",
        ),
        (
            "on: {q: {refuse: no_handler, reply: 1}}",
            'on.q: has both reply and refuse; leave one of them out; it is {"refuse":"no_handler","reply":1}',
        ),
        (
            "on: {q: {refuse: no_handler, issues: {path: [], message: m}}}",
            (
                "on.q: has issues, which only `refuse: invalid_payload` carries; it is "
                '{"refuse":"no_handler","issues":{"path":[],"message":"m"}}'
            ),
        ),
        (
            "on: {q: {refuse: invalid_payload, issues: [{path: [true], message: m}]}}",
            "on.q.issues[0].path[0]: must be a property's name or an index; it is true",
        ),
        ("on: {q: {refuse: invalid_payload, issues: [{path: []}]}}", "on.q.issues[0].message: Field required"),
        ("on: {q: {payload: {}}}", 'on.q: has a payload, but no message to `send`; it is {"payload":{}}'),
        (
            "on: {q: {send: m, then: []}}",
            'on.q: has both send and then; put all messages into then; it is {"send":"m","then":[]}',
        ),
        ("on: {q: {send: m, payload: [1]}}", f"on.q.payload: is of type list; {OBJECT}; it is [1]"),
        ("on: {q: {send: m, payload: }}", f"on.q.payload: is of type NoneType; {OBJECT}; it is null"),
        ("on: {q: {then: {payload: {}}}}", "on.q.then.send: Field required"),
        ("on_join: [{send: m, then: 1}]", "on_join[0].then: no such property; there are send, payload, after"),
        (
            "on: {q: {reply: 9007199254740992}}",
            (
                "on.q.reply: is a whole number of 54 bits, beyond 2^53-1, which a JavaScript peer would read as "
                "another number; send it as text; it is 9007199254740992"
            ),
        ),
        (
            "on: {q: {reply: {a: {1: 2}}}}",
            "on.q.reply: a has the key 1 of type int; JSON keys are text; it is {'a': {1: 2}}",
        ),
        (
            "on: {q: {reply: &a [*a]}}",
            "on.q.reply: [0][0][0]… is nested deeper than 200 levels (or contains itself); flatten it; it is [[...]]",
        ),
        (
            "on: {q: [{when: {a: 1}}, {when: {b: 1, a: 1}}]}",
            (
                "on.q: [1] would never be used: [0] comes first and takes all that it takes; put specific rules before "
                'general ones; it is [{"when":{"a":1}},{"when":{"b":1,"a":1}}]'
            ),
        ),
        (
            "adjustable: {client: [tts.speed]}",
            (
                "adjustable.client[0]: Input should be 'tts.voice', 'tts.model', 'stt.language' or 'llm'; "
                'it is "tts.speed"'
            ),
        ),
        ("adjustable: {bot: []}", "adjustable.bot: Input should be 'client' or 'host'; it is \"bot\""),
    ],
)
def test_what_is_no_script(script: Path, text: str, message: str) -> None:
    assert error_of(script, text) == f"agent.yaml: {message}"


def test_all_mistakes_are_told_but_no_more_than_ten(script: Path) -> None:
    text = "settings: {tts: {provider: kugelaudio, voice: []}, stt: {provider: azure, key: secret}}"
    assert error_of(script, text).splitlines() == [
        "agent.yaml has 3 mistakes:",
        (
            "  settings.tts.voice: Input should be a valid string, or Input should be a valid integer, or "
            "Input should be a valid number; it is []"
        ),
        "  settings.stt.key: no such property; there are provider, language",
        "  settings.llm: Field required",
    ]
    many = error_of(script, "on: {q: [" + ", ".join(["{after: -1}"] * 12) + "]}").splitlines()
    assert many[0] == "agent.yaml has 12 mistakes:"
    assert many[-1] == "  … 2 more"
    assert len(many) == 12


def test_long_values_are_shortened(script: Path) -> None:
    told = error_of(script, f"on: {{q: {{after: {'x' * 5000}}}}}")
    assert len(told) < 250
    assert told.endswith("… (5,002 characters)")


def test_what_is_no_readable_file(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"^agent\.yaml cannot be read: No such file or directory$"):
        read_script(script)
    script.write_bytes(b"on: \xff")
    with pytest.raises(UsageError, match=r"^agent\.yaml is not UTF-8 text: .* position 4"):
        read_script(str(script))
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert error_of(script, "{}").endswith(
        "a script in YAML needs the package PyYAML: pip install 'curb-client[testing]'"
    )


# What a rule takes


def rule(**form: Any) -> Rule:
    return check_part(Rule, form, "rule")


@pytest.mark.parametrize(
    ("when", "taken", "not_taken"),
    [
        ({"plan": "gold"}, [{"plan": "gold"}, {"plan": "gold", "seats": 2}], [{"plan": "basic"}, {}, "gold", None]),
        ({"a": {"b": 1}}, [{"a": {"b": 1, "c": 2}}], [{"a": {"c": 2}}, {"a": None}, {"b": 1}]),
        ({}, [{}, {"a": 1}], [[], None, 0]),
        ([1, {"a": 1}], [[1, {"a": 1}], [1.0, {"a": 1, "b": 2}]], [[1], [1, {"a": 1}, 2], [{"a": 1}, 1], {}]),
        ([], [[]], [[1], {}]),
        (None, [None], [False, 0, {}, ""]),
        (1, [1, 1.0], [True, "1", [1]]),
        (True, [True], [1, "true", False]),
        ({"a": None}, [{"a": None}], [{}, {"a": 0}]),
        ("gold", ["gold"], ["Gold", {"gold": 1}]),
        (lambda payload: payload > 3, [4], [3]),
    ],
)
def test_which_payloads_a_rule_takes(when: object, taken: list[object], not_taken: list[object]) -> None:
    conditional = rule(when=when)
    assert [payload for payload in taken if not conditional.takes(payload)] == []
    assert [payload for payload in not_taken if conditional.takes(payload)] == []
    assert all(rule().takes(payload) for payload in taken + not_taken)


@pytest.mark.parametrize(
    ("first", "second", "hides"),
    [
        ({}, {"when": 1}, True),
        ({}, {}, True),
        ({"times": 1}, {}, False),
        ({"when": {"a": 1}}, {"when": {"a": 1}}, True),
        ({"when": {"a": {}}}, {"when": {"a": {"b": 2}, "c": 3}}, True),
        ({"when": {"a": 1, "b": 2}}, {"when": {"a": 1}}, False),
        ({"when": {"a": 1}}, {}, False),
        ({"when": {"a": 1}}, {"when": len}, False),
        ({"when": len}, {"when": len}, False),
        ({}, {"when": len}, True),
    ],
)
def test_which_rules_would_never_be_used(first: dict[str, Any], second: dict[str, Any], hides: bool) -> None:
    assert rule(**first).hides(rule(**second)) is hides
