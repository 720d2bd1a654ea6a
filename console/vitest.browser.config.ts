import { defineConfig } from 'vitest/config';

/** What takes minutes has a command of its own. */
const APART = { SHOTS: 'browser/shots.test.ts', SOAK: 'browser/real/soak.test.ts' };
const chosen = Object.entries(APART).find(([name]) => process.env[name])?.[1];

// Three files at a time, because a browser mostly waits.
export default defineConfig({
  test: {
    include: [chosen ?? 'browser/**/*.test.ts'],
    exclude: chosen ? [] : Object.values(APART),
    testTimeout: 60_000,
    hookTimeout: 90_000,
    maxWorkers: 3,
  },
});
