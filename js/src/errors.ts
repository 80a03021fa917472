/**
 * What curb-client rejects with and throws on purpose. The names are the Python package's; a guard goes by the name,
 * so it also knows errors of another realm or of another copy of this package.
 */

import type { RefusalCode } from "./contract.js";
import type { AgentState } from "./presence.js";
import type { Issue } from "./types.js";

/** The root of the tree. */
export class CurbError extends Error {
  override name = "CurbError";
  constructor(message: string, details?: object) {
    super(message);
    Object.assign(this, details);
  }
}

/** The call itself was wrong; nothing was sent and nothing changed. */
export class UsageError extends CurbError {
  override name = "UsageError";
}

/** A key must be text of 1 to 256 UTF-16 units without lone surrogates. */
export class InvalidKeyError extends UsageError {
  override name = "InvalidKeyError";
}

/** A payload cannot be written as JSON; `path` leads to the value. */
export class InvalidPayloadError extends UsageError {
  override name = "InvalidPayloadError";
  declare readonly path: readonly (string | number)[];
}

/** A time-out must be a number of milliseconds, 0 to a day. */
export class InvalidTimeoutError extends UsageError {
  override name = "InvalidTimeoutError";
}

/** A room takes one client at a time. */
export class RoomInUseError extends UsageError {
  override name = "RoomInUseError";
}

/** The client was closed; make a new one. */
export class ClosedError extends UsageError {
  override name = "ClosedError";
}

/** The agent said no; `code` says why. `payload_too_large` with `size` and `limit` (bytes) was refused here. */
export class AgentRefusedError extends CurbError {
  override name = "AgentRefusedError";
  declare readonly code: RefusalCode | (string & {});
  /** What is wrong with the payload or the settings; may be empty. */
  declare readonly issues: readonly Issue[];
  /** With `not_adjustable`: the first setting that may not be changed, dotted. */
  declare readonly path?: string | undefined;
  declare readonly size?: number;
  declare readonly limit?: number;
}

/** No agent took the request in time; `state` says how far things were, `waitedMs` how long that was. */
export class AgentUnavailableError extends CurbError {
  override name = "AgentUnavailableError";
  declare readonly state: AgentState;
  declare readonly waitedMs: number;
}

/** The reply, or a message, is not JSON or does not fit the schema asked for; `reply` is what came. */
export class InvalidReplyError extends CurbError {
  override name = "InvalidReplyError";
  declare readonly reply: unknown;
  /** What the schema found. */
  declare readonly issues?: readonly Issue[];
}

/** `waitFor` saw no such message in time. */
export class MessageTimeoutError extends CurbError {
  override name = "MessageTimeoutError";
}

export interface CurbErrors {
  UsageError: UsageError;
  InvalidKeyError: InvalidKeyError;
  InvalidPayloadError: InvalidPayloadError;
  InvalidTimeoutError: InvalidTimeoutError;
  RoomInUseError: RoomInUseError;
  ClosedError: ClosedError;
  AgentRefusedError: AgentRefusedError;
  AgentUnavailableError: AgentUnavailableError;
  InvalidReplyError: InvalidReplyError;
  MessageTimeoutError: MessageTimeoutError;
}

/** Whether it is the error of this name, and no other, also when it is of another realm or copy of the package. */
export const isCurbError = <Name extends keyof CurbErrors>(error: unknown, name: Name): error is CurbErrors[Name] =>
  (error as Error | undefined)?.name === name;

export const isAgentRefusedError = (error: unknown): error is AgentRefusedError =>
  isCurbError(error, "AgentRefusedError");

export const isAgentUnavailableError = (error: unknown): error is AgentUnavailableError =>
  isCurbError(error, "AgentUnavailableError");

/** LiveKit's error of a request that it could not carry, or that its handler ended. */
export interface RpcErrorLike extends Error {
  code: number;
  data?: string | undefined;
}

export const isRpcError = (error: unknown): error is RpcErrorLike =>
  typeof (error as RpcErrorLike | undefined)?.code === "number" && "data" in (error as RpcErrorLike);

/** LiveKit's class, whichever SDK it comes from. */
export type RpcErrorClass = new (code: number, message: string) => Error;
