// Times of the fixture are relative to the start of the mock server.
export const start = Date.now();
export const ago = (seconds) => new Date(start - seconds * 1000).toISOString();
export const at = (ms) => new Date(ms).toISOString();

/** A repeatable series, so that two runs draw the same curves. */
export function series(length, seed, shape) {
  let state = seed * 2654435761;
  return Array.from({ length }, (_, index) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.max(0, shape(index / (length - 1), state / 2147483648));
  });
}
