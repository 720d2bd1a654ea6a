// The status of an event, as one pure function of its history. The server has the same function;
// this one replays the append-only history to any instant.

export type Status = 'PENDING' | 'SENT' | 'RETRYING' | 'CONSUMED' | 'PARTIAL' | 'FAILED' | 'EXPIRED';
export type ConsumerStand = 'ok' | 'retrying' | 'failed' | 'waiting';

export type Facts = {
  consumers: ConsumerStand[];
  expired: boolean;
  /** Redriven and not sent again yet. */
  redriven: boolean;
  brokerDead: boolean;
  sent: boolean;
};

/** The first line that fits decides. */
export function statusOf(facts: Facts): Status {
  const { consumers } = facts;
  const some = (stand: ConsumerStand) => consumers.includes(stand);
  const every = (stand: ConsumerStand) => consumers.length > 0 && consumers.every((each) => each === stand);
  if (every('ok')) return 'CONSUMED';
  if (facts.expired) return 'EXPIRED';
  if (facts.redriven || some('retrying')) return 'RETRYING';
  if (facts.brokerDead || every('failed')) return 'FAILED';
  if (some('failed')) return 'PARTIAL';
  return facts.sent ? 'SENT' : 'PENDING';
}

export type Attempt = { consumerId: string; success: boolean | null; willRetry: boolean; at: number };
export type History = { expected: string[]; attempts: Attempt[]; sentAt: number | null; expireAt: number | null };

/** Where a consumer stood at an instant. An attempt of an unknown outcome (attempt 0) is no result. */
export function consumerAt(history: History, consumerId: string, at: number): ConsumerStand {
  const past = history.attempts.filter(
    (each) => each.consumerId === consumerId && each.at <= at && each.success !== null,
  );
  if (past.some((each) => each.success)) return 'ok';
  const last = past.at(-1);
  if (!last) return 'waiting';
  return last.willRetry ? 'retrying' : 'failed';
}

/** The status as it was at an instant. */
export function statusAt(history: History, at: number): Status {
  return statusOf({
    consumers: history.expected.map((id) => consumerAt(history, id, at)),
    expired: history.expireAt !== null && history.expireAt <= at,
    redriven: false,
    brokerDead: false,
    sent: history.sentAt !== null && history.sentAt <= at,
  });
}
