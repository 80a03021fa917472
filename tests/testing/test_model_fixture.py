"""The fixture ``curb_model``, in a pytest of its own."""

import pytest

TEST = """
import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest


def ask(url, text):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    with urlopen(Request(url + "/chat/completions", body), timeout=30) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def test_scripted(curb_model):
    curb_model.script.on("hello", text="Good morning.")
    assert ask(curb_model.url, "hello") == "Good morning."
    assert curb_model.requests[0].last_user_text == "hello"


def test_not_scripted(curb_model):
    with pytest.raises(HTTPError) as refused:
        ask(curb_model.url, "what is the time?")
    refused.value.close()
"""


def test_a_request_that_is_not_scripted_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_not_scripted*", "*user: what is the time?*"])
