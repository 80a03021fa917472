/** The names, codes and limits of the protocol, as in curb_client/protocol/contract.py. Times are milliseconds. */

export const MESSAGE = "curb.message";
export const UPDATE = "curb.update";
export const READY_ATTRIBUTE = "curb.ready";
export const AVATAR_ATTRIBUTE = "lk.publish_on_behalf";
export const AGENT_KIND = 4;

export const MAX_KEY_LENGTH = 256;
export const MAX_ID_LENGTH = 128;
export const MAX_REQUEST_BYTES = 15_360;
export const MAX_MESSAGE_BYTES = 4_194_304;
/** Of messages that are not whole yet, together. */
export const MAX_OPEN_BYTES = 16_777_216;
export const MAX_OPEN_MESSAGES = 1024;
/** Of messages that no handler took, each counted by its key. */
export const MAX_COUNTED_KEYS = 1024;
export const MAX_DEPTH = 200;
export const MAX_TIMEOUT_MS = 86_400_000;

export const AGENT_WAIT_MS = 10_000;
export const EXCHANGE_MS = 15_000;
export const OVERTAKE_MS = 2_000;

/** LiveKit's numbers for its own RPC errors. */
export const UNSUPPORTED_METHOD = 1400;
export const CONNECTION_TIMEOUT = 1501;
export const RESPONSE_TIMEOUT = 1502;
export const RECIPIENT_DISCONNECTED = 1503;

export type RefusalCode =
  | "no_handler"
  | "invalid_payload"
  | "handler_failed"
  | "not_adjustable"
  | "invalid_settings"
  | "payload_too_large";
