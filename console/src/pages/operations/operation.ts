import type { Query } from '../../api/client';
import type { FailureGroup, Operation } from '../../api/pending';
import type { Look } from '../../components/Status';
import { t } from '../../i18n';
import { redriveCommand } from '../../lib/cli';
import { number } from '../../lib/format';

/** Its short number. */
export function nameOf(operation: Operation): string {
  return `#${operation.number}`;
}

export function stateOf(operation: Operation): Look {
  if (operation.stoppedBecause) return { icon: 'cross', meaning: 'part', word: 'op.stopped' };
  switch (operation.state) {
    case 'RUNNING':
      return { icon: 'repeat', meaning: 'human', word: 'op.running' };
    case 'PAUSED':
      return { icon: 'pause', meaning: 'human', word: 'op.paused' };
    case 'CANCELLED':
      return { icon: 'cross', meaning: 'idle', calm: true, word: 'op.cancelled' };
    default:
      return { icon: 'check', meaning: 'ok', calm: true, word: 'op.done' };
  }
}

/** A failure group by its error, as long as the group is open; else by its id. */
function groupName(id: string, groups: FailureGroup[], alone: boolean): string {
  const group = groups.find((each) => each.groupId === id);
  if (!group) return id;
  const error = group.errorCode ?? group.fingerprint.slice(0, 40);
  return alone ? error : `${group.consumerId} ${error}`;
}

/** What it is about, in a few words. */
export function whatOf(operation: Operation, groups: FailureGroup[] = []): string {
  if (operation.eventIds)
    return operation.eventIds.length === 1
      ? t('op.event', { id: operation.eventIds[0] ?? '' })
      : t('op.events', { n: number(operation.eventIds.length) });
  const filter = Object.entries(operation.filter ?? {}).filter(
    ([name, value]) => value && !(name === 'consumerId' && value === operation.consumerId),
  );
  const text = filter.map(([name, value]) =>
    name === 'deliveryStatus' || name === 'status' ? String(value).toLowerCase() : `${name} ${value}`,
  );
  const ids = operation.failureGroups ?? (operation.failureGroup ? [operation.failureGroup] : []);
  text.push(...ids.map((id) => groupName(id, groups, operation.consumerId != null)));
  return [operation.consumerId, ...text].filter(Boolean).join(' · ') || t('wizard.everything');
}

/** What came of it. */
export function resultOf(operation: Operation): string {
  if (operation.stoppedBecause) return operation.stoppedBecause;
  const well = operation.delivered;
  const again = operation.failedAgain;
  const left = Math.max(0, (operation.total ?? operation.done) - operation.done);
  if (operation.state === 'CANCELLED') return t('op.untouched', { n: number(operation.done), m: number(left) });
  if (again > 0) return t('op.mixed', { n: number(well), m: number(again) });
  return operation.state === 'DONE' && operation.open === 0 ? t('op.well') : t('op.sofar', { n: number(well) });
}

export function cliOf(operation: Operation): string {
  return redriveCommand({
    eventIds: operation.eventIds,
    groups: operation.failureGroups ?? (operation.failureGroup ? [operation.failureGroup] : []),
    filter: operation.filter as Query,
    consumerId: operation.consumerId,
    ramp: operation.ramp,
    stopAbove: operation.stopAbovePercent,
    gate: operation.gateSeconds,
    oldestFirst: operation.oldestFirst,
    onlyFailed: operation.consumers === 'failed',
    rate: operation.ratePerSecond ?? operation.steps?.at(-1)?.ratePerSecond,
    reason: operation.reason,
  });
}
