import type { AgentState } from "./presence.js";

/** One thing wrong with a payload, a reply or an update. */
export interface Issue {
  /** Property names and array indexes; empty is the whole. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

export type LlmProvider = "kugelaudio" | "anthropic" | "openai" | "openai-compatible";

/** Settings to change, all or nothing (host protocol, Live session settings). */
export interface SessionUpdate {
  tts?: { voice?: string | number; model?: string };
  stt?: { language?: string };
  /** One setting, so provider and model belong together. */
  llm?: { provider: LlmProvider; model: string; baseURL?: string };
}

/** The settings in force, never a credential: the answer to an update. */
export interface EffectiveSettings {
  tts: { provider: string; voice?: string | number | null; model?: string | null };
  stt: { provider: string; language?: string | null };
  llm: { provider: string; model: string; baseURL?: string | null };
}

/** What the transport says about a message. */
export interface MessageMeta {
  /** The message's own, or that of its stream. */
  readonly id: string;
  /** The agent's identity. */
  readonly senderIdentity: string;
}

/** Whether the agent is there, for your UI; a new object for each change. */
export interface AgentPresence {
  /**
   * `unconnected` (the room is, or is being connected again), `absent`, `joined` (cannot receive data yet), `active`
   * (it can; whether its methods are registered is not known), `ready`, `lost` (the room was disconnected), `closed`
   * (this client is).
   */
  readonly state: AgentState;
  /** The agent's, or null while no agent is in the room. */
  readonly identity: string | null;
  /** Whether a request would be sent at once. */
  readonly isThere: boolean;
}

/** What came from the room and was not handed out as it came. */
export interface MessageCounts {
  /** Not JSON, or no message. */
  malformed: number;
  /** Streams that broke or stopped before their end. */
  incomplete: number;
  /** Larger than 4 MiB, or begun while 1,024 messages or 16 MiB of them were not whole yet. */
  overLimit: number;
  /** From somebody who is not the agent. */
  foreign: number;
  /** Handed out after messages that were sent later. */
  late: number;
  /** Whole messages that no handler took, by key; after 1,024 keys the others together, under `""`. */
  unhandled: Map<string, number>;
}

/** The part of Standard Schema (`~standard`) that is used: zod, valibot, arktype and others have it. */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export interface CallOptions {
  /** Milliseconds, 0 to a day. For a request one budget for waiting and exchange (default: 10 s, then 15 s). */
  timeoutMs?: number | undefined;
  /** Aborted: the call rejects with the signal's reason. What the agent took already goes on there. */
  signal?: AbortSignal | undefined;
}

export interface RequestOptions extends CallOptions {
  /** 1 to 128 characters, made up by default. A retry with the same id is not handled twice. */
  messageId?: string | undefined;
}

export interface ListenOptions {
  /** Aborted: the listening ends. */
  signal?: AbortSignal | undefined;
}

/** Called in the order in which the messages were sent. What it throws is reported, and disturbs nobody else. */
export type MessageHandler<T = unknown> = (payload: T, meta: MessageMeta) => unknown;

/** Sends messages to the agent and gets its messages. Made by `connectAgent`. */
export interface AgentClient {
  /**
   * Send a message; resolves once the agent took it, whatever it answers. Takes what `ask` does, and rejects with that,
   * `InvalidReplyError` excepted.
   */
  send(key: string, payload?: unknown, options?: RequestOptions): Promise<void>;

  /**
   * Send a message and get the agent's reply, null if there is none.
   *
   * @param key 1 to 256 UTF-16 units, used as it is.
   * @param payload any JSON value; `{}` when not given. Properties that are undefined are left out.
   *
   * Rejects with `InvalidKeyError`, `InvalidPayloadError`, `InvalidTimeoutError` or `UsageError` (the id), and with
   * `AgentRefusedError` `payload_too_large` (over 15,360 bytes), before anything is sent; `AgentRefusedError` when the
   * agent said no; `AgentUnavailableError` when no agent took it in time; `InvalidReplyError`; `ClosedError`; and
   * LiveKit's own `RpcError` when LiveKit could not carry it (1501: lost, 1502: no answer in time, 1503: disconnected).
   * What LiveKit has lost, as it says after 7 s, is sent again under the same id while it may wait for the agent.
   */
  ask<T = unknown>(key: string, payload?: unknown, options?: RequestOptions): Promise<T>;

  /** Handle the agent's messages with this key; returns what ends that. */
  on(key: string, handler: MessageHandler, options?: ListenOptions): () => void;

  /** Change settings of the call, all or nothing; resolves with those in force. Rejects with what `ask` does. */
  update(settings: SessionUpdate, options?: CallOptions): Promise<EffectiveSettings>;

  readonly presence: AgentPresence;

  /** `callback` gets each change of `presence`; returns what ends that. */
  onPresence(callback: (presence: AgentPresence) => unknown): () => void;

  readonly counts: MessageCounts;

  /** Give the room back for the next client; the room stays connected. Requests that wait reject with `ClosedError`. */
  close(): void;
}

export interface ConnectOptions {
  /** The agent's participant; by default the first remote participant of kind AGENT. */
  agentIdentity?: string | undefined;
}
