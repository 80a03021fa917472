/** curb-client for a script tag: `window.CurbClient`, beside livekit-client's own `window.LivekitClient`. */

import { makeClient } from "./client.js";
import type { RpcErrorClass } from "./errors.js";
import type { RoomLike } from "./room.js";
import type { AgentClient, ConnectOptions } from "./types.js";

export * from "./public.js";

declare const LivekitClient: { RpcError: RpcErrorClass } | undefined;

/** For a page that has livekit-client in a bundle of its own. */
class OwnRpcError extends Error {
  data = undefined;
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

/** As that of the package `curb-client`. */
export const connectAgent = (room: RoomLike, options: ConnectOptions = {}): AgentClient =>
  makeClient(room, options, typeof LivekitClient === "undefined" ? OwnRpcError : LivekitClient.RpcError);
