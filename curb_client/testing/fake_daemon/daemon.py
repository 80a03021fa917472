"""The fake daemon: what it is given, and its life."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from typing_extensions import Self

from curb_client.crabtalk.addresses import PortFile, UnixAddress
from curb_client.errors import UnmatchedRequestError
from curb_client.model.endpoint.script import ModelScript
from curb_client.testing.fake_daemon.dispatch import Dispatcher
from curb_client.testing.fake_daemon.listener import Listener
from curb_client.testing.fake_daemon.runs import Runs, ToolFunction
from curb_client.testing.fake_daemon.state import State

if TYPE_CHECKING:
    from curb_client.model.request import ModelRequest

__all__ = ["FakeDaemon"]


class FakeDaemon:
    """A CrabTalk daemon on a thread of its own, at a Unix socket and at TCP; ``with`` it, from any thread or loop.

    ::

        with FakeDaemon() as daemon:
            daemon.script.on("hello", text="Good morning.")
            async with CrabTalkClient(daemon.address) as client:
                assert (await client.send("hello")).content == "Good morning."

    It has the agent ``crab`` and one for each ``.crabtalk/local/agents/*.md`` in its home. What their model says is a
    script, as of a scripted model; tools that it calls are run: ``bash`` (which has echo and sleep alone), ``ask_user``
    and yours.

    Args:
        script: of the model; an empty one to begin with.
        tools: more tools by their names, or another ``bash``: functions of the arguments, plain or async.
        packages: that can be installed, each with its steps.
    """

    kind: Literal["real", "fake"] = "fake"

    def __init__(
        self,
        script: ModelScript | None = None,
        *,
        tools: Mapping[str, ToolFunction] | None = None,
        packages: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.script = ModelScript() if script is None else script
        self.home = Path(tempfile.mkdtemp(prefix="curb-crab-"))
        folder = self.home / ".crabtalk"
        (folder / "local" / "agents").mkdir(parents=True)
        self._state = State(folder)
        self._runs = Runs(self._state, self.script, tools or {})
        self._packages = packages or {}
        self._listener = self._new_listener()

    @property
    def address(self) -> UnixAddress:
        """Its socket, for ``CrabTalkClient``."""
        return UnixAddress(self.home / ".crabtalk" / "run" / "crabtalk.sock")

    @property
    def port_file(self) -> PortFile:
        """Its other address: TCP."""
        return PortFile(self.home / ".crabtalk" / "run" / "crabtalk.port")

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked."""
        return self._runs.requests

    def check(self) -> None:
        """See that every request to the model was scripted.

        Raises:
            UnmatchedRequestError: one was not; it is shown.
        """
        if self._runs.unmatched:
            shown = "\n\n".join(request.render() for request in self._runs.unmatched)
            raise UnmatchedRequestError(
                f"no rule of the script fits {len(self._runs.unmatched)} of the requests to the daemon's model; "
                f"add rules for\n{shown}"
            )

    def start(self) -> None:
        """Returns when it takes requests; after :meth:`stop`, with what it had on disk.

        Raises:
            CrabDaemonError: it cannot listen.
        """
        self._state.restart()
        self._listener = self._new_listener()
        self._listener.start()

    def stop(self, *, kill: bool = False) -> None:
        """End it, as of SIGINT: connections are closed without a word. ``kill``: as of SIGKILL, the socket stays."""
        self._listener.stop(leave_files=kill)

    def close(self) -> None:
        """End it, and remove its home."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _new_listener(self) -> Listener:
        dispatcher = Dispatcher(self._state, self._runs, self._packages)

        def on_loop(loop: asyncio.AbstractEventLoop) -> None:  # noqa: ARG001
            dispatcher.begin_crons()

        return Listener(self.address.path, self.port_file.path, dispatcher.serve, on_loop)
