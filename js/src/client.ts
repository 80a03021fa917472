/** The caller's side of a call: a client of the agent in a LiveKit room (host protocol, Client side and curb/client). */

import {
  AGENT_WAIT_MS,
  EXCHANGE_MS,
  MAX_TIMEOUT_MS,
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
import {
  ClosedError,
  InvalidTimeoutError,
  isRpcError,
  MessageTimeoutError,
  RoomInUseError,
  type RpcErrorClass,
  UsageError,
} from "./errors.js";
import { openInbox } from "./inbox.js";
import { watchAgent } from "./presence.js";
import type { RoomLike } from "./room.js";
import { fit } from "./schema.js";
import type {
  AgentClient,
  CallOptions,
  ConnectOptions,
  ListenOptions,
  MessageCounts,
  MessageHandler,
  MessageMeta,
  RequestOptions,
  StandardSchema,
} from "./types.js";
import { addTo, callSafely, now, report, within } from "./waiting.js";

const UNREGISTERED_PAUSE_MS = 100;
const LAST_TRY_MS = 250;
const SDK_KEEPS_MS = 7_000; // rtc-node gives the other side that much less than it is told
const MOST_WARNINGS = 1000;

/** On the room itself, so that two copies of this package on a page know of each other. */
const MARK = Symbol.for("curb-client");

const checkTimeout = (ms: number | undefined): number => {
  if (ms === undefined) return AGENT_WAIT_MS;
  if (typeof ms === "number" && ms >= 0 && ms <= MAX_TIMEOUT_MS) return ms;
  throw new InvalidTimeoutError(`timeoutMs is ${String(ms)}; it must be a number from 0 to ${MAX_TIMEOUT_MS}`);
};

/** A UUID4; on a page that is neither https nor localhost, where there are none, another text that does not repeat. */
const newId = (): string => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;

/** Throws `RoomInUseError` when the room has a client, or another handler of the topic `curb.message`. */
export function makeClient(room: RoomLike, { agentIdentity }: ConnectOptions, RpcError: RpcErrorClass): AgentClient {
  const marked = room as { [MARK]?: boolean };
  if (marked[MARK]) throw new RoomInUseError("the room has a client already; close() that one first, or use it");

  const counts: MessageCounts = { malformed: 0, incomplete: 0, foreign: 0, late: 0, unhandled: new Map() };
  const closing = new AbortController();
  const told = new Set<string>();
  const handlers = new Map<string, Set<(payload: unknown, meta: MessageMeta) => void>>();
  const stops = new Set<() => void>();
  const exchanges = new Set<(error: Error) => void>();

  const warn = (text: string): void => {
    if (told.size >= MOST_WARNINGS || told.has(text)) return;
    told.add(text);
    console.warn(`curb-client: ${text}`);
  };

  const endExchanges = (error: Error): void => {
    for (const reject of [...exchanges]) reject(error);
  };

  const watch = watchAgent(room, agentIdentity, () =>
    endExchanges(new RpcError(RECIPIENT_DISCONNECTED, "Recipient disconnected")),
  );

  const deliver = ({ key, id, payload }: AgentMessage, senderIdentity: string): void => {
    const all = [...(handlers.get(key) ?? [])];
    for (const handler of all) handler(payload, { id, senderIdentity });
    if (all[0]) return;
    counts.unhandled.set(key, (counts.unhandled.get(key) ?? 0) + 1);
    warn(`the agent's message "${key}" has no handler and is dropped; add agent.on("${key}", ...)`);
  };

  try {
    openInbox(room, watch.isAgent, deliver, counts, warn, closing.signal);
  } catch (error) {
    watch.close();
    throw error;
  }
  marked[MARK] = true;

  // Requests

  const request = async (method: string, payload: string, { timeoutMs, signal }: CallOptions): Promise<string> => {
    const started = now();
    const until = started + checkTimeout(timeoutMs);
    for (;;) {
      const agent = await watch.agent(until, method, signal);
      const ms = timeoutMs === undefined ? EXCHANGE_MS : until - now();
      try {
        const answer = await within<string>(
          ms,
          signal,
          (resolve, reject) => {
            const responseTimeout = Math.ceil(Math.max(ms, 0)) + SDK_KEEPS_MS; // a fraction ends the process
            room.localParticipant
              ?.performRpc({ destinationIdentity: agent.identity, method, payload, responseTimeout })
              .then(resolve, reject);
            return addTo(exchanges, reject);
          },
          () => new RpcError(RESPONSE_TIMEOUT, "Response timeout"),
        );
        watch.answered(agent);
        return answer;
      } catch (error) {
        if (!isRpcError(error)) throw error;
        const refused = decodeRefusal(error);
        if (refused) watch.answered(agent);
        if (refused || error.code !== UNSUPPORTED_METHOD) throw refused ?? error;
      }
      watch.answered(undefined);
      const left = until - now() - LAST_TRY_MS; // in less, a try may end in 1502, which hides the cause
      if (left <= 0) throw watch.unavailable(now() - started, method, "active");
      await watch.change(Math.min(UNREGISTERED_PAUSE_MS, left), signal); // nothing ran: asking again is safe
    }
  };

  const ask = async <T>(
    key: string,
    payload: unknown = {},
    options: RequestOptions & { schema?: StandardSchema<T> } = {},
  ): Promise<T> => {
    const answer = await request(MESSAGE, encodeRequest(key, options.messageId ?? newId(), payload), options);
    return fit(options.schema, decodeReply(answer), `the reply to "${key}"`);
  };

  // The agent's messages

  const subscribe = (key: string, handler: (payload: unknown, meta: MessageMeta) => void): (() => void) => {
    checkKey(key);
    if (watch.presence.state === "closed") throw watch.end();
    const all = handlers.get(key) ?? new Set();
    handlers.set(key, all);
    const remove = addTo(all, handler);
    return () => {
      remove();
      if (!all.size && handlers.get(key) === all) handlers.delete(key); // keys may be made up for one wait each
    };
  };

  const on = <T>(key: string, handler: MessageHandler<T>, { schema, signal }: ListenOptions<T> = {}): (() => void) => {
    checkKey(key);
    if (typeof handler !== "function") throw new UsageError(`the handler of "${key}" is no function`);
    let fitted: Promise<void> | undefined; // a schema may take its time; the order stays
    const remove = subscribe(key, (payload, meta) => {
      if (!schema) return void callSafely(handler, payload as T, meta);
      fitted = Promise.resolve(fitted)
        .then(() => fit(schema, payload, `the message "${key}"`))
        .then((value) => void callSafely(handler, value, meta), report);
    });
    const stop = () => {
      remove();
      signal?.removeEventListener("abort", stop);
      stops.delete(stop);
    };
    stops.add(stop); // a signal may outlive the client
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    return stop;
  };

  /** Calls `end` when no message can come any more; returns what ends the watching. */
  const onEnd = (end: (error: Error) => void): (() => void) => {
    const check = () => {
      const error = watch.end();
      if (error) end(error);
    };
    check();
    return watch.onChange(check);
  };

  const waitFor = async <T>(
    key: string,
    { timeoutMs, signal, schema }: CallOptions & { schema?: StandardSchema<T> | undefined } = {},
  ): Promise<T> => {
    const ms = checkTimeout(timeoutMs);
    const payload = await within(
      ms,
      signal,
      (resolve, reject) => {
        const stop = subscribe(key, resolve);
        const unwatch = onEnd(reject);
        return () => {
          stop();
          unwatch();
        };
      },
      () =>
        new MessageTimeoutError(`no message "${key}" within ${ms} ms; the agent's state is ${watch.presence.state}`),
    );
    return fit(schema, payload, `the message "${key}"`);
  };

  const messages = <T>(key: string, { schema, signal }: ListenOptions<T> = {}) => {
    const queue: [T, MessageMeta][] = [];
    let wake = () => {};
    const take = (...message: [T, MessageMeta]) => {
      queue.push(message);
      wake();
    };
    const stop = on(key, take, { schema });
    const unwatch = watch.onChange(() => wake());
    return (async function* () {
      try {
        for (;;) {
          for (let message = queue.shift(); message; message = queue.shift()) yield message;
          const error = watch.end();
          if (error instanceof ClosedError) return;
          if (error) throw error;
          await within<void>(MAX_TIMEOUT_MS, signal, (resolve) => void (wake = resolve));
        }
      } finally {
        stop();
        unwatch();
      }
    })();
  };

  return {
    counts,
    on,
    messages,
    ask,

    async send(...request) {
      await ask(...request);
    },

    waitFor(...request) {
      const waiting = waitFor(...request);
      waiting.catch(() => {}); // it may be given up before it is awaited
      return waiting;
    },

    update: async (settings, options = {}) => decodeSettings(await request(UPDATE, encodeUpdate(settings), options)),

    get presence() {
      return watch.presence;
    },

    onPresence: (callback) => watch.onChange((presence) => void callSafely(callback, presence)),

    close() {
      if (watch.presence.state === "closed") return;
      delete marked[MARK];
      closing.abort();
      watch.close();
      endExchanges(new ClosedError("the client was closed while this request waited for the agent"));
      for (const stop of stops) stop();
    },
  } as AgentClient;
}
