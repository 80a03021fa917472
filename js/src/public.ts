/** What every entry of the package exports beside its `connectAgent`. */

export type { RefusalCode } from "./contract.js";
export * from "./errors.js";
export * from "./listening.js";
export type { AgentState } from "./presence.js";
export type { RoomLike } from "./room.js";
export * from "./schema.js";
export type * from "./types.js";
