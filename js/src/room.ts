/** What is used of a LiveKit room, be it livekit-client's or @livekit/rtc-node's, and where the two differ. */

export interface TextReader {
  readonly info: object;
  [Symbol.asyncIterator](): AsyncIterator<string>;
}

export interface RemoteParticipantLike {
  readonly identity: string;
  readonly kind: number;
  readonly attributes: Readonly<Record<string, string>>;
}

/** A `Room` of livekit-client or of @livekit/rtc-node. */
export interface RoomLike {
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
  /** A stream's: livekit-client's, rtc-node's. */
  id?: string;
  streamId?: string;
}

const infoOf = (participant: object): Hidden["participantInfo"] =>
  (participant as Hidden).participantInfo ?? (participant as Hidden).info;

/** Also while it reconnects. */
export const isConnected = (room: object): boolean =>
  (room as Hidden).isConnected ?? !/^(dis|connecting)/.test((room as Hidden).state as string);

/**
 * Whether the participant can receive data; a request sent to it earlier would fail after seven seconds. livekit-client
 * tells of a participant before it has its info.
 */
export const isActive = (participant: object): boolean => infoOf(participant)?.state === 2;

/** Comparable within a room. */
export const joinedAt = (participant: object): number =>
  Number(infoOf(participant)?.joinedAtMs || infoOf(participant)?.joinedAt || Infinity);

/** A stream's id. */
export const streamId = ({ info }: TextReader): string => (info as Hidden).id ?? (info as Hidden).streamId ?? "";
