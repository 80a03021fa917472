"""The log of a runner that is a process: one JSON object a line, on stderr, without secrets."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import Any, Final

from curb_client.host.runner.call import current_session
from curb_client.host.runner.secrets import Secrets
from curb_client.protocol.json_text import without_lone_surrogates

__all__ = ["JsonFormatter", "log_as_json"]

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """``{"at", "level", "logger", "message", "session"?, "error"?, …}``; what ``extra=`` gave follows.

    Args:
        secrets: whose tokens are hidden wherever they stand in the line.
    """

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if session := current_session.get():
            line["session"] = session
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        line.update({name: value for name, value in vars(record).items() if name not in _STANDARD})
        text: str = without_lone_surrogates(json.dumps(line, ensure_ascii=False, default=repr))
        return self._secrets.hide(text)


def log_as_json(secrets: Secrets, level: str) -> None:
    """Send every log of the process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(secrets))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
