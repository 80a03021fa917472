/** The agent's messages, from LiveKit's text streams to whole messages in the order in which they were sent. */

import { MESSAGE } from "./contract.js";
import { type AgentMessage, decodeMessage } from "./envelope.js";
import { RoomInUseError } from "./errors.js";
import { type Delivery, inOrder } from "./ordering.js";
import { type RoomLike, streamId, type TextReader } from "./room.js";
import type { MessageCounts } from "./types.js";
import { now, within } from "./waiting.js";

const IDLE_MS = 15_000;
const UNDECIDED_MS = 5_000;
const LOOK_AGAIN_MS = 50;

/** The whole text of a stream, given up when nothing comes for 15 s: before 2.15.5, livekit-client waits for ever. */
async function readText(reader: TextReader, signal: AbortSignal): Promise<string> {
  const chunks = reader[Symbol.asyncIterator]();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await within<IteratorResult<string>>(
        IDLE_MS,
        signal,
        (resolve, reject) => void chunks.next().then(resolve, reject),
        () => Error(`nothing for ${IDLE_MS} ms`),
      );
      if (done) return text;
      text += value;
    }
  } catch (error) {
    chunks.return?.()?.catch(() => {});
    throw error;
  }
}

/**
 * Takes the topic `curb.message` of a room until the signal is aborted. Throws `RoomInUseError`.
 *
 * @param isAgent whether an identity is the agent's; undefined while the room does not know it.
 * @param deliver called with each whole message of the agent and its identity, in order.
 */
export function openInbox(
  room: RoomLike,
  isAgent: (identity: string) => boolean | undefined,
  deliver: (message: AgentMessage, sender: string) => void,
  counts: MessageCounts,
  warn: (text: string) => void,
  signal: AbortSignal,
): void {
  const senders = new Map<string, ReturnType<typeof inOrder<AgentMessage>>>();

  /** The message, once it is whole and known to be the agent's. */
  const read = async (reader: TextReader, sender: string): Promise<AgentMessage | undefined> => {
    let trouble: "incomplete" | "foreign" | "malformed" = "incomplete";
    try {
      const text = await readText(reader, signal);
      trouble = "foreign";
      const givenUp = now() + UNDECIDED_MS;
      let verdict: boolean | undefined;
      while ((verdict = isAgent(sender)) === undefined && now() < givenUp)
        await within<void>(LOOK_AGAIN_MS, signal, () => undefined);
      if (!verdict) throw Error("its sender is not the agent");
      trouble = "malformed";
      return decodeMessage(text, streamId(reader));
    } catch (error) {
      if (signal.aborted) return;
      counts[trouble]++;
      warn(`a message from "${sender}" is ${trouble} and dropped: ${(error as Error).message}`);
    }
  };

  const opened = async (reader: TextReader, { identity: sender }: { identity: string }): Promise<void> => {
    if (sender === room.localParticipant?.identity) return;
    const queue = senders.get(sender) ?? inOrder<AgentMessage>();
    senders.set(sender, queue);
    const stream = queue.start();
    const message = await read(reader, sender);

    const handOut = (deliveries: Delivery<AgentMessage>[]): void => {
      if (signal.aborted) return;
      for (const { message, late } of deliveries) {
        if (late) {
          counts.late++;
          warn(`the agent's message "${message.key}" completed late; later ones came before it`);
        }
        deliver(message, sender);
      }
      const deadline = queue.deadline();
      clearTimeout(queue.timer);
      if (deadline < Infinity)
        queue.timer = setTimeout(() => handOut(queue.overtake(now())), Math.ceil(deadline - now()));
    };
    handOut(queue.end(stream, message, now()));
  };

  try {
    room.registerTextStreamHandler(MESSAGE, opened);
  } catch (cause) {
    throw new RoomInUseError(`the room has another text stream handler for ${MESSAGE}; unregister it`, { cause });
  }
  signal.addEventListener("abort", () => room.unregisterTextStreamHandler(MESSAGE));
}
