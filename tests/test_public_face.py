"""What `import curb_client` gives, and what it does not load."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import curb_client


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    assert list(curb_client.__all__) == sorted(curb_client.__all__)
    for name in curb_client.__all__:
        value = getattr(curb_client, name)
        assert getattr(value, "__doc__", None), f"{name} has no docstring"
    assert set(curb_client.__all__) <= set(dir(curb_client))
    assert not hasattr(curb_client, "no_such_name")


def test_what_type_checkers_see_is_what_is_loaded() -> None:
    tree = ast.parse(Path(curb_client.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        alias.name: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == curb_client._HOMES
    assert set(seen) == set(curb_client.__all__)


def test_errors_are_all_public_and_drawn_in_the_tree() -> None:
    errors = importlib.import_module("curb_client.errors")
    assert set(errors.__all__) <= set(curb_client.__all__)
    for name in errors.__all__:
        assert name in (errors.__doc__ or ""), f"{name} is not in the tree"


def test_only_what_is_used_is_loaded() -> None:
    program = """
import sys
import curb_client, curb_client.errors, curb_client.testing
import curb_client.protocol.envelope, curb_client.protocol.settings, curb_client.protocol.ordering
loaded = {name.partition(".")[0] for name in sys.modules} & {"livekit", "aiohttp", "click", "rich", "pytest", "numpy"}
assert not loaded, loaded
curb_client.connect_agent
assert "livekit.rtc" in sys.modules and "livekit.api" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_wheel_has_the_package_its_types_and_the_schema(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    for expected in ("curb_client/py.typed", "curb_client/protocol/protocol.schema.json", "curb_client/room/client.py"):
        assert expected in listing, (built.stderr, listing)
    for unexpected in ("tests/", "bench/", "fixtures/"):
        assert unexpected not in listing
