"""The names, codes and limits of the protocol, each in one place.

Marked [S] where the protocol texts state them, [I] where they were inferred because a table was lost: should the
real value become known, it changes here and nowhere else. Units: bytes of UTF-8, seconds.

The room's part comes first, the host protocol's after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal

# Names on the wire.
MESSAGE: Final = "curb.message"  # [S] the RPC method of a client's messages, and the topic of the agent's
UPDATE: Final = "curb.update"  # [S] the RPC method of a settings update
READY_ATTRIBUTE: Final = "curb.ready"  # [I] set by an agent once both methods are registered
READY_VALUE: Final = "1"  # [I]
CHAT_TOPIC: Final = "lk.chat"  # LiveKit's, of what people type
TRANSCRIPTION_TOPIC: Final = "lk.transcription"  # LiveKit's, of what agents say
AVATAR_ATTRIBUTE: Final = "lk.publish_on_behalf"  # LiveKit's mark of an avatar worker, which is not the agent

# Sizes.
MAX_KEY_LENGTH: Final = 256  # [S] UTF-16 units when sending, code points when receiving
MAX_ID_LENGTH: Final = 128  # [S] characters
MAX_REQUEST_BYTES: Final = 15 * 1024  # [S] of the JSON text of an RPC payload
MAX_REFUSAL_DATA_BYTES: Final = 15 * 1024  # LiveKit cuts an RPC error's data there
MAX_CODE_LENGTH: Final = 256  # characters; LiveKit cuts an RPC error's message there
MAX_SAFE_INTEGER: Final = 2**53 - 1  # beyond it a JavaScript peer reads another number
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024  # [I] of an agent's message, as a client takes it
MAX_OPEN_BYTES: Final = 16 * 1024 * 1024  # [I] of an agent's messages that are not whole yet, together
MAX_OPEN_MESSAGES: Final = 1024  # [I] of them at once
MAX_COUNTED_KEYS: Final = 1024  # [I] of messages that no handler took, each counted by its key
MAX_DEPTH: Final = 200  # [I] of arrays and objects inside each other

# Times.
AGENT_WAIT_SECONDS: Final = 10.0  # [S] how long a call waits for the agent to join
EXCHANGE_SECONDS: Final = 15.0  # [I] for the exchange itself, longer than the agent's own hold
EARLY_REQUEST_SECONDS: Final = 10.0  # [S] how long an agent holds a request that came before it was ready
OVERTAKE_SECONDS: Final = 2.0  # [I] how long a complete message waits for an earlier one that is not
ASK_HOST_SECONDS: Final = 10.0  # [S]

REMEMBERED_REQUESTS: Final = 1024  # [I] answers an agent keeps per call for repeated ids

# Refusals over LiveKit RPC. LiveKit keeps 1001 to 1999 for itself.
REFUSAL_NUMBER: Final = 4220  # [I]
LIVEKIT_RESERVED_NUMBERS: Final = range(1001, 2000)


class RefusalCode(str, Enum):
    """Why a request was refused [S]; on the wire it is the message of the RPC error."""

    NO_HANDLER = "no_handler"
    INVALID_PAYLOAD = "invalid_payload"
    HANDLER_FAILED = "handler_failed"
    NOT_ADJUSTABLE = "not_adjustable"
    INVALID_SETTINGS = "invalid_settings"
    PAYLOAD_TOO_LARGE = "payload_too_large"


Sender = Literal["client", "host"]
"""Who sent a message, and whose change of the settings it is [S]: stamped by the transport, never by the payload."""

SENDERS: Final[tuple[Sender, ...]] = ("client", "host")

AdjustablePath = Literal["tts.voice", "tts.model", "stt.language", "llm"]
"""A setting that may be made adjustable during a call [S]."""

ADJUSTABLE_PATHS: Final[tuple[AdjustablePath, ...]] = ("tts.voice", "tts.model", "stt.language", "llm")
LLM_PROVIDERS: Final = ("kugelaudio", "anthropic", "openai", "openai-compatible")  # [S]

# Host protocol: version, ready line, requests.
PROTOCOL_VERSION: Final = 1  # [S]
PROTOCOL_VERSIONS: Final = (1,)  # [S] all that this library speaks
LIFECYCLE_PREFIX: Final = "curb-hosted "  # [S] begins the line on stdout that tells a lifecycle record
MAX_GRACE_MS: Final = 60_000  # [S]
HELD_MESSAGES: Final = 32  # [S] to a call that is still starting

CallState = Literal["starting", "connected", "ending", "ended"]
"""How far a call is [S]."""

CallDirection = Literal["inbound", "outbound"]
"""Who dialed: the caller or the host [S]."""

# Host protocol: event stream.
HEARTBEAT_SECONDS: Final = 15.0  # [S] between the pings of an idle stream
RETAINED_RECORDS: Final = 4096  # [S] how many records a runner holds, by default
MAX_KEPT_BYTES: Final = 4 * 1024  # [S] of the JSON text of a payload or reply on record
MAX_LINE_BYTES: Final = 16 * 1024 * 1024  # [I] of a line on the stream, without its end
MAX_SKIPPED_CLASSES: Final = 64  # [I] names of unknown classes that are counted apart
REMEMBERED_PRODUCERS: Final = 1024  # [I] whose records are known again when repeated
REMEMBERED_RANGES: Final = 64  # [I] of such records, per producer

RUNNER_PRODUCER: Final = "runner"  # [S] of the runner's own records; a call's are its session id's
LIFECYCLE_CLASS: Final = "lifecycle"  # [S]
HOST_CLASS: Final = "host"  # [S]
CONVERSATION_CLASS: Final = "conversation"  # [I]
KNOWN_CLASSES: Final = (LIFECYCLE_CLASS, HOST_CLASS, CONVERSATION_CLASS)

EVENT_STARTED: Final = "curb.started"  # [I]
EVENT_ENDED: Final = "curb.ended"  # [S] the last record of a call's conversation
EVENT_MESSAGES: Final = "curb.messages"  # [S]
EVENT_MESSAGE: Final = "curb.message"  # [I]
EVENT_SETTINGS: Final = "curb.settings"  # [I]

TurnRole = Literal["user", "assistant"]
"""Who spoke [I]; a reader takes others too."""

MessageDirection = Literal["fromClient", "toClient", "fromHost", "toHost"]
"""Which way an app message on record went, seen from the agent [I]; a reader takes others too."""

EndReason = Literal["completed", "stopped", "caller_left", "join_failed", "room_lost", "agent_error", "runner_shutdown"]
"""Why a call ended [I], unless the host's stop named its own reason; a reader takes others too."""

# Host protocol: transfer.
TRANSFER_START: Final = "curb.transfer.start"  # [I]
TRANSFER_CANCEL: Final = "curb.transfer.cancel"  # [I]
TRANSFER_NO_REPLY: Final = "transfer_no_reply"  # [S] the code where the host did not answer in time
TRANSFER_SECONDS: Final = 60.0  # [I]


class ErrorCode(str, Enum):
    """Why a runner says no [S]: ``error`` in the body of every answer that is no success."""

    UNAUTHORIZED = "unauthorized"
    UNKNOWN_VERSION = "unknown_version"
    NOT_FOUND = "not_found"
    INVALID_REQUEST = "invalid_request"
    SESSION_NOT_FOUND = "session_not_found"
    RUNNER_AT_CAPACITY = "runner_at_capacity"
    GENERATION_MISMATCH = "generation_mismatch"
    RUNNER_DRAINING = "runner_draining"
    START_FAILED = "start_failed"
    RUNNER_TAKES_NO_CALLS = "runner_takes_no_calls"
    CURSOR_TOO_OLD = "cursor_too_old"
    NO_JOURNAL = "no_journal"
    INTERNAL = "internal"
    NO_HANDLER = "no_handler"
    INVALID_PAYLOAD = "invalid_payload"
    HANDLER_FAILED = "handler_failed"
    NOT_ADJUSTABLE = "not_adjustable"
    INVALID_SETTINGS = "invalid_settings"


STATUS_BY_CODE: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.UNAUTHORIZED: 401,  # [S]
    ErrorCode.UNKNOWN_VERSION: 404,  # [S]
    ErrorCode.NOT_FOUND: 404,  # [S]
    ErrorCode.INVALID_REQUEST: 400,  # [S]
    ErrorCode.SESSION_NOT_FOUND: 404,  # [S]
    ErrorCode.RUNNER_AT_CAPACITY: 409,  # [S]
    ErrorCode.GENERATION_MISMATCH: 409,  # [S]
    ErrorCode.RUNNER_DRAINING: 503,  # [S]
    ErrorCode.START_FAILED: 502,  # [I]
    ErrorCode.RUNNER_TAKES_NO_CALLS: 501,  # [S]
    ErrorCode.CURSOR_TOO_OLD: 410,  # [S]
    ErrorCode.NO_JOURNAL: 501,  # [I]
    ErrorCode.INTERNAL: 500,  # [I]
    ErrorCode.NO_HANDLER: 422,  # [S]
    ErrorCode.INVALID_PAYLOAD: 422,  # [S]
    ErrorCode.HANDLER_FAILED: 422,  # [S]
    ErrorCode.NOT_ADJUSTABLE: 403,  # [S]
    ErrorCode.INVALID_SETTINGS: 422,  # [S]
}
