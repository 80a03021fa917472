/** curb-client in React, for a tree with the room of \@livekit/components-react, or with a room of your own. */

import { useMaybeRoomContext } from "@livekit/components-react";
import { type AgentClient, type AgentPresence, connectAgent, type MessageHandler, type RoomLike } from "curb-client";
import { useEffect, useRef, useState } from "react";

interface Shared {
  agent: AgentClient;
  users: number;
}

/** A room has one client, whichever components use it, and however often StrictMode mounts them. */
const shared = new WeakMap<RoomLike, Shared>();

const ABSENT: AgentPresence = { state: "unconnected", identity: null, isThere: false };

function share(room: RoomLike): [AgentClient, release: () => void] {
  const known = shared.get(room);
  const entry = known && known.agent.presence.state !== "closed" ? known : { agent: connectAgent(room), users: 0 };
  shared.set(room, entry);
  entry.users++;
  return [
    entry.agent,
    () => {
      entry.users--;
      // Whoever takes its place in the same update of the tree keeps the client and its requests.
      queueMicrotask(() => {
        if (entry.users > 0 || shared.get(room) !== entry) return;
        shared.delete(room);
        entry.agent.close();
      });
    },
  ];
}

/** Calls `use` with the room's client, anew for another room or when what it depends `on` changes; gives the room. */
function useShared(
  room: RoomLike | undefined,
  use: (agent: AgentClient, room: RoomLike) => () => void,
  on?: unknown,
): RoomLike | undefined {
  const around = useMaybeRoomContext();
  const used = room ?? around;
  useEffect(() => {
    if (!used) return;
    const [agent, release] = share(used);
    try {
      const stop = use(agent, used);
      return () => {
        stop();
        release();
      };
    } catch (error) {
      release();
      throw error;
    }
  }, [used, on]);
  return used;
}

/** What `follow` last gave of this room's client, undefined before: nothing of the room before is rendered. */
function useHeld<T>(
  room: RoomLike | undefined,
  follow: (agent: AgentClient, give: (value: T) => void) => (() => void) | undefined,
): T | undefined {
  const [held, hold] = useState<[RoomLike, T]>();
  const used = useShared(room, (agent, of) => {
    const stop = follow(agent, (value) => hold([of, value]));
    return () => {
      stop?.();
      hold(undefined);
    };
  });
  return held?.[0] === used ? held?.[1] : undefined;
}

/**
 * The client of the agent in this room, by default that of the context; undefined until it is mounted, and while there
 * is no room. All components share it; it is closed with the last of them.
 */
export function useAgent(room?: RoomLike): AgentClient | undefined {
  return useHeld<AgentClient>(room, (agent, give) => void give(agent));
}

/** Handle the agent's messages with this key while mounted; `handler` may be a new function each time. */
export function useAgentMessage(key: string, handler: MessageHandler, room?: RoomLike): void {
  const latest = useRef(handler);
  useEffect(() => {
    latest.current = handler;
  });
  const begin = (agent: AgentClient) => agent.on(key, (payload, meta) => latest.current(payload, meta));
  useShared(room, begin, key);
}

/** Whether the agent is there; renders anew on each change. */
export function useAgentPresence(room?: RoomLike): AgentPresence {
  const presence = useHeld<AgentPresence>(room, (agent, give) => {
    give(agent.presence);
    return agent.onPresence(give);
  });
  return presence ?? ABSENT;
}
