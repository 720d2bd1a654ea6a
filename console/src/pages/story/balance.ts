// What moved, and came back. A delta is text such as "-40.00 frozen": a number and a word.
import type { StoryEffect, StoryEvent } from '../../api/pending';

export type Move = { delta: string; at: string | null; dueAt: string | null; open: boolean; undo: boolean };
export type Asset = { name: string; kind: string | null; moves: Move[]; net: string };
export type Open = { event: StoryEvent; effect: StoryEffect };

/** Decimal digits after the point that a sum keeps. */
const SCALE = 4;

function amountOf(delta: string): { units: bigint; digits: number } {
  const match = /^([+-]?)(\d+)(?:\.(\d+))?/.exec(delta.trim());
  if (!match) return { units: 0n, digits: 0 };
  const fraction = (match[3] ?? '').slice(0, SCALE);
  const units = BigInt(match[2] + fraction.padEnd(SCALE, '0'));
  return { units: match[1] === '-' ? -units : units, digits: fraction.length };
}

function text(units: bigint, digits: number): string {
  const size = units < 0n ? -units : units;
  const raw = size.toString().padStart(SCALE + 1, '0');
  const whole = raw.slice(0, -SCALE);
  const fraction = raw.slice(-SCALE).slice(0, digits);
  return `${units < 0n ? '−' : units > 0n ? '+' : ''}${whole}${fraction ? `.${fraction}` : ''}`;
}

/** Every asset with its moves in the order of time and what is left of them. Open moves do not count yet. */
export function assetsOf(events: StoryEvent[]): Asset[] {
  const map = new Map<string, { kind: string | null; moves: Move[]; units: bigint; digits: number }>();
  for (const effect of events.flatMap((event) => event.effects)) {
    if (!effect.asset || !effect.delta) continue;
    const asset = map.get(effect.asset) ?? { kind: effect.assetKind ?? null, moves: [], units: 0n, digits: 0 };
    const open = effect.state !== 'done';
    const { units, digits } = amountOf(effect.delta);
    if (!open) asset.units += units;
    asset.digits = Math.max(asset.digits, digits);
    asset.moves.push({
      delta: effect.delta.replace(/^-/, '−'),
      at: effect.at ?? null,
      dueAt: effect.dueAt ?? null,
      open,
      undo: !!effect.undoes,
    });
    map.set(effect.asset, asset);
  }
  return [...map].map(([name, { kind, moves, units, digits }]) => ({ name, kind, moves, net: text(units, digits) }));
}

export function isBalanced(asset: Asset): boolean {
  return /^0(\.0*)?$/.test(asset.net);
}

/** What has still to happen. */
export function openParts(events: StoryEvent[]): Open[] {
  return events.flatMap((event) =>
    event.effects.filter((effect) => effect.state !== 'done').map((effect) => ({ event, effect })),
  );
}
