/** The caller's side of a call: a client of the agent in a LiveKit room (host protocol, Client side and curb/client). */

import {
  EXCHANGE_MS,
  MAX_COUNTED_KEYS,
  MESSAGE,
  RECIPIENT_DISCONNECTED,
  RESPONSE_TIMEOUT,
  UNSUPPORTED_METHOD,
  UPDATE,
} from "./contract.js";
import {
  type AgentMessage,
  checkKey,
  decodeRefusal,
  decodeReply,
  decodeSettings,
  encodeRequest,
  encodeUpdate,
} from "./envelope.js";
import { isRpcError, RoomInUseError, type RpcErrorClass, UsageError } from "./errors.js";
import { makeInbox } from "./inbox.js";
import { watchAgent } from "./presence.js";
import type { RoomLike } from "./room.js";
import type {
  AgentClient,
  CallOptions,
  ConnectOptions,
  ListenOptions,
  MessageCounts,
  MessageHandler,
  RequestOptions,
} from "./types.js";
import { callSafely, checkTimeout, now, within } from "./waiting.js";

const UNREGISTERED_PAUSE_MS = 100;
const LAST_TRY_MS = 250;
const SDK_KEEPS_MS = 7_000; // rtc-node gives the other side that much less than it is told
const MOST_WARNINGS = 1000;

/** A UUID4; on a page that is neither https nor localhost, where there are none, another text that does not repeat. */
const newId = (): string => crypto.randomUUID?.() ?? `${Math.random()}`;

/**
 * Throws `RoomInUseError` when the room has a client, or another handler of the topic `curb.message`.
 *
 * @param closing is aborted when the client is closed.
 */
export function makeClient(
  room: RoomLike,
  { agentIdentity }: ConnectOptions,
  RpcError: RpcErrorClass,
  closing = new AbortController(),
): AgentClient {
  const counts: MessageCounts = {
    malformed: 0,
    incomplete: 0,
    overLimit: 0,
    foreign: 0,
    late: 0,
    unhandled: new Map(),
  };
  const told = new Set<string>();
  /** By what ends them. */
  const listeners = new Map<() => void, [key: string, handler: MessageHandler]>();

  const warn = (text: string): void => {
    if (told.size >= MOST_WARNINGS || told.has(text)) return;
    told.add(text);
    console.warn(`curb-client: ${text}`);
  };

  const deliver = ({ key, id, payload }: AgentMessage, senderIdentity: string): void => {
    const all = [...listeners.values()].filter(([of]) => of === key);
    for (const [, handler] of all) void callSafely(handler, payload, { id, senderIdentity });
    if (all[0]) return;
    const { unhandled } = counts;
    const name = unhandled.has(key) || unhandled.size < MAX_COUNTED_KEYS ? key : "";
    unhandled.set(name, (unhandled.get(name) ?? 0) + 1);
    warn(`the agent's message "${key}" is dropped; add agent.on("${key}", ...)`);
  };

  const watch = watchAgent(room, agentIdentity);
  try {
    room.registerTextStreamHandler(
      MESSAGE,
      makeInbox(room, watch.isAgent_, watch.change_, deliver, counts, warn, closing.signal),
    );
  } catch {
    watch.close_();
    throw new RoomInUseError(`${MESSAGE} is taken; close() the room's other client`);
  }

  // Requests

  const request = async (method: string, payload: string, { timeoutMs, signal }: CallOptions): Promise<string> => {
    const started = now();
    const until = started + checkTimeout(timeoutMs);
    for (;;) {
      const agent = await watch.agent_(until - now(), method, signal);
      const ms = timeoutMs === undefined ? EXCHANGE_MS : Math.max(0, until - now());
      try {
        const answer = await within<string>(
          ms,
          signal,
          (resolve, reject) => {
            const responseTimeout = Math.ceil(ms) + SDK_KEEPS_MS; // a fraction ends the process
            room.localParticipant
              ?.performRpc({ destinationIdentity: agent.identity, method, payload, responseTimeout })
              .then(resolve, reject);
            return watch.follow_(({ state }) => {
              if (state === "closed") reject(watch.unavailable_(started, method));
              if (state === "lost") reject(new RpcError(RECIPIENT_DISCONNECTED, "Recipient disconnected"));
            });
          },
          () => new RpcError(RESPONSE_TIMEOUT, "Response timeout"),
        );
        watch.answered_(agent);
        return answer;
      } catch (error) {
        if (!isRpcError(error)) throw error;
        const refused = decodeRefusal(error);
        if (!refused && error.code !== UNSUPPORTED_METHOD) throw error;
        watch.answered_(refused && agent);
        if (refused) throw refused;
      }
      const left = until - now() - LAST_TRY_MS; // in less, a try may end in 1502, which hides the cause
      if (left <= 0) throw watch.unavailable_(started, method, "active");
      await watch.change_(Math.min(UNREGISTERED_PAUSE_MS, left), signal); // nothing ran: asking again is safe
    }
  };

  const ask = async <T>(key: string, payload: unknown = {}, options: RequestOptions = {}): Promise<T> =>
    decodeReply(await request(MESSAGE, encodeRequest(key, options.messageId ?? newId(), payload), options)) as T;

  // The agent's messages

  const on = (key: string, handler: MessageHandler, { signal }: ListenOptions = {}): (() => void) => {
    checkKey(key);
    if (typeof handler !== "function") throw new UsageError("handler must be a function");
    if (closing.signal.aborted) throw watch.unavailable_(0, MESSAGE);
    const stop = () => {
      listeners.delete(stop);
      signal?.removeEventListener("abort", stop); // it may outlive the client
    };
    if (signal?.aborted) return stop;
    signal?.addEventListener("abort", stop);
    listeners.set(stop, [key, handler]);
    return stop;
  };

  return {
    counts,
    on,
    ask,

    async send(...request) {
      await ask(...request);
    },

    update: async (settings, options = {}) => decodeSettings(await request(UPDATE, encodeUpdate(settings), options)),

    get presence() {
      return watch.presence_();
    },

    onPresence: (callback) => watch.onChange_((presence) => void callSafely(callback, presence)),

    close() {
      if (closing.signal.aborted) return;
      room.unregisterTextStreamHandler(MESSAGE);
      closing.abort();
      watch.close_();
      for (const stop of listeners.keys()) stop();
    },
  } as AgentClient;
}
