/** The agent's messages, from LiveKit's text streams to whole messages in the order in which they were sent. */

import { MAX_MESSAGE_BYTES, MAX_OPEN_BYTES, MAX_OPEN_MESSAGES } from "./contract.js";
import { type AgentMessage, bytesOf, decodeMessage } from "./envelope.js";
import { inOrder } from "./ordering.js";
import { type RoomLike, streamId, type TextReader } from "./room.js";
import type { MessageCounts } from "./types.js";
import { now, within } from "./waiting.js";

const IDLE_MS = 15_000;
const UNDECIDED_MS = 5_000;
const NOT_THE_AGENT = "not the agent";

/** Takes what is left of a stream: livekit-client keeps what nobody reads, rtc-node ends a stream that is returned. */
const discard = async (reader: TextReader, chunks: AsyncIterator<string>): Promise<void> => {
  try {
    await chunks.return?.();
    for await (const _ of reader);
  } catch {}
};

/**
 * A handler of text streams, until the signal is aborted.
 *
 * @param isAgent whether an identity is the agent's; undefined while the room does not know it.
 * @param change resolves when that may have changed, at the latest after so many milliseconds.
 * @param deliver called with each whole message of the agent and its identity, in order.
 */
export const makeInbox = (
  room: RoomLike,
  isAgent: (identity: string) => boolean | undefined,
  change: (ms: number, signal: AbortSignal) => Promise<unknown>,
  deliver: (message: AgentMessage, sender: string) => void,
  counts: MessageCounts,
  warn: (text: string) => void,
  signal: AbortSignal,
): ((reader: TextReader, sender: { identity: string }) => void) => {
  const senders = new Map<string, ReturnType<typeof inOrder<AgentMessage>>>();
  let openMessages = 0;
  let openBytes = 0;

  /** The message, once it is whole and known to be the agent's. */
  const read = async (reader: TextReader, sender: string): Promise<AgentMessage | undefined> => {
    let trouble: "incomplete" | "foreign" | "malformed" | "overLimit" = "incomplete";
    const dropIf = (so: boolean, why: typeof trouble, text: string): void => {
      trouble = why;
      if (so) throw Error(text);
      trouble = "incomplete";
    };
    const chunks = reader[Symbol.asyncIterator]();
    let text = "";
    let size = 0;
    let verdict = isAgent(sender);
    openMessages++;
    try {
      dropIf(verdict === false, "foreign", NOT_THE_AGENT);
      dropIf(openMessages > MAX_OPEN_MESSAGES, "overLimit", `over ${MAX_OPEN_MESSAGES} are not whole yet`);
      for (;;) {
        // Without a deadline, livekit-client before 2.15.5 waits for ever when the sender leaves.
        const { value, done } = await within<IteratorResult<string>>(
          IDLE_MS,
          signal,
          (resolve, reject) => void chunks.next().then(resolve, reject),
          () => Error(`nothing for ${IDLE_MS} ms`),
        );
        if (done) break;
        const bytes = bytesOf(value);
        size += bytes;
        openBytes += bytes;
        dropIf(size > MAX_MESSAGE_BYTES, "overLimit", `over ${MAX_MESSAGE_BYTES} bytes; send a reference`);
        dropIf(openBytes > MAX_OPEN_BYTES, "overLimit", `over ${MAX_OPEN_BYTES} bytes are not whole yet`);
        text += value;
      }
      const givenUp = now() + UNDECIDED_MS;
      while ((verdict = isAgent(sender)) === undefined && now() < givenUp) await change(givenUp - now(), signal);
      dropIf(!verdict, "foreign", NOT_THE_AGENT);
      trouble = "malformed";
      return decodeMessage(text, streamId(reader));
    } catch (error) {
      void discard(reader, chunks);
      if (signal.aborted) return;
      counts[trouble]++;
      warn(`a message from "${sender}" is dropped (${trouble}): ${(error as Error).message}`);
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
        if (late) {
          counts.late++;
          warn(`the agent's message "${message.key}" came after later ones`);
        }
        deliver(message, sender);
      });
    senders.set(sender, start);
    void read(reader, sender).then(start());
  };
};
