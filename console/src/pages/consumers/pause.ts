// Who paused a consumer, when and why: from the consumer itself, or from the audit where the server does not tell.
import { useQuery } from '@tanstack/react-query';
import type { Consumer } from '../../api/pending';
import { pauses } from '../../api/queries';
import { detailOf, targetOf } from '../../lib/audit';
import { useOperatorsWhole } from '../../shell/session';

export type Pause = { who: string; at: string | null; why: string };

export function usePause(consumer: Consumer | undefined): Pause | null {
  const { may } = useOperatorsWhole();
  const paused = consumer?.paused === true;
  const records = useQuery({ ...pauses, enabled: may && paused && !consumer.pausedBy, retry: false }).data;
  if (!paused) return null;
  if (consumer.pausedBy)
    return { who: consumer.pausedBy, at: consumer.pausedAt ?? null, why: consumer.pauseReason ?? '' };
  const record = records?.find((each) => targetOf(each.target) === consumer.consumerId);
  return record ? { who: record.actor, at: record.at, why: detailOf(record).reason } : null;
}
