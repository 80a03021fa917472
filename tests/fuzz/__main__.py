"""``python -m tests.fuzz [target ...] --runs N | --seconds N``: exits with 1 where a target fails."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.runner import ARTIFACTS, fuzz, fuzz_here, names


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the decoders, one process each.")
    parser.add_argument("targets", nargs="*", metavar="target", help="all of them by default")
    parser.add_argument("--list", action="store_true", help="tell what targets there are")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--runs", type=int, default=20_000, help="inputs for each target (20000)")
    amount.add_argument("--seconds", type=int, help="instead of --runs: for each target")
    parser.add_argument("--seed", type=int, default=1, help="of the fuzzer's choices (1)")
    parser.add_argument("--here", action="store_true", help="in forks of this process, with all that the fuzzer says")
    parser.add_argument("--artifacts", type=Path, default=ARTIFACTS, help="where failing inputs are kept (.fuzz)")
    options = parser.parse_args(arguments)
    if options.here:  # before anything imports what is to be instrumented
        limit = f"-max_total_time={options.seconds}" if options.seconds else f"-runs={options.runs}"
        fuzz_here(options.targets, [limit, f"-seed={options.seed}"], options.artifacts)
        return 0
    if options.list:
        print("\n".join(names()))
        return 0
    limit = f"--seconds={options.seconds}" if options.seconds else f"--runs={options.runs}"
    failed = []
    for outcome in fuzz(options.targets or names(), limit, seed=options.seed, artifacts=options.artifacts):
        print(outcome.told if outcome.failed else f"{outcome.name}: {outcome.runs} inputs", flush=True)
        failed += [outcome.name] if outcome.failed else []
    print(f"failed: {', '.join(failed)}" if failed else "no failure")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
