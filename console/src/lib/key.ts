/** A key that names one intention, so that a request that is sent again does nothing twice. */
export function newIdempotencyKey(): string {
  // `crypto.randomUUID` is missing where the console is served without TLS.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
