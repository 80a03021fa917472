/** The agent's messages, from LiveKit's text streams to whole messages in the order in which they were sent. */

import { MAX_MESSAGE_BYTES, MAX_OPEN_BYTES, MAX_OPEN_MESSAGES } from "./contract.js";
import { type AgentMessage, bytesOf, decodeMessage } from "./envelope.js";
import { inOrder } from "./ordering.js";
import type { Watch } from "./presence.js";
import type { RoomLike, TextReader } from "./room.js";
import type { MessageCounts } from "./types.js";
import { now, within } from "./waiting.js";

const IDLE_MS = 15_000;
const UNDECIDED_MS = 5_000;

/**
 * Takes what is left of a stream: livekit-client keeps what nobody reads, rtc-node ends a stream that is returned. A
 * stream that never ends has no deadline here: each chunk is let go of as it comes, and to stop reading would leave the
 * rest in livekit-client's memory. What stays is one pending read, which goes with the stream.
 */
const discard = async (reader: TextReader, chunks: AsyncIterator<string>): Promise<void> => {
  try {
    await chunks.return?.();
    for await (const _ of reader);
  } catch {}
};

/** Counts what is wrong with a message, and warns of it. */
export type Count = (what: Exclude<keyof MessageCounts, "unhandled">, text: string) => void;

/**
 * A handler of text streams, until the signal is aborted.
 *
 * @param deliver called with each whole message of the agent and its identity, in order.
 */
export const makeInbox = (
  room: RoomLike,
  watch: Pick<Watch, "isAgent_" | "onChange_">,
  deliver: (message: AgentMessage, sender: string) => void,
  count: Count,
  signal: AbortSignal,
): ((reader: TextReader, sender: { identity: string }) => void) => {
  const senders = new Map<string, ReturnType<typeof inOrder<AgentMessage>>>();
  let openMessages = 0;
  let openBytes = 0;

  /** The message, once it is whole and known to be the agent's. */
  const read = async (reader: TextReader, sender: string): Promise<AgentMessage | undefined> => {
    let trouble: Parameters<Count>[0] = "foreign";
    const limit = (size: number, most: number, text: string): void => {
      if (size <= most) return;
      trouble = "overLimit";
      throw Error(`over ${most} ${text}`);
    };
    let text = "";
    let size = 0;
    const chunks = reader[Symbol.asyncIterator]();
    openMessages++;
    try {
      watch.isAgent_(sender, Infinity);
      limit(openMessages, MAX_OPEN_MESSAGES, "are not whole yet");
      trouble = "incomplete";
      for (;;) {
        // Without a deadline, livekit-client before 2.15.5 waits for ever when the sender leaves.
        const { value, done } = await within<IteratorResult<string>>(
          IDLE_MS,
          signal,
          (resolve, reject) => void chunks.next().then(resolve, reject),
          () => Error(`nothing in ${IDLE_MS} ms`),
        );
        if (done) break;
        const bytes = bytesOf(value);
        size += bytes;
        openBytes += bytes;
        limit(size, MAX_MESSAGE_BYTES, "bytes; send a reference");
        limit(openBytes, MAX_OPEN_BYTES, "bytes are not whole yet");
        text += value;
      }
      trouble = "foreign";
      const until = now() + UNDECIDED_MS;
      while (!watch.isAgent_(sender, until)) await within<unknown>(until - now(), signal, watch.onChange_);
      trouble = "malformed";
      return decodeMessage(text, (reader.info.id ?? reader.info.streamId) as string);
    } catch (error) {
      void discard(reader, chunks);
      if (signal.aborted) return;
      count(trouble, `a message from "${sender}" is dropped (${trouble}): ${(error as Error).message}`);
    } finally {
      openMessages--;
      openBytes -= size;
    }
  };

  return (reader, { identity: sender }) => {
    if (sender === room.localParticipant?.identity) return;
    const start =
      senders.get(sender) ??
      inOrder<AgentMessage>((message, late) => {
        if (signal.aborted) return;
        if (late) count("late", `a message "${message.key}" came late`);
        deliver(message, sender);
      });
    senders.set(sender, start);
    void read(reader, sender).then(start());
  };
};
