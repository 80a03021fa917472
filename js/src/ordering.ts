/** Handing messages out in the order in which their streams started, without letting a stuck one block the rest. */

import { OVERTAKE_MS } from "./contract.js";

interface Stream<T> {
  /** It ended, or was overtaken. */
  done_?: true;
  message_?: T | undefined;
  timer_?: ReturnType<typeof setTimeout>;
}

/**
 * One sender's streams: the returned function starts one, and returns what ends it, with its message or without. A
 * message waits for the streams before it, each for at most `patience` milliseconds after the first later message was
 * complete; a stream overtaken like that is delivered late if it completes after all.
 *
 * @param deliver called with each message; `late`: messages that started after it were delivered before it.
 */
export const inOrder = <T>(deliver: (message: T, late?: true) => void, patience: number = OVERTAKE_MS) => {
  const queue: Stream<T>[] = [];

  const settle = (stream: Stream<T>, message?: T): void => {
    stream.done_ = true;
    stream.message_ = message;
    while (queue[0]?.done_) {
      const { message_ } = queue.shift() as Stream<T>;
      if (message_) deliver(message_);
    }
  };

  return () => {
    const stream: Stream<T> = {};
    queue.push(stream);

    return (message: T | undefined): void => {
      clearTimeout(stream.timer_);
      if (!stream.done_) {
        if (message)
          for (const earlier of queue.slice(0, queue.indexOf(stream)))
            if (!earlier.done_) earlier.timer_ ??= setTimeout(settle, patience, earlier);
        settle(stream, message);
      } else if (message) deliver(message, true); // overtaken
    };
  };
};
