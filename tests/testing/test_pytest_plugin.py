"""The pytest plugin, by runs of pytest in processes of their own."""

from __future__ import annotations

import os
import textwrap

import pytest

from curb_client.testing import LIVEKIT_SERVER_VERSION, LiveKitServerHandle
from curb_client.testing.binary import cache_directory

CACHE = cache_directory(os.environ).parents[1]
"""Known before pytester gives its runs another home: livekit-server is not built anew for them."""

ANSWERS = """
    import pytest

    @pytest.mark.asyncio
    async def test_quote(curb_call):
        curb_call.agent.on_message("quote", lambda payload, meta: {"price": 12})
        assert await curb_call.client.ask("quote", {"plan": "basic"}) == {"price": 12}
"""


class Runs:
    """Runs of pytest on test files of one's own, against one server that runs already."""

    def __init__(self, pytester: pytest.Pytester, server: LiveKitServerHandle, patch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        patch.setenv("CURB_LIVEKIT_URL", server.url)
        patch.setenv("CURB_LIVEKIT_API_KEY", server.api_key)
        patch.setenv("CURB_LIVEKIT_API_SECRET", server.api_secret)

    def run(self, source: str, *arguments: str, plugin: str = "asyncio") -> pytest.RunResult:
        self.pytester.makepyfile(textwrap.dedent(source))
        options = ["-p", "no:cacheprovider", "-p", "no:cov", "-W", "error", "-o", "addopts="]
        if plugin == "asyncio":
            options += ["-o", "asyncio_default_fixture_loop_scope=function", "-p", "no:anyio"]
        else:
            options += ["-p", "no:asyncio"]
        return self.pytester.runpytest_subprocess(*options, *arguments, timeout=120)


@pytest.fixture
def runs(pytester: pytest.Pytester, curb_livekit: LiveKitServerHandle, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(pytester, curb_livekit, monkeypatch)


# Whatever runs the loop


@pytest.mark.parametrize("scope", ["function", "class", "module", "package", "session"])
def test_every_loop_scope(runs: Runs, scope: str) -> None:
    source = f"""
        import asyncio
        import pytest

        pytestmark = pytest.mark.asyncio(loop_scope="{scope}")

        class TestQuotes:
            async def test_first(self, curb_call):
                curb_call.agent.on_message("quote", lambda payload, meta: {{"price": 12}})
                assert await curb_call.client.ask("quote") == {{"price": 12}}

            async def test_second(self, curb_call):
                curb_call.agent.on_message("quote", lambda payload, meta: {{"price": 13}})
                assert await curb_call.client.ask("quote") == {{"price": 13}}

            async def test_left_alone(self, curb_call):
                curb_call.agent.on_message("open", lambda payload, meta: curb_call.agent.send.to_client("show-form"))
                await curb_call.client.send("open")
    """
    result = runs.run(source, "-o", "asyncio_mode=strict")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["the agent sent what no handler and no expectation took:", "  show-form {}"])


def test_auto_mode_with_a_fixture_of_the_user(runs: Runs) -> None:
    source = """
        import pytest

        @pytest.fixture
        async def agent(curb_call):
            curb_call.agent.on_message("quote", lambda payload, meta: {"price": 12})
            await curb_call.joined()
            yield curb_call.agent
            assert not curb_call.loop.is_closed()

        async def test_quote(curb_call, agent):
            assert await curb_call.client.ask("quote") == {"price": 12}
    """
    runs.run(source, "-o", "asyncio_mode=auto").assert_outcomes(passed=1)


def test_the_plugin_of_anyio(runs: Runs) -> None:
    source = """
        import asyncio
        import pytest

        pytestmark = pytest.mark.anyio

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        async def test_quote(curb_call):
            curb_call.agent.on_message("quote", lambda payload, meta: {"price": 12})
            assert await curb_call.client.ask("quote") == {"price": 12}

        async def test_left_alone(curb_call):
            agent, client = curb_call.agent, curb_call.client
            await curb_call.joined()
            while "caller" not in agent.room.remote_participants:
                await asyncio.sleep(0.01)
            await agent.send.to_client("status")
            while "status" not in client.counts.unhandled:
                await asyncio.sleep(0.01)
    """
    result = runs.run(source, plugin="anyio")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["the agent sent what no handler and no expectation took:", "  status {}"])


def test_unittests_own_async_tests(runs: Runs) -> None:
    source = """
        import asyncio
        import unittest
        import pytest

        class QuoteTest(unittest.IsolatedAsyncioTestCase):
            @pytest.fixture(autouse=True)
            def _call(self, curb_call):
                self.call = curb_call

            async def test_quote(self):
                self.call.agent.on_message("quote", lambda payload, meta: {"price": 12})
                self.assertEqual(await self.call.client.ask("quote"), {"price": 12})

            async def test_wrong(self):
                self.call.agent.on_message("quote", lambda payload, meta: {"price": 13})
                self.assertEqual(await self.call.client.ask("quote"), {"price": 12})

            async def test_left_alone(self):
                agent, client = self.call.agent, self.call.client
                await self.call.joined()
                while "caller" not in agent.room.remote_participants:
                    await asyncio.sleep(0.01)
                await agent.send.to_client("status")
                while "status" not in client.counts.unhandled:
                    await asyncio.sleep(0.01)
    """
    result = runs.run(source, plugin="none")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines_random(
        [
            "the agent sent what no handler and no expectation took:",
            "  status {}",
            "*caller*asks quote {}",
            '*agent*answers quote {"price":13}',
        ]
    )


def test_a_loop_of_the_tests_own(runs: Runs) -> None:
    source = """
        import asyncio

        def test_quote(curb_call):
            async def main():
                curb_call.agent.on_message("quote", lambda payload, meta: {"price": 12})
                assert await curb_call.client.ask("quote") == {"price": 12}
            asyncio.run(main())

        def test_without_a_loop(curb_call):
            curb_call.client
    """
    result = runs.run(source)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["E*UsageError: curb_call.client needs a running asyncio loop: use it inside an async *"]
    )


def test_under_xdist(runs: Runs) -> None:
    source = textwrap.dedent(ANSWERS).replace(
        "async def test_quote(curb_call)", "async def test_quote(curb_call, number)"
    )
    source = source.replace(
        "@pytest.mark.asyncio", "@pytest.mark.parametrize('number', range(4))\n@pytest.mark.asyncio"
    )
    runs.run(source, "-n", "2").assert_outcomes(passed=4)


# What it costs when it is not used


def test_nothing_is_imported_before_a_fixture_asks_for_it(runs: Runs) -> None:
    source = """
        import sys

        def test_imports():
            heavy = {"livekit.rtc", "livekit.api", "pydantic", "aiohttp", "asyncio", "yaml", "curb_client.room"}
            assert sorted(heavy & set(sys.modules)) == []
    """
    result = runs.run(source, "-p", "no:xdist", "-p", "no:anyio", plugin="none")
    result.assert_outcomes(passed=1)


def test_without_the_extra_the_plugin_keeps_still(runs: Runs) -> None:
    runs.pytester.makeconftest(
        """
        import sys

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[2].startswith("api") and name.startswith("livekit"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Missing())
        """
    )
    source = """
        def test_nothing_of_ours():
            pass

        def test_ours(curb_call):
            pass
    """
    result = runs.run(source)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*pip install 'curb-client[[]testing[]]'*"])
    assert "curb:" not in result.stdout.str()


# What it says of itself


def test_the_header_names_the_versions(runs: Runs) -> None:
    result = runs.run(ANSWERS)
    result.stdout.fnmatch_lines(
        [f"curb: curb-client *, livekit *; --livekit=ws://* (livekit-server {LIVEKIT_SERVER_VERSION})"]
    )


def test_the_marker_and_the_fixtures_are_documented(runs: Runs) -> None:
    runs.run(ANSWERS, "--markers").stdout.fnmatch_lines(
        ["@pytest.mark.curb(strict=True, *): how `curb_call` is set up*"]
    )
    runs.run(ANSWERS, "--fixtures").stdout.fnmatch_lines(["curb_livekit [[]session scope[]]*", "curb_call *"])


def test_an_unknown_option_of_the_marker_is_an_error_that_names_the_known(runs: Runs) -> None:
    source = """
        import pytest

        @pytest.mark.curb(stirct=False)
        def test_quote(curb_call):
            pass

        @pytest.mark.curb(False)
        def test_other(curb_call):
            pass
    """
    result = runs.run(source)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            "*the marker curb has an option 'stirct'; it takes strict, agent_identity, settings, adjustable*",
            "*the marker curb has arguments without a name; it takes strict*",
        ]
    )


def test_a_choice_of_server_that_is_none(runs: Runs) -> None:
    result = runs.run(ANSWERS, "--livekit=nonsense")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["no LiveKit server for the tests: * is 'nonsense'; give 'embedded', 'server' or the URL of one *"]
    )


def test_the_marker_sets_the_call_up(runs: Runs) -> None:
    source = """
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.curb(
            strict=False,
            settings={"tts": {"provider": "a"}, "stt": {"provider": "b"}, "llm": {"provider": "c", "model": "d"}},
            adjustable={"client": ["tts.voice"]},
        )
        async def test_update(curb_call):
            curb_call.agent.on_message("open", lambda payload, meta: curb_call.agent.send.to_client("show-form"))
            settings = await curb_call.client.update({"tts": {"voice": 17}})
            assert settings.tts.voice == 17
    """
    runs.run(source).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "choice", [[], ["--livekit=embedded"], ["--livekit=server"]], ids=["default", "embedded", "server"]
)
def test_a_server_that_the_plugin_starts(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, choice: list[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))
    pytester.makepyfile(textwrap.dedent(ANSWERS))
    result = pytester.runpytest_subprocess("-o", "asyncio_default_fixture_loop_scope=function", *choice)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"curb: *; --livekit={choice[0].partition('=')[2] if choice else 'embedded'} *"])
