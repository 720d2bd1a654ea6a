// The life of an event as steps and bars, and its state at any instant.
import type { EventDetail } from '../api/pending';
import { historyOf, partsOf } from './event';
import { type ConsumerStand, consumerAt, type Status, statusAt } from './status';

export type Step = {
  at: number;
  kind: 'written' | 'sent' | 'done' | 'failed';
  consumerId?: string;
  tookMs?: number;
  error?: string;
  status: Status;
  done: number;
};
export type Bar = { from: number; to: number; kind: 'wait' | 'good' | 'bad' | 'gap' };
export type Lane = { consumerId: string; bars: Bar[]; ends: { at: number; good: boolean }[] };
export type Timeline = {
  start: number;
  end: number;
  sentAt: number | null;
  steps: Step[];
  lanes: Lane[];
  expected: number;
};

export function timelineOf(event: EventDetail, now: number): Timeline {
  const history = historyOf(event);
  const start = Date.parse(event.createdAt);
  const sentAt = history.sentAt;
  const doneAt = (at: number) => history.expected.filter((id) => consumerAt(history, id, at) === 'ok').length;
  const step = (at: number, kind: Step['kind'], rest: Partial<Step> = {}): Step => ({
    at,
    kind,
    status: statusAt(history, at),
    done: doneAt(at),
    ...rest,
  });
  const steps: Step[] = [step(start, 'written')];
  // A result of the same millisecond came after it.
  if (sentAt !== null) steps.push(step(sentAt, 'sent', { status: 'SENT', done: doneAt(sentAt - 1) }));
  const lanes: Lane[] = [];
  for (const part of partsOf(event)) {
    const lane: Lane = { consumerId: part.consumerId, bars: [], ends: [] };
    let before = sentAt ?? start;
    for (const [index, attempt] of part.attempts.entries()) {
      const to = Date.parse(attempt.consumedAt ?? attempt.createdAt);
      const from = attempt.startedAt ? Date.parse(attempt.startedAt) : to - (attempt.durationMs ?? 0);
      const good = attempt.success === true;
      lane.bars.push({ from: before, to: from, kind: index === 0 ? 'wait' : 'gap' });
      lane.bars.push({ from, to, kind: good ? 'good' : 'bad' });
      lane.ends.push({ at: to, good });
      steps.push(
        step(to, good ? 'done' : 'failed', {
          consumerId: part.consumerId,
          tookMs: attempt.durationMs ?? undefined,
          error: attempt.errorCode ?? attempt.errorMessage ?? undefined,
        }),
      );
      before = to;
    }
    if (part.state !== 'done' && part.state !== 'dead')
      lane.bars.push({ from: before, to: now, kind: part.attempts.length > 0 ? 'gap' : 'wait' });
    lanes.push(lane);
  }
  steps.sort((a, b) => a.at - b.at);
  const unfinished = event.status !== 'CONSUMED' && event.status !== 'EXPIRED';
  const end = Math.max(start + 1, unfinished ? now : 0, ...steps.map((each) => each.at));
  return {
    start,
    end,
    sentAt,
    steps,
    lanes: lanes.sort((a, b) => (a.ends.at(-1)?.at ?? now) - (b.ends.at(-1)?.at ?? now)),
    expected: history.expected.length,
  };
}

/** Early milliseconds get as much room as late minutes. */
export function stretch(line: Timeline, at: number): number {
  const unit = 50;
  const log = (ms: number) => Math.log10(1 + Math.max(0, ms) / unit);
  return Math.min(1, log(at - line.start) / log(line.end - line.start));
}

/** The instant at a share of the stretched axis. */
export function unstretch(line: Timeline, share: number): number {
  const unit = 50;
  const whole = Math.log10(1 + (line.end - line.start) / unit);
  return line.start + (10 ** (Math.min(1, Math.max(0, share)) * whole) - 1) * unit;
}

export function standAt(event: EventDetail, consumerId: string, at: number): ConsumerStand {
  return consumerAt(historyOf(event), consumerId, at);
}

export function statusThen(event: EventDetail, at: number): Status {
  return statusAt(historyOf(event), at);
}

/** Where the time went, in milliseconds. */
export function spent(line: Timeline): { outbox: number; good: number; vain: number; between: number } {
  const sum = (kind: Bar['kind']) =>
    line.lanes
      .flatMap((lane) => lane.bars)
      .filter((bar) => bar.kind === kind)
      .reduce((total, bar) => total + bar.to - bar.from, 0);
  return { outbox: (line.sentAt ?? line.end) - line.start, good: sum('good'), vain: sum('bad'), between: sum('gap') };
}
