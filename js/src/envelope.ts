/** From keys, ids and payloads to the texts that travel, and back. Sending is strict, receiving lenient. */

import { MAX_ID_LENGTH, MAX_KEY_LENGTH, MAX_REQUEST_BYTES } from "./contract.js";
import { AgentRefusedError, InvalidKeyError, InvalidReplyError, type RpcErrorLike, UsageError } from "./errors.js";
import { encodeJson, LONE_SURROGATE, pathText } from "./jsonText.js";
import type { EffectiveSettings, Issue } from "./types.js";

export interface AgentMessage {
  key: string;
  id: string;
  payload: unknown;
}

const isText = (value: unknown): value is string => typeof value === "string";

/** Throws the failure unless the name is text of 1 to `limit` units or, of what is received and of ids, code points. */
const check = (
  what: string,
  name: unknown,
  limit: number,
  Failure: ErrorConstructor | typeof UsageError,
  units?: true,
) => {
  const length = isText(name) ? (units ? name : [...name]).length : typeof name;
  if (!((length as number) > 0 && (length as number) <= limit) || LONE_SURROGATE.test(name as string))
    throw new Failure(`${what} must be text of 1 to ${limit} characters, no lone surrogates, not ${length}`);
};

/** Throws `InvalidKeyError` unless the key may be sent; its length counts UTF-16 units. */
export const checkKey = (key: string): void => check("key", key, MAX_KEY_LENGTH, InvalidKeyError, true);

/** The length as UTF-8. */
export const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

export const withinLimit = (text: string): string => {
  const code = "payload_too_large";
  const size = bytesOf(text);
  if (size <= MAX_REQUEST_BYTES) return text;
  const message = `${code}: ${size} of ${MAX_REQUEST_BYTES} bytes; send a reference`;
  throw new AgentRefusedError(message, { code, issues: [], size, limit: MAX_REQUEST_BYTES });
};

/** `{key, id, payload}`. Throws what `checkKey` and `encodeJson` do, `UsageError` and `payload_too_large`. */
export const encodeRequest = (key: string, id: string, payload: unknown): string => {
  checkKey(key);
  check("id", id, MAX_ID_LENGTH, UsageError);
  return withinLimit(`{"key":${encodeJson(key)},"id":${encodeJson(id)},"payload":${encodeJson(payload)}}`);
};

/** An answer that `fits`. Throws `InvalidReplyError`. */
const decodeAnswer = <T>(text: string, fits: (answer: T) => boolean): T => {
  let reply: unknown = text;
  try {
    reply = JSON.parse(text);
    if (/^\s*\{/.test(text) && fits(reply as T)) return reply as T;
  } catch {}
  throw new InvalidReplyError(`no reply: ${text.slice(0, 99)}`, { reply });
};

/** The reply in the answer, null where it is absent. */
export const decodeReply = (text: string): unknown => decodeAnswer<{ reply?: unknown }>(text, () => true).reply ?? null;

export const decodeSettings = (text: string): EffectiveSettings =>
  decodeAnswer<EffectiveSettings>(text, ({ tts, stt, llm }) =>
    [
      tts.provider,
      stt.provider,
      llm.provider,
      llm.model,
      tts.model ?? "",
      stt.language ?? "",
      llm.baseURL ?? "",
      typeof tts.voice === "number" ? "" : (tts.voice ?? ""),
    ].every(isText),
  );

/** Throws an Error that says why the text is no message. */
export const decodeMessage = (text: string, streamId: string): AgentMessage => {
  const { key, id, payload = {} }: Partial<AgentMessage> = JSON.parse(text);
  check("key", key, MAX_KEY_LENGTH, Error);
  check("id", id ?? "-", MAX_ID_LENGTH, Error); // the stream's is taken as it is
  return { key: key as string, id: id ?? streamId, payload };
};

/** The refusal that an RPC error carries, or undefined if it is LiveKit's own error. Unreadable data counts as absent. */
export const decodeRefusal = ({ code, message, data }: RpcErrorLike): AgentRefusedError | undefined => {
  // A known code or, outside of LiveKit's own numbers, what looks like one of a later version. LiveKit cuts it at 256
  // bytes.
  const codes =
    code <= 1000 || code >= 2000
      ? /^[a-z][a-z\d_]{0,255}$/
      : /^(no_handler|handler_failed|not_adjustable|payload_too_large|invalid_(payload|settings))$/;
  if (!codes.test(message)) return;
  let issues: Issue[] = [];
  let path: string | undefined;
  try {
    const told = JSON.parse(data as string);
    const read = ({ path, message }: Issue): Issue => {
      if (path.every((step) => isText(step) || Number.isInteger(step)) && isText(message)) return { path, message };
      throw 0;
    };
    if (isText(told.path ?? "")) {
      issues = told.issues?.map(read) ?? [];
      path = told.path ?? undefined;
    }
  } catch {}
  const text = issuesText(issues) || path;
  return new AgentRefusedError(text ? `${message}: ${text}` : message, { code: message, issues, path });
};

/** The first three. */
export const issuesText = (issues: readonly Issue[]): string =>
  issues
    .slice(0, 3)
    .map(({ path, message }) => `${pathText(path)}: ${message}`)
    .join("; ");
