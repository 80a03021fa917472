"""A scenario's form: what a file may say, and what is said of one that is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from curb_client.errors import UsageError
from curb_client.room.trace import NOTHING
from curb_client.testing.scenario import Scenario, load_scenario
from curb_client.testing.scenario_file import Ask, Expect, ExpectNothing, Say, Send, Update, Wait

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/scenarios/*.yaml"))
NAMES = "send, ask, expect, expect_nothing, update, say, wait"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str) -> Scenario:
    Path("quote.yaml").write_text(text, encoding="utf-8")
    return load_scenario("quote.yaml")


def error_of(text: str) -> str:
    with pytest.raises(UsageError) as wrong:
        load(text)
    return str(wrong.value)


def error_of_step(step: str) -> str:
    return error_of(f"agent: {{script: {{}}}}\nsteps:\n  - wait: 0\n  - {step}\n")


# What a file may say


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_read(path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.file == path
    assert scenario.name not in ("", path.stem)
    assert scenario.steps


def test_everything_a_file_may_say() -> None:
    scenario = load(
        """
        name: A quote
        agent: {command: "node 'my agent.mjs'", cwd: agents, env: {PRICE: "12"}, worker: quotes, within: 9}
        within: 2.5
        strict: false
        steps:
          - send: note
            payload: [1, null]
          - {ask: quote, reply: null, within: 1}
          - {ask: quote, payload: {plan: 3}, refused: invalid_payload, issues: [plan, [items, 0, name], []]}
          - {expect: show-form, payload_has: {fields: []}}
          - {expect_nothing: 0.25}
          - expect_nothing: {key: show-form}
          - {update: {tts: {voice: 17}}, settings: {tts: {voice: 17}}}
          - {update: {stt: {language: no}}, refused: not_adjustable, path: stt.language}
          - {say: "hello, you"}
          - {wait: 1}
        """
    )
    agent = scenario.agent
    assert (agent.command, agent.cwd, agent.env) == (["node", "my agent.mjs"], "agents", {"PRICE": "12"})
    assert (agent.worker, agent.within) == ("quotes", 9)
    assert (scenario.name, scenario.within, scenario.strict) == ("A quote", 2.5, False)
    assert scenario.lines == (7, 9, 10, 11, 12, 13, 14, 15, 16, 17)
    note, price, refused, form, quiet, no_form, voice, language, hello, pause = scenario.steps
    assert isinstance(note, Send)
    assert (note.key, note.payload, note.within) == ("note", [1, None], None)
    assert isinstance(price, Ask)
    assert (price.payload, price.reply, price.within) == (NOTHING, None, 1)
    assert isinstance(refused, Ask)
    assert (refused.refused, refused.issues) == ("invalid_payload", ["plan", "items.0.name", ""])
    assert isinstance(form, Expect)
    assert (form.payload, form.payload_has) == (NOTHING, {"fields": []})
    assert isinstance(quiet, ExpectNothing)
    assert (quiet.silence.key, quiet.silence.within) == (None, 0.25)
    assert isinstance(no_form, ExpectNothing)
    assert (no_form.silence.key, no_form.silence.within) == ("show-form", 0.5)
    assert isinstance(voice, Update)
    assert (voice.change, voice.settings, voice.path) == ({"tts": {"voice": 17}}, {"tts": {"voice": 17}}, None)
    assert isinstance(language, Update)
    assert (language.change, language.path) == ({"stt": {"language": "no"}}, "stt.language")
    assert isinstance(hello, Say)
    assert isinstance(pause, Wait)
    assert [step.text for step in scenario.steps] == [
        "send note [1,null]",
        "ask quote",
        'ask quote {"plan":3}',
        'expect show-form with at least {"fields":[]}',
        "expect_nothing for 0.25 s",
        "expect_nothing with the key show-form for 0.5 s",
        'update {"tts":{"voice":17}}',
        'update {"stt":{"language":"no"}}',
        'say "hello, you"',
        "wait 1 s",
    ]


def test_what_a_file_need_not_say() -> None:
    scenario = load("{agent: {python: my_package.agent:add_handlers}, steps: [{expect: hello}]}")
    assert (scenario.name, scenario.within, scenario.strict, scenario.lines) == ("quote", 5, True, (1,))
    assert (scenario.agent.settings, scenario.agent.adjustable, scenario.agent.within) == (None, {}, 30)
    (step,) = scenario.steps
    assert isinstance(step, Expect)
    assert (step.payload, step.payload_has) == (NOTHING, NOTHING)


def test_a_script_is_kept_as_it_is_written() -> None:
    scenario = load("{agent: {script: {on: {quote: {reply: {price: 12}}}}}, steps: [{ask: quote}]}")
    assert scenario.agent.script_form == {"on": {"quote": {"reply": {"price": 12}}}}


# What is said of a file that is wrong


def test_a_mistake_is_told_with_its_file_line_place_value_and_what_is_allowed() -> None:
    assert error_of_step("{expect: hello, within: soon}") == (
        'quote.yaml, line 4: steps[1].within: must be a number of seconds from 0 to 86400; it is "soon"'
    )


def test_all_mistakes_are_told() -> None:
    told = error_of("agent:\n  python: 3\nsteps:\n  - wait: -1\n  - sned: x\n").splitlines()
    assert told == [
        "quote.yaml has 3 mistakes:",
        "  line 2: agent.python: must be a module and a function in it, such as my_package.agent:add_handlers; it is 3",
        "  line 4: steps[0].wait: must be a number of seconds from 0 to 86400; it is -1",
        f'  line 5: steps[1]: must have exactly one of {NAMES}; it is {{"sned":"x"}}',
    ]


def test_of_many_mistakes_the_first_are_told() -> None:
    steps = "".join("  - wait: -1\n" for _ in range(12))
    told = error_of(f"agent: {{script: {{}}}}\nsteps:\n{steps}").splitlines()
    assert (told[0], len(told), told[-1]) == ("quote.yaml has 12 mistakes:", 12, "  … 2 more")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ", line 1: must have properties, of these: name, agent, within, strict, steps; it is null"),
        ("a: [", ": line 1, column 5: expected the node content, but found '<stream end>'"),
        ("agent: {}\nagent: {}\n", ": line 2, column 1: 'agent' is there twice"),
        ("steps: [{wait: 0}]", ", line 1: agent: Field required"),
        ("agent: {script: {}}", ", line 1: steps: Field required"),
        ("{agent: {script: {}}, steps: []}", ", line 1: steps: must have a step or more; it is []"),
        ("{agent: {script: {}}, steps: [{wait: 0}], name: ''}", "name: must be text of one character or more"),
        ("{agent: {script: {}}, steps: [{wait: 0}], strict: 1}", "strict: Input should be a valid boolean; it is 1"),
        (
            "name: A quote\nwithn: 3\nagent: {script: {}}\nsteps: [{wait: 0}]",
            ", line 2: withn: no such property; there are name, agent, within, strict, steps",
        ),
    ],
)
def test_what_is_said_of_a_file(text: str, told: str) -> None:
    assert told in error_of(text)


def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(UsageError, match=r"^missing\.yaml cannot be read: No such file or directory$"):
        load_scenario("missing.yaml")
    Path("quote.yaml").write_bytes(b"name: \xff")
    with pytest.raises(UsageError, match=r"^quote\.yaml is not UTF-8 text: "):
        load_scenario("quote.yaml")


def test_without_pyyaml_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "needs the package PyYAML: pip install 'curb-client[testing]'" in error_of("name: A quote")


ONE_OF = "must have exactly one of command, python, script; it is "
TEXT = "must be text; a number or true in quotes is text; it is "


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("3", "agent: must have properties, of these: command, cwd, env, worker, python, settings, adjustable, script"),
        ("{}", f"agent: {ONE_OF}{{}}"),
        ("{script: null}", f'agent: {ONE_OF}{{"script":null}}'),
        ("{command: a, python: a:b}", f"agent: {ONE_OF}"),
        (
            "{command: ''}",
            'agent.command: must be a program and its arguments, as text or as a list of texts; it is ""',
        ),
        ("{command: null}", "agent.command: must be a program and its arguments"),
        ('{command: "a \'b"}', 'agent.command: cannot be split into words: no closing quotation; it is "a \'b"'),
        ("{command: [node, 8080]}", "agent.command: [1] must be text; a number or true in quotes is text"),
        ('{command: ["", a]}', "agent.command: [0] must be text"),
        ("{command: a, env: 3}", 'agent.env: must have a text for each variable, such as {PRICE: "12"}; it is 3'),
        ("{command: a, env: {A: 3}}", "agent.env: must be text for A; a number or true in quotes is text"),
        ("{command: a, env: {A=B: x}}", "agent.env: has 'A=B', which cannot be a variable's name"),
        ("{command: a, env: {LIVEKIT_URL: x}}", "agent.env: has LIVEKIT_URL, which is set for the agent; leave it out"),
        ("{command: a, cwd: 3}", f"agent.cwd: {TEXT}3"),
        ("{command: a, worker: 3}", "agent.worker: Input should be a valid string; it is 3"),
        ("{command: a, within: -1}", "agent.within: must be a number of seconds from 0 to 86400; it is -1"),
        ("{command: a, settings: {}}", "agent.settings.tts: Field required"),
        ("{python: a:b, cwd: x}", "agent: has cwd, which goes with command alone; leave it out"),
        ("{python: a:b, worker: x}", "agent: has worker, which goes with command alone; leave it out"),
        ("{script: {}, env: {}}", "agent: has env, which goes with command or python alone; leave it out"),
        ("{script: {}, adjustable: {}}", "agent: has adjustable, which goes with python alone; leave it out"),
        ("{python: add_handlers}", "agent.python: must be a module and a function in it, such as my_package.agent:add"),
        ("{python: a:b, adjustable: {host: [volume]}}", "agent.adjustable.host[0]: Input should be 'tts.voice'"),
        ("{script: {on: {a: {repli: 1}}}}", "agent.script.on.a.repli: no such property; there are when, reply"),
    ],
)
def test_what_is_said_of_an_agent(agent: str, told: str) -> None:
    error = error_of(f"steps: [{{wait: 0}}]\nagent: {agent}\n")
    assert f", line 2: {told}" in error or f"  line 2: {told}" in error


CODES = "no_handler, invalid_payload, handler_failed, not_adjustable, invalid_settings, payload_too_large"


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("3", f": must have exactly one of {NAMES}; it is 3"),
        ("{payload: {}}", f": must have exactly one of {NAMES}; it is "),
        ("{send: a, ask: b}", f": must have exactly one of {NAMES}; it is "),
        ("{send: ''}", ".send: has 0 UTF-16 units; it must have 1 to 256"),
        ("{send: 3}", ".send: must be text, not int; it is 3"),
        ("{send: a, reply: 1}", ".reply: no such property; there are within, refused, issues, send, payload"),
        ("{ask: a, replies: 1}", ".replies: no such property; there are within, refused, issues, ask, payload, reply"),
        ("{ask: a, payload: {n: 12345678901234567890}}", ".payload: n is a whole number of 64 bits, beyond 2^53-1"),
        ("{ask: a, reply: 1, refused: no_handler}", ": has both reply and refused; leave one of them out"),
        ("{ask: a, reply_has: 1, refused: no_handler}", ": has both reply_has and refused; leave one of them out"),
        ("{ask: a, reply_has: 1, reply: 1}", ": has both reply and reply_has; leave one of them out"),
        ("{ask: a, refused: no}", f'.refused: must be one of {CODES}; it is "no"'),
        ("{ask: a, refused: [no]}", f".refused: must be one of {CODES}"),
        ("{ask: a, issues: [plan]}", ": has issues, which only `refused: invalid_payload` and `invalid_settings` have"),
        ("{ask: a, refused: no_handler, issues: []}", ": has issues, which only `refused: invalid_payload` and"),
        ("{ask: a, refused: invalid_payload, issues: plan}", ".issues: Input should be a valid list"),
        (
            "{ask: a, refused: invalid_payload, issues: [3]}",
            ".issues[0]: must be the path of an issue, such as plan, items.0.name or [items, 0, name]; it is 3",
        ),
        ("{ask: a, within: null}", ".within: must be a number of seconds from 0 to 86400; it is null"),
        ("{expect: a, payload: 1, payload_has: 1}", ": has both payload and payload_has; leave one of them out"),
        ("{expect: a, reply: 1}", ".reply: no such property; there are within, expect, payload, payload_has"),
        ("{expect_nothing: x}", '.expect_nothing: must be a number of seconds from 0 to 86400; it is "x"'),
        ("{expect_nothing: {key: ''}}", ".expect_nothing.key: has 0 UTF-16 units"),
        ("{expect_nothing: {seconds: 3}}", ".expect_nothing.seconds: no such property; there are key, within"),
        ("{expect_nothing: 1, within: 1}", ".within: no such property; there are expect_nothing"),
        ("{update: 3}", ".update: must have properties, such as {tts: {voice: 17}}; it is 3"),
        ("{update: {}, settings: 3}", ".settings: must have properties, such as {tts: {voice: 17}}; it is 3"),
        ("{update: {}, settings: {}, refused: not_adjustable}", ": has both settings and refused; leave one of them"),
        ("{update: {}, path: llm}", ": has a path, which only `refused: not_adjustable` has"),
        ("{update: {}, refused: not_adjustable, path: 3}", f".path: {TEXT}3"),
        ("{say: 3}", f".say: {TEXT}3"),
        ("{say: ''}", ".say: must be text of one character or more"),
        ("{wait: soon}", '.wait: must be a number of seconds from 0 to 86400; it is "soon"'),
    ],
)
def test_what_is_said_of_a_step(step: str, told: str) -> None:
    assert f"quote.yaml, line 4: steps[1]{told}" in error_of_step(step)


def test_a_line_is_the_propertys_own() -> None:
    step = "  - ask: quote\n    refused: invalid_payload\n    issues:\n      - plan\n      - 3\n"
    assert error_of(f"agent:\n  script: {{}}\nsteps:\n{step}").startswith(
        "quote.yaml, line 8: steps[0].issues[1]: must be the path of an issue"
    )
