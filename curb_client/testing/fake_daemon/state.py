"""What a daemon knows: sessions, agents, jobs, questions that wait, and who listens to events."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from curb_client.crabtalk import crabtalk_pb2 as pb

__all__ = ["MODEL", "RefusedError", "Session", "State", "logger"]

logger = logging.getLogger("curb_client")

MODEL: Final = "fake-model"
_ITERATIONS: Final = 16
_COMPACT_THRESHOLD: Final = 100_000
_COMPACT_TOOL_MAX_LEN: Final = 1024


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(one) for one in value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.encode("utf-8", "ignore").decode() == value  # no lone surrogate


_CONFIG: Final[Mapping[str, Callable[[object], bool]]] = {
    "description": _is_text,
    "model": lambda value: value is None or _is_text(value),
    "max_iterations": _is_count,
    "thinking": lambda value: isinstance(value, bool),
    "members": _are_names,
    "skills": _are_names,
    "mcps": _are_names,
    "compact_threshold": lambda value: value is None or _is_count(value),
    "compact_tool_max_len": _is_count,
}
"""What is looked at of an agent's config; whatever else is in it is kept and means nothing."""


class RefusedError(Exception):
    """Answered with an ErrorMsg."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Session:
    """A conversation; on disk it goes on when it is killed or the daemon ends.

    Attributes:
        id: while it lives. history: in the form of chat completions. is_active: a run is in it, or was when its client
            left. running: held by a run, and by whoever looks at the session.
    """

    id: int
    agent: str
    created_by: str
    history: list[dict[str, Any]] = field(default_factory=list)
    is_active: bool = False
    running: asyncio.Lock = field(default_factory=asyncio.Lock)
    created: float = field(default_factory=time.time)

    def info(self) -> pb.SessionInfo:
        return pb.SessionInfo(
            id=self.id,
            agent=self.agent,
            created_by=self.created_by,
            message_count=len(self.history),
            active=self.is_active,
        )


class State:
    """All of it.

    Args:
        folder: ``.crabtalk`` in the daemon's home.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live: dict[int, Session] = {}
        self.disk: list[Session] = []
        self.manifest: dict[str, dict[str, Any]] = {}
        self.crons: dict[int, pb.CronInfo] = {}
        self.asks: dict[int, asyncio.Future[str]] = {}
        self.subscribers: set[asyncio.Queue[pb.AgentEventMsg]] = set()
        self.mcps: list[pb.McpInfo] = []
        self.started = time.monotonic()
        self._ids = itertools.count(1)
        self._cron_ids = itertools.count(1)

    def restart(self) -> None:
        """What a daemon forgets when it ends: all but what is on disk."""
        self.live.clear()
        self.asks.clear()
        self.subscribers.clear()
        self._ids = itertools.count(1)
        self.started = time.monotonic()

    # Sessions

    def session(self, number: int) -> Session | None:
        return self.live.get(number)

    def new_session(self, agent: str, created_by: str) -> Session:
        if agent not in self.agent_names():
            raise RefusedError(500, f"agent '{agent}' not registered")
        session = self._lives(Session(0, agent, created_by))
        self.disk.append(session)
        return session

    async def chosen_session(self, agent: str, created_by: str) -> Session:
        """The living one with the lowest id, else the newest on disk, else a new one; waits for runs of the first."""
        for session in list(self.live.values()):
            async with session.running:
                if (session.agent, session.created_by) == (agent, created_by):
                    return session
        for stored in reversed(self.disk):
            if (stored.agent, stored.created_by) == (agent, created_by):
                return self.resumed(stored)
        return self.new_session(agent, created_by)

    def resumed(self, stored: Session) -> Session:
        """A session from disk, alive again under a new id."""
        session = self._lives(Session(0, stored.agent, stored.created_by, stored.history))
        self.disk[self.disk.index(stored)] = session
        return session

    def file_of(self, session: Session) -> str:
        """Where it would be on disk."""
        name = f"{session.agent}_{session.created_by}_{self.disk.index(session) + 1}.jsonl"
        return str(self.folder / "sessions" / name)

    def _lives(self, session: Session) -> Session:
        session.id = next(self._ids)
        self.live[session.id] = session
        return session

    # Agents

    def agent_names(self) -> list[str]:
        prompts = sorted(path.stem for path in (self.folder / "local" / "agents").glob("*.md"))
        return ["crab", *(name for name in prompts if name != "crab")]

    def agent_info(self, name: str) -> pb.AgentInfo:
        if name not in self.agent_names():
            raise RefusedError(404, f"agent '{name}' not found")
        config = self.manifest.get(name, {})
        model = config.get("model") or (MODEL if name == "crab" else None)
        return pb.AgentInfo(
            name=name,
            description=config.get("description", ""),
            model=model,
            max_iterations=config.get("max_iterations", _ITERATIONS),
            thinking=config.get("thinking", False),
            members=config.get("members", ()),
            skills=config.get("skills", ()),
            mcps=config.get("mcps", ()),
            compact_threshold=config.get("compact_threshold", _COMPACT_THRESHOLD),
            compact_tool_max_len=config.get("compact_tool_max_len", _COMPACT_TOOL_MAX_LEN),
        )

    def write_agent(self, name: str, text: str, *, is_new: bool) -> pb.AgentInfo:
        """Keep an agent's config; it is there even if there is no such agent then."""
        try:
            config = json.loads(text)
        except ValueError:
            config = None
        if not isinstance(config, dict) or not all(fits(config[key]) for key, fits in _CONFIG.items() if key in config):
            raise RefusedError(500, "invalid AgentConfig JSON")
        if is_new and name in self.manifest:
            raise RefusedError(500, f"agent '{name}' already exists in local manifest")
        if not is_new and name not in self.manifest:
            raise RefusedError(500, f"agent '{name}' not found in local manifest")
        self.manifest[name] = config
        try:
            return self.agent_info(name)
        except RefusedError as refused:
            raise RefusedError(500, str(refused)) from None

    def delete_agent(self, name: str) -> None:
        if self.manifest.pop(name, None) is None:
            raise RefusedError(404, f"agent '{name}' not found in local manifest")

    # Jobs and events

    def add_cron(self, message: pb.CreateCronMsg) -> pb.CronInfo:
        info = pb.CronInfo(
            id=next(self._cron_ids),
            schedule=message.schedule,
            skill=message.skill,
            session=message.session,
            quiet_start=message.quiet_start,
            quiet_end=message.quiet_end,
            once=message.once,
        )
        self.crons[info.id] = info
        return info

    def tell(self, session: Session, kind: pb.AgentEventKind, content: str = "") -> None:
        """Tell the subscribers."""
        timestamp = dt.datetime.now(dt.timezone.utc).isoformat(timespec="microseconds")
        event = pb.AgentEventMsg(
            agent=session.agent,
            session=session.id,
            kind=kind,
            content=content,
            timestamp=timestamp.replace("+00:00", "000+00:00"),
        )
        for queue in self.subscribers:
            queue.put_nowait(event)
