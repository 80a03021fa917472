/** Awaiting the agent's messages, on top of `on`. */

import { MAX_TIMEOUT_MS } from "./contract.js";
import { AgentUnavailableError, ClosedError, MessageTimeoutError } from "./errors.js";
import { closedError } from "./presence.js";
import type { AgentClient, CallOptions, ListenOptions, MessageMeta } from "./types.js";
import { checkTimeout, now, within } from "./waiting.js";

/** Why no message can come any more, if so. */
const endOf = ({ presence: { state } }: AgentClient, started: number): Error | undefined =>
  state === "closed"
    ? closedError()
    : state === "lost"
      ? new AgentUnavailableError("the room was disconnected; connect it again", { state, waitedMs: now() - started })
      : undefined;

const firstMessage = <T>(agent: AgentClient, key: string, { timeoutMs, signal }: CallOptions): Promise<T> => {
  const ms = checkTimeout(timeoutMs);
  const started = now();
  return within<T>(
    ms,
    signal,
    (resolve, reject) => {
      const stop = agent.on(key, (payload) => {
        stop(); // the next one is for others, be it in the same breath
        resolve(payload as T);
      });
      const check = () => {
        const error = endOf(agent, started);
        if (error) reject(error);
      };
      check();
      const unwatch = agent.onPresence(check);
      return () => {
        stop();
        unwatch();
      };
    },
    () => new MessageTimeoutError(`no message "${key}" within ${ms} ms; the agent is ${agent.presence.state}`),
  );
};

/**
 * The payload of the agent's next message with this key; listens from the call on, not from the await, so an answer that
 * overtakes its request's reply is not missed. The default time is 10 s.
 *
 * Rejects with `MessageTimeoutError`, `AgentUnavailableError` (room lost), `ClosedError`, `InvalidKeyError` or
 * `InvalidTimeoutError`. A rejection that nobody awaits is not reported as unhandled.
 */
export const waitFor = <T = unknown>(agent: AgentClient, key: string, options: CallOptions = {}): Promise<T> => {
  const waiting = (async () => firstMessage<T>(agent, key, options))();
  waiting.catch(() => {}); // it may be given up before it is awaited
  return waiting;
};

/**
 * The agent's messages with this key from this call on, for one `for await`; they wait in memory until then. Ends when
 * the client is closed, the loop is left or `return` is called, throws the signal's reason when aborted and
 * `AgentUnavailableError` when the room is lost. Throws `InvalidKeyError` and `ClosedError` at once.
 */
export const messages = <T = unknown>(
  agent: AgentClient,
  key: string,
  { signal }: ListenOptions = {},
): AsyncGenerator<[payload: T, meta: MessageMeta], void, void> => {
  const queue: [T, MessageMeta][] = [];
  const started = now();
  let wake = () => {};
  const stop = agent.on(
    key,
    (payload, meta) => {
      queue.push([payload as T, meta]);
      wake();
    },
    { signal },
  );
  const all: AsyncGenerator<[payload: T, meta: MessageMeta], void, void> = (async function* () {
    try {
      for (;;) {
        for (let message = queue.shift(); message; message = queue.shift()) yield message;
        const error = endOf(agent, started);
        if (error instanceof ClosedError) return;
        if (error) throw error;
        await within<unknown>(MAX_TIMEOUT_MS, signal, (resolve) => {
          wake = resolve as () => void;
          return agent.onPresence(resolve);
        });
      }
    } finally {
      stop();
    }
  })();
  const end = all.return;
  // Before the first next(), a generator's own return runs none of its code.
  all.return = (value) => {
    stop();
    return end.call(all, value);
  };
  return all;
};
