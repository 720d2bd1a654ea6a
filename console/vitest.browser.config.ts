import { defineConfig } from 'vitest/config';

// Pictures of every page take minutes: `npm run shots` makes them. Three files at a time, because a browser mostly waits.
export default defineConfig({
  test: {
    include: [process.env.SHOTS ? 'browser/shots.test.ts' : 'browser/**/*.test.ts'],
    exclude: process.env.SHOTS ? [] : ['browser/shots.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 90_000,
    maxWorkers: 3,
  },
});
