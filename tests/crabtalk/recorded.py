"""The recordings, and their frames that are messages."""

from __future__ import annotations

from pathlib import Path

from curb_client.testing.fake_daemon.replay import RecordedStep, read_frames

__all__ = ["FOLDER", "FRAMES", "RECORDINGS"]

FOLDER = Path(__file__).parents[2] / "fixtures" / "crabtalk"
RECORDINGS: dict[str, list[RecordedStep]] = {path.stem: read_frames(path) for path in sorted(FOLDER.glob("*.jsonl"))}
FRAMES = [step for steps in RECORDINGS.values() for step in steps if step.message is not None]
