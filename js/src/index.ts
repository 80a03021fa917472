/** curb-client for a web app, with livekit-client. */

import { RpcError } from "livekit-client";
import { makeClient } from "./client.js";
import type { RoomLike } from "./room.js";
import type { AgentClient, ConnectOptions } from "./types.js";

export * from "./public.js";

/**
 * A client of the agent in a room that you connect and disconnect; one per room. Before `room.connect` is better, since
 * nothing that an agent sends at once is missed then.
 *
 * Throws `RoomInUseError`: the room has a client already, or another handler of the text stream topic `curb.message`.
 */
export const connectAgent = (room: RoomLike, options: ConnectOptions = {}): AgentClient =>
  makeClient(room, options, RpcError);
