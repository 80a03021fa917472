"""Runs targets under atheris, each in a process of its own: libFuzzer ends the process that it runs in.

What is fuzzed is instrumented while it is imported, which takes seconds: once, in a process that then forks.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.fuzz.target import Target

__all__ = ["ARTIFACTS", "Outcome", "find", "fuzz", "fuzz_here", "names", "why_not"]

ROOT: Final = Path(__file__).parents[2]
ARTIFACTS: Final = ROOT / ".fuzz"
"""Where the inputs are kept that a target failed with."""
MODULES: Final = ("tests.fuzz.protocol_targets", "tests.fuzz.embedded_targets", "tests.fuzz.crabtalk_targets")
BROKEN: Final = "tests.fuzz.broken_target"
INSTRUMENTED: Final = ("curb_client", "aiortc", "google.protobuf.json_format")
SECONDS_AN_INPUT: Final = 10
"""A target that takes longer for one has failed."""
MEGABYTES: Final = 1024
LONGEST_INPUT: Final = 1500
PATIENCE: Final = 3600.0
"""Seconds after which a whole run is given up."""
TOLD_LINES: Final = 60
_END: Final = re.compile(r"== (\w+) ended: (-?\d+)")


@dataclass(frozen=True)
class Outcome:
    """What came of one target."""

    name: str
    failed: bool
    runs: int
    """How many inputs it took."""
    told: str
    """The last lines of the fuzzer."""


def why_not() -> str:
    """Why nothing can be fuzzed here; empty where it can."""
    try:
        importlib.import_module("atheris")
    except ImportError:
        return "atheris is for Linux and Python 3.11 to 3.13"
    return ""


def names() -> list[str]:
    """Of all targets."""
    return [target.name for module in MODULES for target in _targets(module)]


def find(name: str) -> Target:
    """The target, with no more imported than it takes to find it.

    Raises:
        KeyError: there is none of this name.
    """
    for module in (*MODULES, BROKEN):
        for target in _targets(module):
            if target.name == name:
                return target
    raise KeyError(f"there is no target {name!r}; python -m tests.fuzz --list tells which there are")


def _targets(module: str) -> tuple[Target, ...]:
    targets: tuple[Target, ...] = importlib.import_module(module).TARGETS
    return targets


def fuzz(targets: Sequence[str], limit: str, *, seed: int = 1, artifacts: Path = ARTIFACTS) -> Iterator[Outcome]:
    """Fuzzes targets, and tells what came of each as soon as it is known.

    Args:
        limit: ``--runs=…`` or ``--seconds=…``, for each.
        artifacts: a folder for the inputs that they fail with.
    """
    command = [sys.executable, "-m", "tests.fuzz", *targets, limit, f"--seed={seed}", f"--artifacts={artifacts}"]
    child = subprocess.Popen(
        [*command, "--here"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    watchdog = threading.Timer(PATIENCE, child.kill)
    watchdog.start()
    left, lines = list(targets), deque[str](maxlen=TOLD_LINES)
    with child, contextlib.closing(child.stdout or io.StringIO()) as told:
        for line in told:
            if ended := _END.fullmatch(line.rstrip()):
                left.remove(ended[1])
                yield _outcome(ended[1], int(ended[2]), lines)
                lines.clear()
            elif not line.startswith("INFO: Instrumenting"):
                lines.append(line)
    watchdog.cancel()
    for name in left:
        yield _outcome(name, child.returncode or 1, lines)


def _outcome(name: str, status: int, lines: Iterable[str]) -> Outcome:
    text = "".join(lines)
    done = re.findall(r"^Done (\d+) runs", text, re.MULTILINE)
    return Outcome(name, status != 0 or not done, int(done[-1]) if done else 0, f"{name}: status {status}\n{text}")


def _words(target: Target) -> list[str]:
    """What the seeds are made of, for the fuzzer to put together anew, as libFuzzer's dictionaries have it."""
    words = {word for seed in target.seeds for word in re.findall(rb'"?[A-Za-z][\w.:/-]{1,40}"?|[{}\[\]:,]+', seed)}
    return sorted("".join(f"\\x{byte:02x}" for byte in word) for word in words)


def fuzz_here(names_of_targets: Sequence[str], options: Sequence[str], artifacts: Path) -> None:
    """Fuzzes targets in forks of this process, to which nothing that is to be instrumented may be known yet."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(INSTRUMENTED), enable_loader_override=False):
        targets = [find(name) for name in names_of_targets]
    artifacts.mkdir(exist_ok=True)
    for target in targets:
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                os.dup2(2, 1)
                _fuzz_in_fork(atheris, target, [*options, f"-artifact_prefix={artifacts / target.name}-"], Path(folder))
            _, status = os.waitpid(child, 0)
        print(f"== {target.name} ended: {os.waitstatus_to_exitcode(status)}", flush=True)


def _fuzz_in_fork(atheris: Any, target: Target, options: Sequence[str], folder: Path) -> NoReturn:
    corpus, words = folder / "corpus", folder / "words"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(seed)
    words.write_text("".join(f'"{word}"\n' for word in _words(target)), encoding="ascii")
    limits = [f"-timeout={SECONDS_AN_INPUT}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={LONGEST_INPUT}"]
    atheris.Setup(["fuzz", *options, *limits, f"-dict={words}", str(corpus)], target.check)
    atheris.Fuzz()
    os._exit(0)
