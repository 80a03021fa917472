"""What goes wrong between a client and a CrabTalk daemon.

::

    CurbError
    ├── UsageError
    │   └── InvalidCronError             a schedule or quiet hours that the daemon would not do what they say
    └── CrabTalkError
        ├── FrameError                   the bytes are no frames of the protocol
        │   ├── FrameTooLargeError       a payload over 16 MiB, by its header or as it would be sent
        │   ├── CutFrameError            the connection ended inside a frame
        │   └── MalformedMessageError    a whole frame that is no ServerMessage, or no answer to what was asked
        ├── DaemonUnreachableError       no connection: nothing was asked
        ├── DaemonClosedError            the daemon closed the connection instead of answering
        ├── DaemonTimeoutError (TimeoutError)    no answer in time
        ├── DaemonRefusedError           the daemon answered with an ErrorMsg; ``code`` says of what kind
        │   └── DaemonNotFoundError      404: no such session, agent, job or question
        ├── AgentRunError                the agent's run ended with an error, its provider's most often
        ├── PackageError                 installing or removing a package failed
        ├── RoomLostError                a gateway's room has ended, or was lost
        └── CrabDaemonError              a daemon of the test kit's could not be got, started or reached
"""

from __future__ import annotations

from curb_client.errors import CurbError, UsageError

__all__ = [
    "AgentRunError",
    "CrabDaemonError",
    "CrabTalkError",
    "CutFrameError",
    "DaemonClosedError",
    "DaemonNotFoundError",
    "DaemonRefusedError",
    "DaemonTimeoutError",
    "DaemonUnreachableError",
    "FrameError",
    "FrameTooLargeError",
    "InvalidCronError",
    "MalformedMessageError",
    "PackageError",
    "RoomLostError",
]


class InvalidCronError(UsageError):
    """A schedule or quiet hours that the daemon would refuse, or take and not do what they say.

    Attributes:
        field: ``schedule``, ``quiet_start`` or ``quiet_end``.
    """

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class CrabTalkError(CurbError):
    """The root of what :mod:`curb_client.crabtalk` raises besides UsageError."""


class FrameError(CrabTalkError):
    """The bytes are no frames of the protocol; the connection is of no more use."""


class FrameTooLargeError(FrameError):
    """A payload over the limit.

    Attributes:
        size: bytes of the payload. limit: the most that it may have.
    """

    def __init__(self, message: str, *, size: int, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class CutFrameError(FrameError):
    """The bytes end inside a frame.

    Attributes:
        received: bytes of the frame that came, its header's four included.
        expected: bytes that it has, header included; None where not even the header is whole.
    """

    def __init__(self, message: str, *, received: int, expected: int | None) -> None:
        super().__init__(message)
        self.received = received
        self.expected = expected


class MalformedMessageError(FrameError):
    """A frame that is no ServerMessage, or one that is no answer to what was asked."""


class DaemonUnreachableError(CrabTalkError):
    """There is no connection to the daemon; nothing was asked of it."""


class DaemonClosedError(CrabTalkError):
    """The daemon closed the connection where it owed an answer. It may have done what it was asked.

    Attributes:
        doing: what was asked, as the protocol has it: ``stream``, ``create_agent``.
    """

    def __init__(self, message: str, *, doing: str) -> None:
        super().__init__(message)
        self.doing = doing


class DaemonTimeoutError(CrabTalkError, TimeoutError):
    """The daemon did not answer in time. It may still do what it was asked.

    Attributes:
        doing: what was asked, as the protocol has it. waited: seconds.
    """

    def __init__(self, message: str, *, doing: str, waited: float) -> None:
        super().__init__(message)
        self.doing = doing
        self.waited = waited


class DaemonRefusedError(CrabTalkError):
    """The daemon answered with an ErrorMsg.

    Attributes:
        code: 400 (nothing was asked), 404 (there is no such thing), 410 (no longer done) or 500 (all else).
        reason: the daemon's words.
        doing: what was asked, as the protocol has it.
    """

    def __init__(self, code: int, reason: str, *, doing: str) -> None:
        super().__init__(f"{doing}: the daemon says {code}, {reason.strip() or 'without a reason'}")
        self.code = code
        self.reason = reason
        self.doing = doing


class DaemonNotFoundError(DaemonRefusedError):
    """404: no such session, agent or job, or no question that waits for an answer."""


class AgentRunError(CrabTalkError):
    """An agent's run failed: its provider said no, or is away, or there is no such session.

    Attributes:
        reason: the daemon's words; empty where it has none, see :meth:`curb_client.crabtalk.CrabTalkClient.send`.
        agent, session, provider, model: of the run, as far as the daemon told; session None where it did not.
    """

    def __init__(
        self, message: str, *, reason: str, agent: str, session: int | None, provider: str = "", model: str = ""
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.agent = agent
        self.session = session
        self.provider = provider
        self.model = model


class PackageError(CrabTalkError):
    """The daemon could not install or remove a package.

    Attributes:
        package: its name. reason: the daemon's words.
    """

    def __init__(self, package: str, reason: str) -> None:
        super().__init__(f"the package {package!r}: {reason}")
        self.package = package
        self.reason = reason


class RoomLostError(CrabTalkError):
    """A gateway is no longer in its room: another participant took its identity, the room ended, or LiveKit is gone.

    Attributes:
        reason: LiveKit's name for it, ``DUPLICATE_IDENTITY`` for example.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class CrabDaemonError(CrabTalkError):
    """The test kit could not get, start or reach a daemon; the message ends with its last output."""
