import { defineConfig } from 'vitest/config';

// One file at a time: each opens a browser, and machines that run this are small.
export default defineConfig({
  test: { include: ['browser/**/*.test.ts'], testTimeout: 40_000, hookTimeout: 60_000, fileParallelism: false },
});
