import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test('the lockfile names no download address: npm takes packages from the registry that is configured', () => {
  const text = readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8');
  expect(text).not.toContain('"resolved"');
  expect(text).not.toMatch(/https?:\/\/[^"]*\.tgz/);
});
