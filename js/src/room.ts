/** What is used of a LiveKit room, be it livekit-client's or @livekit/rtc-node's, and where the two differ. */

export interface TextReader {
  /** livekit-client's, rtc-node's. */
  readonly info: { readonly id?: string; readonly streamId?: string };
  [Symbol.asyncIterator](): AsyncIterator<string>;
}

export interface RemoteParticipantLike {
  readonly identity: string;
  readonly kind: number;
  readonly attributes: Readonly<Record<string, string>>;
}

/** A `Room` of livekit-client or of @livekit/rtc-node. */
export interface RoomLike {
  /** livekit-client's. */
  readonly state?: string;
  readonly remoteParticipants: ReadonlyMap<string, RemoteParticipantLike>;
  readonly localParticipant?:
    | {
        readonly identity: string;
        performRpc(parameters: {
          destinationIdentity: string;
          method: string;
          payload: string;
          responseTimeout?: number;
        }): Promise<string>;
      }
    | undefined;
  registerTextStreamHandler(topic: string, handler: (reader: TextReader, sender: { identity: string }) => void): void;
  unregisterTextStreamHandler(topic: string): void;
  // Each SDK has its own names of events; those used are in presence.ts.
  // biome-ignore lint/suspicious/noExplicitAny: the parameters of a typed emitter accept nothing else
  on(event: any, listener: any): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: any, listener: any): unknown;
}

/** What the SDKs do not show, or only one of them does. */
interface Hidden {
  /** What the server last said of a participant: livekit-client's, rtc-node's. */
  participantInfo?: { state?: number; joinedAt?: bigint; joinedAtMs?: bigint };
  info?: Hidden["participantInfo"];
  /** A room's: livekit-client's, rtc-node's. */
  state?: string;
  isConnected?: boolean;
}

/** Empty while livekit-client has told of a participant and has not put down its info. */
export const infoOf = (participant: object): NonNullable<Hidden["participantInfo"]> =>
  (participant as Hidden).participantInfo ?? (participant as Hidden).info ?? {};

/** Also while it reconnects. */
export const isConnected = (room: object): boolean =>
  (room as Hidden).isConnected ?? !/^(dis|connecting)/.test((room as Hidden).state as string);

/** The state of a participant that can receive data; a request sent to it earlier would fail after seven seconds. */
export const ACTIVE = 2;

/** Comparable within a room. */
export const joinedAt = (participant: object): number =>
  Number(infoOf(participant).joinedAtMs || infoOf(participant).joinedAt || Infinity);
