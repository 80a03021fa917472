/** From keys, ids and payloads to the texts that travel, and back. Sending is strict, receiving lenient. */

import { KNOWN_CODE, MAX_ID_LENGTH, MAX_KEY_LENGTH, MAX_REQUEST_BYTES } from "./contract.js";
import { AgentRefusedError, InvalidKeyError, InvalidReplyError, type RpcErrorLike, UsageError } from "./errors.js";
import { encodeJson, LONE_SURROGATE } from "./jsonText.js";
import type { EffectiveSettings, Issue } from "./types.js";

export interface AgentMessage {
  key: string;
  id: string;
  payload: unknown;
}

const isText = (value: unknown): value is string => typeof value === "string";
const isTextOrAbsent = (value: unknown): boolean => value == null || isText(value);

/** Throws the failure unless the name is text of 1 to `limit` units or, of what is received and of ids, code points. */
const check = (
  what: string,
  name: unknown,
  limit: number,
  Failure: ErrorConstructor | typeof UsageError,
  units?: true,
) => {
  const length = isText(name) ? (units ? name : [...name]).length : 0;
  if (!length || length > limit || LONE_SURROGATE.test(name as string))
    throw new Failure(
      `${what} must be text of 1 to ${limit} characters without lone surrogates; it is ${isText(name) ? `of ${length}` : typeof name}`,
    );
};

/** Throws `InvalidKeyError` unless the key may be sent; its length counts UTF-16 units. */
export const checkKey = (key: string): void => check("key", key, MAX_KEY_LENGTH, InvalidKeyError, true);

const withinLimit = (text: string): string => {
  const code = "payload_too_large";
  const size = new TextEncoder().encode(text).length;
  const limit = MAX_REQUEST_BYTES;
  if (size <= limit) return text;
  const message = `${code}: the request has ${size} bytes of JSON, the limit is ${limit}; send a reference to the data`;
  throw new AgentRefusedError(message, { code, issues: [], size, limit });
};

/** `{key, id, payload}`. Throws what `checkKey` and `encodeJson` do, `UsageError` and `payload_too_large`. */
export function encodeRequest(key: string, id: string, payload: unknown): string {
  checkKey(key);
  check("id", id, MAX_ID_LENGTH, UsageError);
  return withinLimit(`{"key":${JSON.stringify(key)},"id":${JSON.stringify(id)},"payload":${encodeJson(payload)}}`);
}

export const encodeUpdate = (update: unknown): string => withinLimit(encodeJson(update));

const isObject = (value: unknown): value is object => Object(value) === value && !Array.isArray(value);

/** An answer that `fits`. Throws `InvalidReplyError`. */
function decodeAnswer<T>(text: string, fits: (answer: T) => boolean): T {
  let reply: unknown = text;
  try {
    reply = JSON.parse(text);
    if (isObject(reply) && fits(reply as T)) return reply as T;
  } catch {}
  throw new InvalidReplyError(`the agent's answer is no JSON of the protocol: ${text.slice(0, 99)}`, { reply });
}

/** The reply in the answer, null where it is absent. */
export const decodeReply = (text: string): unknown => decodeAnswer<{ reply?: unknown }>(text, () => true).reply ?? null;

export const decodeSettings = (text: string): EffectiveSettings =>
  decodeAnswer<EffectiveSettings>(
    text,
    ({ tts, stt, llm }) =>
      [tts.provider, stt.provider, llm.provider, llm.model].every(isText) &&
      [tts.model, stt.language, llm.baseURL].every(isTextOrAbsent) &&
      (isTextOrAbsent(tts.voice) || typeof tts.voice === "number"),
  );

/** Throws an Error that says why the text is no message. */
export function decodeMessage(text: string, streamId: string): AgentMessage {
  const message = JSON.parse(text);
  if (!isObject(message)) throw Error("no JSON object");
  const { key, id, payload = {} } = message as Partial<AgentMessage>;
  check("key", key, MAX_KEY_LENGTH, Error);
  if (id != null) check("id", id, MAX_ID_LENGTH, Error);
  return { key: key as string, id: id ?? streamId, payload };
}

/** The refusal that an RPC error carries, or undefined if it is LiveKit's own error. */
export function decodeRefusal({ code, message, data }: RpcErrorLike): AgentRefusedError | undefined {
  if (!/^[a-z][a-z\d_]*$/.test(message) || (code > 1000 && code < 2000 && !KNOWN_CODE.test(message))) return;
  const details = decodeDetails(data);
  const told = issuesText(details.issues, "payload") || details.path;
  return new AgentRefusedError(told ? `${message}: ${told}` : message, { code: message, ...details });
}

/** Data that cannot be read counts as absent. */
function decodeDetails(data: string | undefined): { issues: Issue[]; path?: string } {
  try {
    const { issues, path } = JSON.parse(data as string);
    if (isTextOrAbsent(path) && (issues ?? []).every(isIssue))
      return {
        issues: (issues ?? []).map(({ path, message }: Issue) => ({ path, message })),
        ...(path != null && { path }),
      };
  } catch {}
  return { issues: [] };
}

const isIssue = ({ path, message }: Issue): boolean =>
  isText(message) && path.every((step) => isText(step) || Number.isInteger(step));

/** The first three; `whole` names what an empty path leads to. */
export const issuesText = (issues: readonly Issue[], whole: string): string =>
  issues
    .slice(0, 3)
    .map(({ path, message }) => `${path.join(".") || whole}: ${message}`)
    .join("; ");
