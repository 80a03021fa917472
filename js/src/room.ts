/** What is used of a LiveKit room, be it livekit-client's or @livekit/rtc-node's, and where the two differ. */

export interface TextReader {
  readonly info: object;
  [Symbol.asyncIterator](): { next(): Promise<IteratorResult<string>>; return?(): Promise<unknown> };
}

export interface RemoteParticipantLike {
  readonly identity: string;
  readonly sid?: string | undefined;
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

/** What the server last said of a participant, which neither SDK shows whole. */
interface ParticipantInfo {
  state?: number;
  joinedAt?: bigint;
  joinedAtMs?: bigint;
}

const infoOf = (participant: object): ParticipantInfo | undefined => {
  const { participantInfo, info } = participant as { participantInfo?: ParticipantInfo; info?: ParticipantInfo };
  return participantInfo ?? info;
};

/** Also while it reconnects. livekit-client has a text `state`, rtc-node `isConnected`. */
export const isConnected = (room: object): boolean => {
  const { state, isConnected } = room as { state?: string; isConnected?: boolean };
  return isConnected ?? (state !== "disconnected" && state !== "connecting");
};

/**
 * Whether the participant can receive data; a request sent to it earlier would fail after seven seconds. livekit-client
 * tells of a participant before it has its info.
 */
export const isActive = (participant: object): boolean => {
  const { state = 2 } = infoOf(participant) ?? { state: 0 };
  return state === 2;
};

/** Comparable within a room. */
export const joinedAt = (participant: object): number => {
  const info = infoOf(participant);
  return Number(info?.joinedAtMs || info?.joinedAt || Infinity);
};

/** A stream's id: `id` in livekit-client, `streamId` in rtc-node. */
export const streamId = ({ info }: TextReader): string => {
  const { id, streamId } = info as { id?: string; streamId?: string };
  return id ?? streamId ?? "";
};
