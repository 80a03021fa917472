/** curb-client for Node.js, with \@livekit/rtc-node. */

import { setMaxListeners } from "node:events";
import { RpcError } from "@livekit/rtc-node";
import { makeClient } from "./client.js";
import type { RoomLike } from "./room.js";
import type { AgentClient, ConnectOptions } from "./types.js";

export * from "./public.js";

/** As that of `curb-client`, for a room of \@livekit/rtc-node. */
export const connectAgent = (room: RoomLike, options: ConnectOptions = {}): AgentClient => {
  const closing = new AbortController();
  setMaxListeners(0, closing.signal); // every message that is being read listens; Node.js warns of the eleventh
  return makeClient(room, options, RpcError, closing);
};
