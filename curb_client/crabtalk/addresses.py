"""Where a daemon listens: a Unix socket, or a TCP port that it wrote down in a file (CrabTalk, Transport)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from curb_client.crabtalk.errors import DaemonUnreachableError
from curb_client.errors import UsageError

__all__ = ["Address", "PortFile", "TcpAddress", "UnixAddress", "as_address", "default_address"]

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)

_SOCKET: Final = Path(".crabtalk", "run", "crabtalk.sock")
_PORT_FILE: Final = Path(".crabtalk", "run", "crabtalk.port")
_TCP: Final = "tcp://"
_START_IT: Final = "start one with `crabtalk --foreground`"


@dataclass(frozen=True)
class UnixAddress:
    """A Unix domain socket.

    Attributes:
        path: ``~`` is the user's home directory.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    async def open(self, factory: Callable[[], ProtocolT]) -> None:
        """Connect.

        Raises:
            DaemonUnreachableError: nothing listens there.
        """
        loop = asyncio.get_running_loop()
        if not hasattr(loop, "create_unix_connection"):
            raise DaemonUnreachableError(f"{self}: there are no Unix sockets here; give the port file of the daemon")
        try:
            await loop.create_unix_connection(factory, str(self.path.expanduser()))
        except FileNotFoundError:
            raise DaemonUnreachableError(f"there is no socket {self}: no daemon runs; {_START_IT}") from None
        except ConnectionRefusedError:
            # the daemon removes its socket on SIGINT alone
            raise DaemonUnreachableError(
                f"nothing listens at {self}: the daemon that made it was killed; {_START_IT}"
            ) from None
        except OSError as error:
            raise DaemonUnreachableError(f"no connection to {self}: {error}") from error


@dataclass(frozen=True)
class TcpAddress:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{_TCP}{self.host}:{self.port}"

    async def open(self, factory: Callable[[], ProtocolT]) -> None:
        """As of :meth:`UnixAddress.open`."""
        try:
            await asyncio.get_running_loop().create_connection(factory, self.host, self.port)
        except OSError as error:
            raise DaemonUnreachableError(f"no connection to {self}: {error}; {_START_IT}") from error


@dataclass(frozen=True)
class PortFile:
    """The file in which a daemon writes its port of 127.0.0.1, read for each connection: a new daemon has a new one.

    Attributes:
        path: ``~`` is the user's home directory.
    """

    path: Path

    def __str__(self) -> str:
        return f"the port in {self.path}"

    async def open(self, factory: Callable[[], ProtocolT]) -> None:
        """As of :meth:`UnixAddress.open`."""
        try:
            text = self.path.expanduser().read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise DaemonUnreachableError(f"no port in {self.path} ({error}): no daemon runs; {_START_IT}") from error
        port = _port(text.strip())
        if port is None:
            raise DaemonUnreachableError(f"no port in {self.path}, but {text[:40]!r}")
        await TcpAddress("127.0.0.1", port).open(factory)


Address = UnixAddress | TcpAddress | PortFile


def default_address() -> Address:
    """The socket in the user's home directory; the port file where the system has no Unix sockets."""
    return PortFile(Path.home() / _PORT_FILE) if os.name == "nt" else UnixAddress(Path.home() / _SOCKET)


def as_address(address: Address | str | os.PathLike[str] | None) -> Address:
    """What a user wrote: ``tcp://127.0.0.1:6688``, a socket's path, or that of a ``.port`` file; None for the default.

    Raises:
        UsageError: none of these.
    """
    if address is None:
        return default_address()
    if isinstance(address, (UnixAddress, TcpAddress, PortFile)):
        return address
    text = os.fspath(address)
    if text.startswith(_TCP):
        host, _, digits = text.removeprefix(_TCP).rpartition(":")
        port = _port(digits)
        if not host or port is None:
            raise UsageError(f"the daemon's address is {text!r:.200}; give tcp://HOST:PORT with a port up to 65535")
        return TcpAddress(host.strip("[]"), port)
    if not text or "://" in text:
        raise UsageError(f"the daemon's address is {text!r:.200}; give tcp://HOST:PORT, a socket or a .port file")
    return PortFile(Path(text)) if text.endswith(".port") else UnixAddress(Path(text))


def _port(text: str) -> int | None:
    if not text.isascii() or not text.isdecimal() or len(text) > 5:
        return None
    return int(text) if 1 <= int(text) <= 65535 else None
