/** Every wait has a deadline, ends when its signal is aborted, and leaves nothing behind. */

import { AGENT_WAIT_MS, MAX_TIMEOUT_MS } from "./contract.js";
import { InvalidTimeoutError } from "./errors.js";

export const now = (): number => performance.now();

type Resolve<T> = (value: T | PromiseLike<T>) => void;
type Reject = (reason: unknown) => void;

/**
 * A promise that `start` settles, now or later, or `late` when `ms` are over, or the signal's reason when it is aborted.
 * What `start` returns is called at the end. Without `late` it resolves at the end of the time.
 */
export const within = async <T>(
  ms: number,
  signal: AbortSignal | undefined,
  start: (resolve: Resolve<T>, reject: Reject) => (() => void) | undefined,
  late?: () => Error,
): Promise<T> => {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stop: (() => void) | undefined;
  let abort!: () => void;
  if (signal?.aborted) throw signal.reason;
  try {
    return await new Promise<T>((resolve, reject) => {
      abort = () => reject((signal as AbortSignal).reason);
      signal?.addEventListener("abort", abort);
      timer = setTimeout(() => (late ? reject(late()) : (resolve as () => void)()), ms);
      stop = start(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
    stop?.();
  }
};

/** The time in milliseconds, 10 s by default. Throws `InvalidTimeoutError`. */
export const checkTimeout = (ms: number = AGENT_WAIT_MS): number => {
  if (typeof ms === "number" && ms >= 0 && ms <= MAX_TIMEOUT_MS) return ms;
  throw new InvalidTimeoutError(`timeoutMs must be 0 to ${MAX_TIMEOUT_MS}, not ${ms}`);
};

/** Do what calls a user's function, plain or async; what that throws is reported. */
export const safely = async (work: () => unknown): Promise<void> => {
  try {
    await work();
  } catch (error) {
    (globalThis.reportError ?? console.error)(error); // where the platform's uncaught errors go
  }
};
