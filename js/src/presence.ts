/** Which participant is the agent, and how far it is. */

import { AGENT_KIND, AVATAR_ATTRIBUTE, READY_ATTRIBUTE } from "./contract.js";
import { ClosedError } from "./errors.js";
import { ACTIVE, infoOf, isConnected, joinedAt, type RemoteParticipantLike, type RoomLike } from "./room.js";
import type { AgentPresence } from "./types.js";
import { now } from "./waiting.js";

export type AgentState = "unconnected" | "absent" | "joined" | "active" | "ready" | "lost" | "closed";

const LOOK_AGAIN_MS = 1_000;
const LAST_WORDS_MS = 10_000;
const mayBeAgent = (one: RemoteParticipantLike): boolean =>
  one.kind === AGENT_KIND && !(AVATAR_ATTRIBUTE in one.attributes);

const saysReady = (one: RemoteParticipantLike): boolean => one.attributes[READY_ATTRIBUTE] === "1";

export const closedError = (): Error => new ClosedError("closed; make another client");

type Watcher = (presence: AgentPresence, agent: RemoteParticipantLike | undefined) => unknown;

export type Watch = ReturnType<typeof watchAgent>;

/**
 * Follows the agent in a room: the participant named `agentIdentity`, else the first remote participant of kind AGENT
 * to have joined that is no avatar worker. One that has withdrawn its `curb.ready` is gone.
 */
export const watchAgent = (room: RoomLike, agentIdentity: string | undefined, closing: AbortSignal) => {
  let agent: RemoteParticipantLike | undefined;
  let presence = { state: "unconnected" } as AgentPresence; // the first look gives the rest
  let answered: RemoteParticipantLike | undefined;
  const saidReady = new WeakSet<RemoteParticipantLike>();
  const leftAt = new Map<string, number>();
  const watchers = new Set<Watcher>();
  let lookingAgain: ReturnType<typeof setTimeout>;
  let telling = false;

  const look = (): void => {
    if (telling) return;
    const [chosen] = [...room.remoteParticipants.values()]
      .filter(
        (one) =>
          !closing.aborted &&
          isConnected(room) &&
          (saysReady(one) ? saidReady.add(one) : !saidReady.has(one)) &&
          (agentIdentity == null ? mayBeAgent(one) : one.identity === agentIdentity),
      )
      .sort((a, b) => joinedAt(a) - joinedAt(b) || (a.identity < b.identity ? -1 : 1));
    // One that is gone is told of before the next.
    if (agent && agent !== chosen) agent = void leftAt.set(agent.identity, now());
    else agent = chosen;
    const identity = agent?.identity ?? null;
    const state: AgentState = agent
      ? infoOf(agent).state !== ACTIVE
        ? "joined"
        : answered === agent || saysReady(agent)
          ? "ready"
          : "active"
      : closing.aborted
        ? "closed"
        : isConnected(room)
          ? "absent"
          : presence.state === "unconnected" || room.state === "connecting" // never connected yet, or about to be again
            ? "unconnected"
            : "lost";
    clearTimeout(lookingAgain);
    // Neither livekit-client before 2.13 nor rtc-node has an event for its becoming active.
    if (state === "joined") lookingAgain = setTimeout(look, LOOK_AGAIN_MS);
    if (state === presence.state && identity === presence.identity) return;
    presence = { state, identity, isThere: /active|ready/.test(state) };
    telling = true; // whoever is told may look, or close the client: all are told of this one first
    for (const watcher of [...watchers]) watcher(presence, agent);
    telling = false;
    look();
  };

  const changed = (): void => {
    look();
    queueMicrotask(look); // livekit-client tells of a participant before it has put down what is new
  };

  const listen = (method: "on" | "off"): void => {
    for (const event of [
      "connectionStateChanged",
      "participantConnected",
      "participantActive",
      "participantAttributesChanged",
      "participantDisconnected",
    ])
      room[method](event, changed);
    look();
  };
  listen("on");
  closing.addEventListener("abort", () => listen("off"));

  const onChange = (listener: Watcher): (() => void) => {
    watchers.add(listener);
    return () => watchers.delete(listener);
  };

  return {
    presence_: (): AgentPresence => {
      look();
      return presence;
    },

    agent_: (): RemoteParticipantLike | undefined => agent,

    onChange_: onChange,

    /** Calls `check` with the presence and the agent, now and at each change; returns what ends that. */
    follow_: (check: Watcher): (() => void) => {
      look();
      check(presence, agent);
      return onChange(check);
    },

    name_: agentIdentity ?? "the agent",

    /**
     * Whether messages of this participant are the agent's; not, while that may still turn out until then: the server
     * tells of a participant up to three seconds after its first message can arrive, and as late that another has left.
     * Throws when they are not.
     */
    isAgent_(identity: string, until: number): boolean {
      look();
      if (identity === (agentIdentity ?? agent?.identity) || now() - (leftAt.get(identity) as number) < LAST_WORDS_MS)
        return true;
      const participant = room.remoteParticipants.get(identity);
      if (agentIdentity != null || now() > until || (participant && !mayBeAgent(participant)))
        throw Error("not the agent");
      return false;
    },

    /** Who took a request: its methods are registered. Undefined: the agent has not, or not any more. */
    answered_(by: RemoteParticipantLike | undefined): void {
      answered = by;
      look();
    },
  };
};
