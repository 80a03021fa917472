/** Which participant is the agent, and how far it is. */

import { AGENT_KIND, AVATAR_ATTRIBUTE, READY_ATTRIBUTE } from "./contract.js";
import { AgentUnavailableError, ClosedError } from "./errors.js";
import { isActive, isConnected, joinedAt, type RemoteParticipantLike, type RoomLike } from "./room.js";
import type { AgentPresence } from "./types.js";
import { now, within } from "./waiting.js";

export type AgentState = "unconnected" | "absent" | "joined" | "active" | "ready" | "lost" | "closed";

const LOOK_AGAIN_MS = 1_000;
const LAST_WORDS_MS = 10_000;
const EVENTS = [
  "connectionStateChanged",
  "participantConnected",
  "participantActive",
  "participantAttributesChanged",
  "participantDisconnected",
];

const mayBeAgent = ({ kind, attributes }: RemoteParticipantLike): boolean =>
  kind === AGENT_KIND && !(AVATAR_ATTRIBUTE in attributes);

const saysReady = (agent: RemoteParticipantLike): boolean => agent.attributes[READY_ATTRIBUTE] === "1";

/**
 * Follows the agent in a room: the participant named `agentIdentity`, else the first remote participant of kind AGENT
 * to have joined that is no avatar worker. One that has withdrawn its `curb.ready` is gone.
 */
export function watchAgent(room: RoomLike, agentIdentity: string | undefined) {
  let agent: RemoteParticipantLike | undefined;
  let presence = { state: "unconnected" } as AgentPresence; // the first look gives the rest
  let ended: "lost" | "closed" | undefined;
  let answered: RemoteParticipantLike | undefined;
  const saidReady = new WeakSet<RemoteParticipantLike>();
  const leftAt = new Map<string, number>();
  const watchers = new Set<(presence: AgentPresence) => void>();
  let lookingAgain: ReturnType<typeof setTimeout>;

  const publish = (next: RemoteParticipantLike | undefined): void => {
    agent = next;
    const identity = agent?.identity ?? null;
    const state: AgentState =
      ended ??
      (!isConnected(room)
        ? "unconnected"
        : !agent
          ? "absent"
          : !isActive(agent)
            ? "joined"
            : answered === agent || saysReady(agent)
              ? "ready"
              : "active");
    clearTimeout(lookingAgain);
    // Neither livekit-client before 2.13 nor rtc-node has an event for its becoming active.
    if (state === "joined") lookingAgain = setTimeout(look, LOOK_AGAIN_MS);
    if (state === presence.state && identity === presence.identity) return;
    presence = { state, identity, isThere: /active|ready/.test(state) };
    for (const watcher of [...watchers]) watcher(presence);
  };

  const isChosen = (one: RemoteParticipantLike): boolean =>
    (saysReady(one) ? !!saidReady.add(one) : !saidReady.has(one)) &&
    (agentIdentity == null ? mayBeAgent(one) : one.identity === agentIdentity);

  const look = (): void => {
    if (ended === "closed") return;
    let chosen: RemoteParticipantLike | undefined;
    if (isConnected(room)) {
      ended = undefined;
      [chosen] = [...room.remoteParticipants.values()]
        .filter(isChosen)
        .sort((a, b) => joinedAt(a) - joinedAt(b) || (a.identity < b.identity ? -1 : 1));
    } else if (presence.state !== "unconnected") ended = "lost"; // else it was never connected
    if (agent && agent !== chosen) {
      leftAt.set(agent.identity, now());
      publish(undefined);
    }
    publish(chosen);
  };

  const changed = (): void => {
    look();
    queueMicrotask(look); // livekit-client tells of a participant before it has put down what is new
  };

  const listen = (method: "on" | "off"): void => {
    for (const event of EVENTS) room[method](event, changed);
  };
  listen("on");
  look();

  /** The error that names the missing step; `started` is when the waiting did. */
  const unavailable = (started: number, method: string, state = presence.state): Error => {
    if (state === "closed") return new ClosedError("closed; make a new client");
    const waitedMs = now() - started;
    const step = agent ? "it has no such method yet" : isConnected(room) ? "is it in the room?" : "connect the room";
    return new AgentUnavailableError(
      `no answer to ${method} in ${waitedMs | 0} ms: ${agentIdentity ?? "the agent"} is ${state}: ${step}`,
      { state, waitedMs },
    );
  };

  const onChange = (listener: (presence: AgentPresence) => void): (() => void) => {
    watchers.add(listener);
    return () => watchers.delete(listener);
  };

  /** Calls `check` with the presence, now and at each change; returns what ends that. */
  const follow = (check: (presence: AgentPresence) => void): (() => void) => {
    look();
    check(presence);
    return onChange(check);
  };

  return {
    presence_: (): AgentPresence => {
      look();
      return presence;
    },

    onChange_: onChange,
    follow_: follow,
    unavailable_: unavailable,

    /** Resolves after `ms`, or earlier when the presence changes. */
    change_: (ms: number, signal: AbortSignal | undefined): Promise<unknown> => within<unknown>(ms, signal, onChange),

    /**
     * Whether messages of this participant are the agent's; undefined while that may still turn out: the server tells
     * of a participant up to three seconds after its first message can arrive, and as late that another has left.
     */
    isAgent_(identity: string): boolean | undefined {
      if (agentIdentity != null) return identity === agentIdentity;
      look();
      if (identity === agent?.identity || now() - (leftAt.get(identity) as number) < LAST_WORDS_MS) return true;
      const participant = room.remoteParticipants.get(identity);
      if (participant && !mayBeAgent(participant)) return false;
    },

    /** Who took a request: its methods are registered. Undefined: the agent has not, or not any more. */
    answered_(by: RemoteParticipantLike | undefined): void {
      answered = by;
      look();
    },

    /** The agent once requests can be sent to it, waiting until then. Rejects with what `unavailable_` gives. */
    agent_(ms: number, method: string, signal: AbortSignal | undefined): Promise<RemoteParticipantLike> {
      const started = now();
      return within<RemoteParticipantLike>(
        ms,
        signal,
        (resolve, reject) =>
          follow(({ isThere }) => {
            if (isThere) resolve(agent as RemoteParticipantLike);
            if (ended) reject(unavailable(started, method));
          }),
        () => unavailable(started, method),
      );
    },

    close_(): void {
      listen("off");
      ended = "closed";
      publish(undefined);
    },
  };
}
