/** A room that the test directs: LiveKit's interface as far as the client uses it, without a network. */

import { RpcError } from "livekit-client";
import type { RemoteParticipantLike, TextReader } from "../src/room.js";

export interface Request {
  destinationIdentity: string;
  method: string;
  payload: string;
  responseTimeout?: number;
}

export interface Participant extends RemoteParticipantLike {
  attributes: Record<string, string>;
  participantInfo: { state: number; joinedAtMs: bigint };
}

let visits = 0;

export const participant = (identity = "agent", given: Partial<Participant> = {}): Participant => ({
  identity,
  kind: 4,
  attributes: {},
  participantInfo: { state: 2, joinedAtMs: BigInt(++visits) },
  ...given,
});

type Listener = (...args: unknown[]) => void;
type TextHandler = (reader: TextReader, sender: { identity: string }) => void;

/** A text stream that the test writes chunk by chunk. */
export class Stream implements TextReader {
  closed = false;
  private readonly parts: (IteratorResult<string> | Error)[] = [];
  private wake = () => {};

  constructor(readonly info = { id: `stream-${++visits}` }) {}

  write(chunk: string): this {
    this.parts.push({ value: chunk, done: false });
    this.wake();
    return this;
  }

  end(error?: Error): this {
    this.parts.push(error ?? { value: undefined, done: true });
    this.wake();
    return this;
  }

  get unread(): number {
    return this.parts.length;
  }

  [Symbol.asyncIterator](): AsyncIterator<string> {
    return {
      next: async (): Promise<IteratorResult<string>> => {
        while (!this.parts[0])
          await new Promise<void>((resolve) => {
            this.wake = resolve;
          });
        const part = this.parts.shift() as IteratorResult<string> | Error;
        if (part instanceof Error) throw part;
        return part;
      },
      return: async () => {
        this.closed = true;
        return { value: undefined, done: true };
      },
    };
  }
}

export class FakeRoom {
  state = "connected";
  readonly remoteParticipants = new Map<string, Participant>();
  readonly requests: Request[] = [];
  /** Answers the requests; by default a reply of what was sent. */
  answer: (request: Request) => Promise<string> | string = ({ payload }) =>
    JSON.stringify({ reply: JSON.parse(payload).payload });
  readonly handlers = new Map<string, TextHandler>();
  private readonly listeners = new Map<string, Set<Listener>>();

  readonly localParticipant = {
    identity: "caller",
    performRpc: async (request: Request): Promise<string> => {
      if (!Number.isInteger(request.responseTimeout)) throw new Error(`invalid uint 32: ${request.responseTimeout}`);
      this.requests.push(request);
      return this.answer(request);
    },
  };

  on(event: string, listener: Listener): this {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(listener));
    return this;
  }

  off(event: string, listener: Listener): this {
    this.listeners.get(event)?.delete(listener);
    return this;
  }

  get listening(): number {
    return [...this.listeners.values()].reduce((sum, all) => sum + all.size, this.handlers.size);
  }

  happens(event: string, ...args: unknown[]): void {
    for (const listener of [...(this.listeners.get(event) ?? [])]) listener(...args);
  }

  registerTextStreamHandler(topic: string, handler: TextHandler): void {
    if (this.handlers.has(topic))
      throw new TypeError(`A text stream handler for topic "${topic}" has already been set.`);
    this.handlers.set(topic, handler);
  }

  unregisterTextStreamHandler(topic: string): void {
    this.handlers.delete(topic);
  }

  join(who: Participant | string = "agent"): Participant {
    const joined = typeof who === "string" ? participant(who) : who;
    this.remoteParticipants.set(joined.identity, joined);
    this.happens("participantConnected", joined);
    return joined;
  }

  leave(identity = "agent"): void {
    const left = this.remoteParticipants.get(identity);
    this.remoteParticipants.delete(identity);
    this.happens("participantDisconnected", left);
  }

  setState(state: string): void {
    this.state = state;
    this.happens("connectionStateChanged", state);
  }

  disconnect(reason = 5): void {
    this.setState("disconnected");
    this.remoteParticipants.clear();
    this.happens("disconnected", reason);
  }

  open(identity = "agent", stream = new Stream()): Stream {
    this.handlers.get("curb.message")?.(stream, { identity });
    return stream;
  }

  say(message: object | string, identity = "agent"): Stream {
    return this.open(identity)
      .write(typeof message === "string" ? message : JSON.stringify(message))
      .end();
  }
}

export const refusal = (code: string, data?: object): RpcError =>
  new RpcError(4220, code, data && JSON.stringify(data));
