"""The names, codes and limits of the protocol, each in one place.

Marked [S] where the protocol texts state them, [I] where they were inferred because a table was lost: should the
real value become known, it changes here and nowhere else. Units: bytes of UTF-8, seconds.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

# Names on the wire.
MESSAGE: Final = "curb.message"  # [S] the RPC method of a client's messages, and the topic of the agent's
UPDATE: Final = "curb.update"  # [S] the RPC method of a settings update
READY_ATTRIBUTE: Final = "curb.ready"  # [I] set by an agent once both methods are registered
READY_VALUE: Final = "1"  # [I]
AVATAR_ATTRIBUTE: Final = "lk.publish_on_behalf"  # LiveKit's mark of an avatar worker, which is not the agent

# Sizes.
MAX_KEY_LENGTH: Final = 256  # [S] UTF-16 units when sending, code points when receiving
MAX_ID_LENGTH: Final = 128  # [S] characters
MAX_REQUEST_BYTES: Final = 15 * 1024  # [S] of the JSON text of an RPC payload
MAX_REFUSAL_DATA_BYTES: Final = 15 * 1024  # LiveKit cuts an RPC error's data there
MAX_SAFE_INTEGER: Final = 2**53 - 1  # beyond it a JavaScript peer reads another number
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
