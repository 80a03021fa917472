/** Handing messages out in the order in which their streams started, without letting a stuck one block the rest. */

import { OVERTAKE_MS } from "./contract.js";

export interface Delivery<T> {
  message: T;
  /** Messages that started after it were handed out before it. */
  late: boolean;
}

interface Stream<T> {
  state: "open" | "done" | "overtaken";
  message?: T | undefined;
  /** Since when a later message has been complete. */
  since: number;
}

/**
 * One sender's streams. A complete message waits for the streams before it, each for at most `patience` milliseconds
 * after the first later message was complete; a stream overtaken like that is delivered late if it completes after all.
 */
export function inOrder<T>(patience: number = OVERTAKE_MS) {
  let queue: Stream<T>[] = [];

  const ready = (): Delivery<T>[] => {
    const deliveries: Delivery<T>[] = [];
    while (queue[0]?.state === "done") {
      const { message } = queue.shift() as Stream<T>;
      if (message) deliveries.push({ message, late: false });
    }
    return deliveries;
  };

  return {
    timer: undefined as ReturnType<typeof setTimeout> | undefined,

    start(): Stream<T> {
      const stream: Stream<T> = { state: "open", since: Infinity };
      queue.push(stream);
      return stream;
    },

    /** The stream is complete, or will never be; what can be handed out now. */
    end(stream: Stream<T>, message: T | undefined, now: number): Delivery<T>[] {
      if (stream.state === "overtaken") return message ? [{ message, late: true }] : [];
      stream.state = "done";
      stream.message = message;
      if (message)
        for (const earlier of queue.slice(0, queue.indexOf(stream))) earlier.since = Math.min(earlier.since, now);
      return ready();
    },

    /** What can be handed out because the streams before it have had their time. */
    overtake(now: number): Delivery<T>[] {
      queue = queue.filter((stream) => {
        if (stream.state === "open" && now >= stream.since + patience) stream.state = "overtaken";
        return stream.state !== "overtaken";
      });
      return ready();
    },

    /** When to call `overtake`; Infinity while nothing waits for an earlier stream. */
    deadline: (): number =>
      Math.min(...queue.map(({ state, since }) => (state === "open" ? since : Infinity))) + patience,
  };
}
