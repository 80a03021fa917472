/** How a promise ended, and when. */
export const ending = <T>(promise: Promise<T>) => {
  const started = performance.now();
  const end: { value?: T; error?: unknown; ms?: number } = {};
  promise.then(
    (value) => Object.assign(end, { value, ms: performance.now() - started }),
    (error) => Object.assign(end, { error, ms: performance.now() - started }),
  );
  return end;
};
