// A trace as rows of a tree with bars on one time axis.
import type { Consumption, EventSummary, Trace, TraceNode } from '../api/pending';
import type { DeliveryState } from '../components/Status';

export type WaterBar = { from: number; to: number; kind: 'wait' | 'good' | 'bad' | 'gap' | 'span' };
export type WaterRow = {
  id: string;
  kind: 'stub' | 'event' | 'consumer';
  depth: number;
  /** For each level above, whether its line goes on below this row. */
  guides: boolean[];
  name: string;
  note: string;
  event?: EventSummary;
  state?: DeliveryState;
  attempts: Consumption[];
  start: number;
  bars: WaterBar[];
  end: number;
  failed: boolean;
};
export type Waterfall = { rows: WaterRow[]; start: number; end: number; cut: number; workMs: number };

function barsOf(attempts: Consumption[], created: number): WaterBar[] {
  const bars: WaterBar[] = [];
  let before = created;
  for (const [index, each] of attempts.entries()) {
    const to = Date.parse(each.consumedAt ?? each.createdAt);
    const from = each.startedAt ? Date.parse(each.startedAt) : to - (each.durationMs ?? 0);
    bars.push({ from: before, to: from, kind: index === 0 ? 'wait' : 'gap' });
    bars.push({ from, to, kind: each.success ? 'good' : 'bad' });
    before = to;
  }
  return bars;
}

function stateOf(node: TraceNode, consumerId: string, attempts: Consumption[]): DeliveryState {
  if (attempts.some((each) => each.success)) return 'done';
  const delivery = node.deliveries?.find((each) => each.consumerId === consumerId);
  if (delivery?.status === 'DEAD') return 'dead';
  if (delivery?.held) return 'held';
  if (delivery?.status === 'PROCESSING') return 'delivering';
  const last = attempts.at(-1);
  if (last) return last.willRetry || delivery ? 'retrying' : 'dead';
  return 'waiting';
}

type Item = { row: Omit<WaterRow, 'guides' | 'depth'>; children: Item[] };

function itemOf(node: TraceNode): Item {
  const created = Date.parse(node.createdAt);
  const done = (node.consumptions ?? []).filter((each) => each.attemptNo > 0);
  const ids = [
    ...new Set([
      ...done.map((each) => each.consumerId),
      ...(node.deliveries ?? []).flatMap((each) => each.consumerId ?? []),
    ]),
  ];
  const ends = done.map((each) => Date.parse(each.consumedAt ?? each.createdAt));
  const sent = node.sentAt ? Date.parse(node.sentAt) : created;
  const end = Math.max(sent, ...ends);
  const left = [...node.children];
  const consumers = ids.map((consumerId): Item => {
    const attempts = done.filter((each) => each.consumerId === consumerId).sort((a, b) => a.attemptNo - b.attemptNo);
    const state = stateOf(node, consumerId, attempts);
    // An event that a consumer's own service wrote belongs below that consumer.
    const caused = left.filter((child) => child.initiator.service === consumerId);
    for (const child of caused) left.splice(left.indexOf(child), 1);
    const bars = barsOf(attempts, created);
    return {
      row: {
        id: `${node.eventId} ${consumerId}`,
        kind: 'consumer',
        name: consumerId,
        note: '',
        event: node,
        state,
        attempts,
        start: bars[1]?.from ?? sent,
        bars,
        end: bars.at(-1)?.to ?? sent,
        failed: state === 'dead',
      },
      children: caused.map(itemOf),
    };
  });
  const single =
    consumers.length === 1 &&
    consumers[0]!.row.attempts.length === 1 &&
    consumers[0]!.row.state === 'done' &&
    node.children.length === 0 &&
    node.parentEventId !== null &&
    node.consumptions !== undefined;
  const bars: WaterBar[] = single
    ? consumers[0]!.row.bars
    : [
        { from: created, to: sent, kind: 'wait' },
        { from: sent, to: end, kind: 'span' },
      ];
  return {
    row: {
      id: node.eventId,
      kind: 'event',
      name: node.topic,
      note: node.initiator.service ?? '',
      event: node,
      attempts: done,
      start: created,
      bars,
      end,
      failed: node.failedConsumers > 0,
    },
    children: [...consumers, ...left.map(itemOf)],
  };
}

function flatten(items: Item[], guides: boolean[], rows: WaterRow[]): void {
  for (const [index, item] of items.entries()) {
    const last = index === items.length - 1;
    rows.push({ ...item.row, depth: guides.length, guides: [...guides, !last] });
    flatten(item.children, [...guides, !last], rows);
  }
}

export function waterfallOf(trace: Trace): Waterfall {
  const known = new Set(trace.events.map((each) => each.eventId));
  const items: Item[] = [];
  for (const root of trace.roots) {
    const parent = root.parentEventId;
    if (!parent || known.has(parent)) {
      items.push(itemOf(root));
      continue;
    }
    let stub = items.find((each) => each.row.kind === 'stub' && each.row.id === parent);
    if (!stub) {
      stub = {
        row: {
          id: parent,
          kind: 'stub',
          name: parent,
          note: '',
          attempts: [],
          start: 0,
          bars: [],
          end: 0,
          failed: false,
        },
        children: [],
      };
      items.push(stub);
    }
    stub.children.push(itemOf(root));
  }
  const rows: WaterRow[] = [];
  flatten(items, [], rows);
  const timed = rows.filter((row) => row.kind !== 'stub');
  const start = Math.min(...timed.map((row) => row.start), ...timed.flatMap((row) => row.bars.map((bar) => bar.from)));
  const end = Math.max(start + 1, ...timed.flatMap((row) => row.bars.map((bar) => bar.to)));
  // What comes after the last success and the last first try is only waiting for retries.
  const busy = timed
    .filter((row) => row.kind === 'consumer')
    .flatMap((row) => [
      row.bars[1]?.to ?? start,
      ...row.bars.filter((bar) => bar.kind === 'good').map((bar) => bar.to),
    ]);
  const cut = Math.max(start + 1, ...busy);
  const workMs = timed
    .filter((row) => row.kind === 'consumer')
    .flatMap((row) => row.bars)
    .filter((bar) => bar.kind === 'good' || bar.kind === 'bad')
    .reduce((sum, bar) => sum + bar.to - bar.from, 0);
  return { rows, start, end, cut: start + (cut - start) * 1.06, workMs };
}

/** The share of the axis at a time. With collapsed idle time, what lies behind the cut gets the last part. */
export function shareOf(fall: Waterfall, at: number, collapse: boolean): number {
  if (!collapse || fall.end - fall.cut < (fall.cut - fall.start) * 0.5) {
    return ((at - fall.start) / (fall.end - fall.start)) * 0.9;
  }
  if (at <= fall.cut) return ((at - fall.start) / (fall.cut - fall.start)) * 0.74;
  return 0.78 + ((at - fall.cut) / (fall.end - fall.cut)) * 0.08;
}

export function isCollapsed(fall: Waterfall, collapse: boolean): boolean {
  return collapse && fall.end - fall.cut >= (fall.cut - fall.start) * 0.5;
}
