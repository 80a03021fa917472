/** Which participant is the agent, and how far it is. */

import { AGENT_KIND, AVATAR_ATTRIBUTE, MESSAGE, READY_ATTRIBUTE } from "./contract.js";
import { AgentUnavailableError, ClosedError } from "./errors.js";
import { isActive, isConnected, joinedAt, type RemoteParticipantLike, type RoomLike } from "./room.js";
import type { AgentPresence } from "./types.js";
import { addTo, now, within } from "./waiting.js";

export type AgentState = "unconnected" | "absent" | "joined" | "active" | "ready" | "lost" | "closed";

const LOOK_AGAIN_MS = 50;
const LAST_WORDS_MS = 10_000;
const EVENTS = ["connectionStateChanged"].concat(
  ["Connected", "Active", "AttributesChanged", "Disconnected"].map((event) => `participant${event}`),
);

const MISSING_STEP = {
  unconnected: "connect the room",
  absent: "is it in this room?",
  joined: "it cannot receive data yet",
  active: "it has not registered this RPC method",
  ready: "it did not take the call",
  lost: "the room was disconnected; connect it again",
};

const mayBeAgent = ({ kind, attributes }: RemoteParticipantLike): boolean =>
  kind === AGENT_KIND && !(AVATAR_ATTRIBUTE in attributes);

const saysReady = (agent: RemoteParticipantLike): boolean => agent.attributes[READY_ATTRIBUTE] === "1";

/**
 * Follows the agent in a room: the participant named `agentIdentity`, else the first remote participant of kind AGENT
 * to have joined that is no avatar worker. One that has withdrawn its `curb.ready` is gone.
 *
 * @param lost called when the room is disconnected.
 */
export function watchAgent(room: RoomLike, agentIdentity: string | undefined, lost: () => void) {
  let agent: RemoteParticipantLike | undefined;
  let presence: AgentPresence = { state: "unconnected", identity: null, isThere: false };
  let ended: "lost" | "closed" | undefined;
  let wasConnected = false;
  let reason: unknown;
  let answered: RemoteParticipantLike | undefined;
  const saidReady = new Set<string | undefined>();
  const leftAt = new Map<string, number>();
  const watchers = new Set<(presence: AgentPresence) => void>();
  let lookingAgain: ReturnType<typeof setTimeout>;

  const publish = (next: RemoteParticipantLike | undefined): void => {
    agent = next;
    const isThere = !ended && !!agent && isActive(agent);
    const state: AgentState =
      ended ??
      (!isConnected(room)
        ? "unconnected"
        : !agent
          ? "absent"
          : !isThere
            ? "joined"
            : answered?.sid === agent.sid || saysReady(agent)
              ? "ready"
              : "active");
    const identity = agent?.identity ?? null;
    clearTimeout(lookingAgain);
    // Not every SDK has an event for its becoming active, and livekit-client's comes before it has the info that says so.
    if (state === "joined") lookingAgain = setTimeout(look, LOOK_AGAIN_MS);
    if (state === presence.state && identity === presence.identity) return;
    presence = { state, identity, isThere };
    for (const watcher of [...watchers]) watcher(presence);
  };

  const isChosen = (one: RemoteParticipantLike): boolean => {
    if (saysReady(one)) saidReady.add(one.sid);
    else if (saidReady.has(one.sid)) return false;
    return agentIdentity == null ? mayBeAgent(one) : one.identity === agentIdentity;
  };

  const look = (): void => {
    if (ended === "closed" || !isConnected(room)) return;
    wasConnected = true;
    ended = undefined;
    const [chosen] = [...room.remoteParticipants.values()]
      .filter(isChosen)
      .sort((a, b) => joinedAt(a) - joinedAt(b) || (a.identity < b.identity ? -1 : 1));
    if (agent && agent.sid !== chosen?.sid) {
      leftAt.set(agent.identity, now());
      publish(undefined);
    }
    publish(chosen);
  };

  const disconnected = (why: unknown): void => {
    if (wasConnected) ended = "lost"; // else an attempt to connect failed, and the next may not
    reason = why;
    publish(undefined);
    lost();
  };

  for (const event of EVENTS) room.on(event, look);
  room.on("disconnected", disconnected);
  look();

  /** The error that names the missing step. */
  const unavailable = (waitedMs: number, method: string, state = presence.state): Error => {
    if (state === "closed") return new ClosedError("the client is closed; make a new one");
    const who = agent?.identity ?? agentIdentity ?? "the agent";
    const missing = MISSING_STEP[state] + (ended ? ` (reason ${reason})` : "");
    return new AgentUnavailableError(
      `no answer to ${method} within ${Math.round(waitedMs)} ms: ${who} is ${state}: ${missing}`,
      { state, waitedMs },
    );
  };

  const onChange = (listener: (presence: AgentPresence) => void) => addTo(watchers, listener);

  /** Resolves after `ms`, or earlier when the presence changes. */
  const change = (ms: number, signal: AbortSignal | undefined): Promise<unknown> =>
    within<unknown>(ms, signal, onChange);

  return {
    get presence(): AgentPresence {
      if (presence.state === "unconnected") look();
      return presence;
    },

    onChange,
    change,
    unavailable,

    /** Why nothing can come from the agent any more, if so. */
    end: (): Error | undefined => (ended ? unavailable(0, MESSAGE) : undefined),

    /**
     * Whether messages of this participant are the agent's; undefined while that may still turn out: the server tells
     * of a participant up to three seconds after its first message can arrive, and as late that another has left.
     */
    isAgent(identity: string): boolean | undefined {
      if (agentIdentity != null) return identity === agentIdentity;
      look();
      if (identity === agent?.identity || now() - (leftAt.get(identity) ?? -Infinity) < LAST_WORDS_MS) return true;
      const participant = room.remoteParticipants.get(identity);
      return participant && !mayBeAgent(participant) ? false : undefined;
    },

    /** Who took a request: its methods are registered. Undefined: the agent has not, or not any more. */
    answered(by: RemoteParticipantLike | undefined): void {
      answered = by;
      look();
    },

    /** The agent once requests can be sent to it, waiting until then. Rejects with what `unavailable` gives. */
    async agent(until: number, method: string, signal: AbortSignal | undefined): Promise<RemoteParticipantLike> {
      const started = now();
      for (;;) {
        look();
        if (agent && presence.isThere) return agent;
        const left = until - now();
        if (left <= 0 || ended) throw unavailable(now() - started, method);
        await change(Math.min(left, LOOK_AGAIN_MS), signal);
      }
    },

    close(): void {
      for (const event of EVENTS) room.off(event, look);
      room.off("disconnected", disconnected);
      ended = "closed";
      publish(undefined);
      watchers.clear();
    },
  };
}
