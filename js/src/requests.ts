/** Requests to the agent: each waits until the agent is there, and asks again while nothing there has taken it. */

import {
  CONNECTION_TIMEOUT,
  EXCHANGE_MS,
  RECIPIENT_DISCONNECTED,
  RESPONSE_TIMEOUT,
  UNSUPPORTED_METHOD,
} from "./contract.js";
import { decodeRefusal } from "./envelope.js";
import { AgentUnavailableError, type RpcErrorClass, type RpcErrorLike } from "./errors.js";
import { type AgentState, closedError, type Watch } from "./presence.js";
import { isConnected, type RemoteParticipantLike, type RoomLike } from "./room.js";
import type { CallOptions } from "./types.js";
import { checkTimeout, now, within } from "./waiting.js";

const PAUSE_MS = 100;
const LAST_TRY_MS = 250;
const SDK_KEEPS_MS = 7_000; // rtc-node gives the other side that much less than it is told

/** What gives the agent's answer to a request. That rejects as `AgentClient.ask` tells. */
export const makeRequest =
  (room: RoomLike, watch: Watch, RpcError: RpcErrorClass) =>
  async (method: string, payload: string, { timeoutMs, signal }: CallOptions): Promise<string> => {
    const started = now();
    const until = started + checkTimeout(timeoutMs);

    /** The error that names the missing step. */
    const unavailable = (state: AgentState = watch.presence_().state): Error => {
      if (state === "closed") return closedError();
      const waitedMs = now() - started;
      const step = watch.presence_().identity
        ? "no such method yet"
        : isConnected(room)
          ? "is it in the room?"
          : "connect the room";
      return new AgentUnavailableError(
        `no answer to ${method} in ${waitedMs | 0} ms: ${watch.name_} is ${state}: ${step}`,
        { state, waitedMs },
      );
    };

    for (;;) {
      const agent = await within<RemoteParticipantLike>(
        until - now(),
        signal,
        (resolve, reject) =>
          watch.follow_(({ isThere, state }, agent) => {
            if (isThere) resolve(agent as RemoteParticipantLike);
            if (/lost|closed/.test(state)) reject(unavailable());
          }),
        unavailable,
      );
      const ms = timeoutMs == null ? EXCHANGE_MS : until - now();
      try {
        return await within<string>(
          ms,
          signal,
          (resolve, reject) => {
            room.localParticipant
              ?.performRpc({
                destinationIdentity: agent.identity,
                method,
                payload,
                responseTimeout: Math.ceil(ms) + SDK_KEEPS_MS, // a fraction ends the process
              })
              .then(
                (answer) => {
                  watch.answered_(agent);
                  resolve(answer);
                },
                (error?: RpcErrorLike) => {
                  const refused = decodeRefusal(error ?? ({} as RpcErrorLike)); // whatever an SDK rejects with
                  if (refused || error?.code === UNSUPPORTED_METHOD) watch.answered_(refused && agent);
                  reject(refused ?? error);
                },
              );
            return watch.follow_(({ state }) => {
              if (state === "closed") reject(closedError());
              if (state === "lost") reject(new RpcError(RECIPIENT_DISCONNECTED, "Recipient disconnected"));
            });
          },
          () => new RpcError(RESPONSE_TIMEOUT, "Response timeout"),
        );
      } catch (error) {
        const code = (error as RpcErrorLike | undefined)?.code;
        const left = until - now() - LAST_TRY_MS; // in less, a try may end in 1502, which hides the cause
        // Nothing ran, or LiveKit lost it, which befalls an agent that has just joined; if not, the agent knows its id.
        const mayAskAgain =
          code === CONNECTION_TIMEOUT ? left > 0 && watch.agent_() === agent : code === UNSUPPORTED_METHOD;
        if (!mayAskAgain) throw error;
        if (left <= 0) throw unavailable("active");
        await within<unknown>(Math.min(PAUSE_MS, left), signal, watch.onChange_);
      }
    }
  };
