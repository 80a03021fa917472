/** Every wait has a deadline, ends when its signal is aborted, and leaves nothing behind. */

export const now = (): number => performance.now();

type Resolve<T> = (value: T | PromiseLike<T>) => void;
type Reject = (reason: unknown) => void;

/**
 * A promise that `start` settles, now or later, or `late` when `ms` are over, or the signal's reason when it is aborted.
 * What `start` returns is called at the end. Without `late` it resolves at the end of the time.
 */
export function within<T>(
  ms: number,
  signal: AbortSignal | undefined,
  start: (resolve: Resolve<T>, reject: Reject) => (() => void) | undefined,
  late?: () => Error,
): Promise<T> {
  let abort = () => {};
  let timer: ReturnType<typeof setTimeout>;
  let stop: (() => void) | undefined;
  return new Promise<T>((resolve, reject) => {
    signal?.throwIfAborted();
    abort = () => reject((signal as AbortSignal).reason);
    signal?.addEventListener("abort", abort);
    timer = setTimeout(() => (late ? reject(late()) : resolve(undefined as T)), ms);
    stop = start(resolve, reject);
  }).finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
    stop?.();
  });
}

/** Puts the item last; the returned function takes it out. */
export const addTo = <T>(all: Set<T>, item: T): (() => void) => {
  all.add(item);
  return () => all.delete(item);
};

/** Where the platform's uncaught errors go. */
export const report = (error: unknown): void => (globalThis.reportError ?? console.error)(error);

/** Call a user's function, plain or async; what it throws is reported. */
export const callSafely = async <Parameters extends unknown[]>(
  work: (...parameters: Parameters) => unknown,
  ...parameters: Parameters
): Promise<void> => {
  try {
    await work(...parameters);
  } catch (error) {
    report(error);
  }
};
