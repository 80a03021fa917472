/** curb-client in React, for a tree with the room of \@livekit/components-react, or with a room of your own. */

import { useMaybeRoomContext } from "@livekit/components-react";
import { type AgentClient, type AgentPresence, connectAgent, type MessageHandler, type RoomLike } from "curb-client";
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";

interface Shared {
  agent: AgentClient;
  users: number;
}

/** A room has one client, whichever components use it, and however often StrictMode mounts them. */
const shared = new WeakMap<RoomLike, Shared>();

const ABSENT: AgentPresence = { state: "unconnected", identity: null, isThere: false };

function share(room: RoomLike): [AgentClient, release: () => void] {
  const entry = shared.get(room) ?? { agent: connectAgent(room), users: 0 };
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

function useRoom(room: RoomLike | undefined): RoomLike | undefined {
  const around = useMaybeRoomContext();
  return room ?? around;
}

/**
 * The client of the agent in this room, by default that of the context; undefined until it is mounted, and while there
 * is no room. All components share it; it is closed with the last of them.
 */
export function useAgent(room?: RoomLike): AgentClient | undefined {
  const used = useRoom(room);
  const [agent, setAgent] = useState<AgentClient>();
  useEffect(() => {
    if (!used) return;
    const [client, release] = share(used);
    setAgent(client);
    return () => {
      setAgent(undefined);
      release();
    };
  }, [used]);
  return agent;
}

/** Handle the agent's messages with this key while mounted; `handler` may be a new function each time. */
export function useAgentMessage(key: string, handler: MessageHandler, room?: RoomLike): void {
  const used = useRoom(room);
  const latest = useRef(handler);
  useEffect(() => {
    latest.current = handler;
  });
  useEffect(() => {
    if (!used) return;
    const [agent, release] = share(used);
    const remove = agent.on(key, (payload, meta) => latest.current(payload, meta));
    return () => {
      remove();
      release();
    };
  }, [used, key]);
}

/** Whether the agent is there; renders anew on each change. */
export function useAgentPresence(room?: RoomLike): AgentPresence {
  const agent = useAgent(room);
  const subscribe = useCallback((changed: () => void) => agent?.onPresence(changed) ?? (() => {}), [agent]);
  return useSyncExternalStore(
    subscribe,
    () => agent?.presence ?? ABSENT,
    () => ABSENT,
  );
}
