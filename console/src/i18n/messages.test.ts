import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { en } from './messages-en';
import { zh } from './messages-zh';
import { fill, holes } from './translate';

const SRC = new URL('..', import.meta.url).pathname;

/** Words fixed once for the product. */
const FIXED: [keyof typeof en, string, string][] = [
  ['nav.events', 'Events', '事件'],
  ['nav.consumers', 'Consumers', '消费者'],
  ['nav.subscriptions', 'Subscriptions', '订阅关系'],
  ['nav.traces', 'Traces', '链路'],
  ['nav.operations', 'Operations', '批量操作'],
  ['nav.audit', 'Audit', '审计'],
  ['keys.redrive', 'Redrive', '重新投递'],
  ['tile.backlog', 'Backlog', '积压'],
  ['col.dead', 'Dead', '死信'],
  ['status.PENDING', 'Pending', '待发送'],
  ['status.SENT', 'Sent', '已发送'],
  ['status.RETRYING', 'Retrying', '重试中'],
  ['status.CONSUMED', 'Consumed', '已消费'],
  ['status.PARTIAL', 'Partial', '部分成功'],
  ['status.FAILED', 'Failed', '失败'],
  ['status.EXPIRED', 'Expired', '已过期'],
];

describe('the two languages', () => {
  test('have the same names', () => {
    expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
  });
  test('no text is empty, and both have the same values', () => {
    for (const key of Object.keys(en) as (keyof typeof en)[]) {
      expect(zh[key].length, key).toBeGreaterThan(0);
      expect(holes(zh[key]), key).toEqual(holes(en[key]));
    }
  });
  test('every text is used', () => {
    const code = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.tsx?$/.test(name) && !/messages-|\.test\./.test(name))
      .map((name) => readFileSync(join(SRC, name), 'utf8'))
      .join('');
    // Names that are put together, such as `status.${status}`.
    const stems = [...code.matchAll(/`([a-z][\w.]*\.)\$\{/g)].map((match) => match[1]!);
    const unused = Object.keys(en).filter(
      (key) => !code.includes(`'${key}'`) && !stems.some((stem) => key.startsWith(stem)),
    );
    expect(unused).toEqual([]);
  });
  test.each(FIXED)('%s is %s and %s', (key, english, chinese) => {
    expect(en[key]).toBe(english);
    expect(zh[key]).toBe(chinese);
  });
  test('a value picks between one and many', () => {
    expect(fill('{n} {n?event:events}', { n: 1 })).toBe('1 event');
    expect(fill('{n} {n?event:events}', { n: 2 })).toBe('2 events');
  });
});
