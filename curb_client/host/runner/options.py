"""How a runner runs: by options, or by the variables that a host sets (host protocol, Runner environment)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, get_args

from typing_extensions import Self

from curb_client.errors import UsageError
from curb_client.protocol.contract import HEARTBEAT_SECONDS, MAX_SAFE_INTEGER, RETAINED_RECORDS, RUNNER_PRODUCER

__all__ = ["VARIABLES", "RunnerMode", "RunnerOptions", "split_address"]

RunnerMode = Literal["managed", "direct-join", "dev", "worker"]
"""Who gives the runner its calls.

``managed``: a host, over HTTP. ``direct-join``: whoever starts it, one call, by its environment. ``dev`` and
``worker``: the program that it runs in, by :meth:`Runner.take_call`; a host only follows.
"""


@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """The options of a :class:`Runner`; :meth:`from_environment` reads them as hosts give them.

    Attributes:
        token: that every request but ``GET /health`` must carry.
        address: ``host:port`` to listen on; port 0 is any that is free.
        max_sessions: calls at the same time.
        deployment_id, configuration_version: compared with a start request's, where both state them.
        mode: see :data:`RunnerMode`.
        realtime_url, realtime_token, session_id: the one call of ``direct-join``.
        journal: False keeps no record: the event stream answers ``no_journal``, and agents have no host.
        retained_records: how many records are held for readers.
        drain_seconds: how long a draining runner lets its calls go on; they then end with ``runner_shutdown``.
        warm_up_seconds: how long warming up may take.
        metrics_address: ``host:port`` for Prometheus, without a token; None for no metrics.
        max_body_bytes: of a request.
        heartbeat_seconds: between the pings of an idle event stream.
        stalled_seconds: after which a reader that takes nothing is cut off.

    Raises:
        UsageError: a value that does not fit.
    """

    token: str = field(repr=False)
    address: str = "127.0.0.1:7071"
    max_sessions: int = 1
    deployment_id: str | None = None
    configuration_version: int | None = None
    mode: RunnerMode = "managed"
    realtime_url: str | None = None
    realtime_token: str | None = field(default=None, repr=False)
    session_id: str | None = None
    journal: bool = True
    retained_records: int = RETAINED_RECORDS
    drain_seconds: float = 3600.0
    warm_up_seconds: float = 600.0
    metrics_address: str | None = None
    max_body_bytes: int = 1024 * 1024
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    stalled_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not self.token or not self.token.isascii() or any(character <= " " for character in self.token):
            raise UsageError(
                "a runner needs a token of ASCII characters without spaces, which its host sends with every request: "
                "set CURB_MANAGEMENT_TOKEN"
            )
        split_address(self.address)
        if self.metrics_address is not None:
            split_address(self.metrics_address)
        if self.mode not in get_args(RunnerMode):
            raise UsageError(
                f"the {_told('mode')} is {self.mode!r:.80}; it must be one of {', '.join(get_args(RunnerMode))}"
            )
        for name in ("max_sessions", "retained_records", "max_body_bytes", "configuration_version"):
            number = getattr(self, name)
            if number is not None and not 1 <= number <= MAX_SAFE_INTEGER:
                raise UsageError(f"{_told(name)} is {number}; it must be from 1 to {MAX_SAFE_INTEGER}")
        for name in ("drain_seconds", "warm_up_seconds", "heartbeat_seconds", "stalled_seconds"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{_told(name)} is {getattr(self, name)}; it must be 0 or more seconds")
        if self.mode == "direct-join":
            self._check_direct_join()

    def _check_direct_join(self) -> None:
        given = {VARIABLES[name]: getattr(self, name) for name in ("realtime_url", "realtime_token", "session_id")}
        missing = [variable for variable, value in given.items() if not value]
        if missing:
            raise UsageError(f"the mode direct-join joins its one call at start; set {' and '.join(missing)}")
        if self.session_id == RUNNER_PRODUCER:
            raise UsageError(
                f"{_told('session_id')} is {RUNNER_PRODUCER!r}, which names the runner's own records; give another"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """The options that the environment gives; an override that is not None counts more.

        Args:
            environment: ``os.environ`` by default. A variable that is set to ``""`` counts as not set.

        Raises:
            UsageError: a value that does not fit, named by its variable.
        """
        given = os.environ if environment is None else environment
        values: dict[str, Any] = {
            name: _READERS.get(name, _text)(variable, given[variable])
            for name, variable in VARIABLES.items()
            if given.get(variable)
        }
        values.update({name: value for name, value in overrides.items() if value is not None})
        values.setdefault("token", "")
        return cls(**values)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[ipv6]:port``.

    Raises:
        UsageError: it is neither.
    """
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageError(f"{address!r} is no address; give host:port, such as 127.0.0.1:7071 or [::1]:7071")
    return host, int(port)


def _told(name: str) -> str:
    """The option, with the variable that may have given it."""
    variable = VARIABLES.get(name)
    return name if variable is None else f"{name} ({variable})"


def _text(_variable: str, value: str) -> str:
    return value


def _whole(variable: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > 16:
        raise UsageError(f"{variable} is {value!r:.80}; it must be a whole number")
    return int(value)


def _seconds(variable: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{variable} is {value!r:.80}; it must be a number of seconds") from None


def _switch(variable: str, value: str) -> bool:
    if value not in ("on", "off"):
        raise UsageError(f"{variable} is {value!r:.80}; it must be on or off")
    return value == "on"


VARIABLES: Final[Mapping[str, str]] = {
    "token": "CURB_MANAGEMENT_TOKEN",
    "address": "CURB_MANAGEMENT_ADDRESS",
    "max_sessions": "CURB_MAX_SESSIONS",
    "deployment_id": "CURB_DEPLOYMENT_ID",
    "configuration_version": "CURB_CONFIGURATION_VERSION",
    "mode": "CURB_MODE",
    "realtime_url": "CURB_REALTIME_URL",
    "realtime_token": "CURB_REALTIME_TOKEN",
    "session_id": "CURB_SESSION_ID",
    "journal": "CURB_JOURNAL",
    "retained_records": "CURB_RETAINED_RECORDS",
    "drain_seconds": "CURB_DRAIN_SECONDS",
    "warm_up_seconds": "CURB_WARM_UP_SECONDS",
    "metrics_address": "CURB_METRICS_ADDRESS",
}
"""The variable that gives each option; an option that is not here has none."""

_READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "max_sessions": _whole,
    "configuration_version": _whole,
    "retained_records": _whole,
    "journal": _switch,
    "drain_seconds": _seconds,
    "warm_up_seconds": _seconds,
}

assert set(VARIABLES) <= {option.name for option in fields(RunnerOptions)}
