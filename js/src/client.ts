/** The caller's side of a call: a client of the agent in a LiveKit room (host protocol, Client side and curb/client). */

import { MAX_COUNTED_KEYS, MESSAGE, UPDATE } from "./contract.js";
import { type AgentMessage, checkKey, decodeReply, decodeSettings, encodeRequest, withinLimit } from "./envelope.js";
import { RoomInUseError, type RpcErrorClass, UsageError } from "./errors.js";
import { type Count, makeInbox } from "./inbox.js";
import { encodeJson } from "./jsonText.js";
import { closedError, watchAgent } from "./presence.js";
import { makeRequest } from "./requests.js";
import type { RoomLike } from "./room.js";
import type {
  AgentClient,
  ConnectOptions,
  ListenOptions,
  MessageCounts,
  MessageHandler,
  RequestOptions,
} from "./types.js";
import { safely } from "./waiting.js";

const MOST_WARNINGS = 1024;

/** Returns something truthy if it took the message. */
type Listener = (key: string, ...message: Parameters<MessageHandler>) => unknown;

/**
 * Throws `RoomInUseError` when the room has a client, or another handler of the topic `curb.message`.
 *
 * @param closing is aborted when the client is closed.
 */
export const makeClient = (
  room: RoomLike,
  { agentIdentity }: ConnectOptions,
  RpcError: RpcErrorClass,
  closing = new AbortController(),
): AgentClient => {
  const { signal: closed } = closing;
  const counts: MessageCounts = {
    malformed: 0,
    incomplete: 0,
    overLimit: 0,
    foreign: 0,
    late: 0,
    unhandled: new Map(),
  };
  const told = new Set<string>();
  const listeners = new Set<Listener>();

  const warn = (text: string): void => {
    if (told.size >= MOST_WARNINGS || told.has(text)) return;
    told.add(text);
    console.warn(`curb-client: ${text}`);
  };

  const count: Count = (what, text) => {
    counts[what]++;
    warn(text);
  };

  const deliver = ({ key, id, payload }: AgentMessage, senderIdentity: string): void => {
    if ([...listeners].filter((listener) => listener(key, payload, { id, senderIdentity }))[0]) return;
    const unhandled = counts.unhandled;
    const name = unhandled.has(key) || unhandled.size < MAX_COUNTED_KEYS ? key : "";
    unhandled.set(name, (unhandled.get(name) ?? 0) + 1);
    warn(`a message "${key}" is dropped; add agent.on("${key}")`);
  };

  const watch = watchAgent(room, agentIdentity, closed);
  try {
    room.registerTextStreamHandler(MESSAGE, makeInbox(room, watch, deliver, count, closed));
  } catch {
    closing.abort();
    throw new RoomInUseError(`${MESSAGE} is taken; close the other client`);
  }

  const request = makeRequest(room, watch, RpcError);

  const ask = async <T>(
    key: string,
    payload: unknown = {},
    options: RequestOptions = {},
    decode: (answer: string) => unknown = decodeReply,
  ): Promise<T> =>
    decode(
      await request(
        MESSAGE,
        // A page that is neither https nor localhost has no UUIDs.
        encodeRequest(key, options.messageId ?? crypto.randomUUID?.() ?? `${Math.random()}`, payload),
        options,
      ),
    ) as T;

  // The agent's messages

  const on = (key: string, handler: MessageHandler, { signal }: ListenOptions = {}): (() => void) => {
    checkKey(key);
    if (typeof handler !== "function") throw new UsageError("handler must be a function");
    if (closed.aborted) throw closedError();
    // Taken out by the next message once it is aborted, so that nothing stays behind at a signal that lives on.
    const listener: Listener = (of, payload, meta) =>
      signal?.aborted ? !listeners.delete(listener) : of === key && safely(() => handler(payload, meta));
    listeners.add(listener);
    return () => listeners.delete(listener);
  };

  return {
    counts,
    on,
    ask,

    send: (key, payload, options) => ask(key, payload, options, () => {}),

    update: async (settings, options = {}) =>
      decodeSettings(await request(UPDATE, withinLimit(encodeJson(settings)), options)),

    get presence() {
      return watch.presence_();
    },

    onPresence: (callback) => watch.onChange_((presence) => safely(() => callback(presence))),

    close() {
      if (closed.aborted) return;
      room.unregisterTextStreamHandler(MESSAGE);
      closing.abort();
    },
  } as AgentClient;
};
