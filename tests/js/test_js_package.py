"""The npm package: its own tests, its build, and the file of it that the Python package carries."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from curb_client import static
from tests.js.conftest import ROOT

FILES = ("curb-client.js", "curb-client.js.map")
OUTDATED = "curb_client/static is not what js/ builds; run: make js-static"


def run(folder: Path, *command: str, **environment: str) -> str:
    """The output of a command that must succeed."""
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-6000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def built(js: Path) -> None:
    """``dist/``, with its size and its types as npm users would get them checked."""
    run(js, "npm", "run", "--silent", "dist")


@pytest.mark.parametrize("script", ["lint", "unit"])
def test_its_own_tests_pass(js: Path, script: str) -> None:
    """Types and style; units, vectors and fixtures."""
    run(js, "npm", "run", "--silent", script)


def test_the_python_package_carries_what_the_sources_make(js: Path, tmp_path: Path) -> None:
    run(js, "node", "build.mjs", "--no-types", CURB_DIST=str(tmp_path / "dist"))
    carried = static.script_path().parent
    script, source_map = FILES
    assert (tmp_path / "dist" / script).read_bytes() == (carried / script).read_bytes(), OUTDATED
    built_map, carried_map = (
        json.loads((folder / source_map).read_text(encoding="utf-8")) for folder in (tmp_path / "dist", carried)
    )
    for part in ("mappings", "sourcesContent"):  # `sources` are ways from the folder that was built into
        assert built_map[part] == carried_map[part], OUTDATED


def test_the_script_is_found_and_names_its_map() -> None:
    text = static.script_text()
    assert text.startswith('"use strict";var CurbClient=')
    assert text.endswith("//# sourceMappingURL=curb-client.js.map\n")
    assert static.script_path().with_name("curb-client.js.map").exists()


def test_the_wheel_carries_the_script(tmp_path: Path) -> None:
    run(ROOT, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {f"curb_client/static/{file}" for file in FILES} <= set(archive.namelist())


@pytest.mark.usefixtures("built")
def test_what_npm_users_get(js: Path) -> None:
    (package,) = json.loads(run(js, "npm", "pack", "--dry-run", "--json", "--loglevel=error"))
    files = {file["path"] for file in package["files"]}
    assert {"README.md", "LICENSE", "package.json", "dist/index.js", "dist/index.d.ts", "dist/react.js"} <= files
    assert {"dist/react.d.ts", "dist/node.js", "dist/node.d.ts", "dist/curb-client.js"} <= files
    assert not [file for file in files if not re.match(r"dist/|README\.md|LICENSE|package\.json", file)]


@pytest.mark.usefixtures("built")
def test_livekits_own_code_is_never_in_the_bundle(js: Path) -> None:
    for file in ("index.js", "node.js", "react.js", "curb-client.js"):
        sources = json.loads((js / "dist" / f"{file}.map").read_text(encoding="utf-8"))["sources"]
        assert sources
        assert all("node_modules" not in source for source in sources)


def test_the_lock_file_names_no_registry(js: Path) -> None:
    lock = (js / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert "://" not in re.sub(r'"url": "[^"]*"', "", lock)
