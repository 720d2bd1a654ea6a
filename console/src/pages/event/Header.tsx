import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Allowed, EventDetail } from '../../api/pending';
import { Button } from '../../components/Button';
import { Copy } from '../../components/Copy';
import { Meter } from '../../components/Meter';
import { EVENT, StatusPill } from '../../components/Status';
import { Age } from '../../components/Time';
import { has, type MessageKey, t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { brief, clock, isoDay, middle, moment, offset } from '../../lib/format';
import { useLimits, useRefusal } from '../../shell/session';
import type { Ask } from './AskAct';
import { CopyAs } from './CopyAs';

/** Why the rules refuse an act, and from when it is possible. */
export function refusalOf(allowed: Allowed | undefined): string | null {
  if (!allowed || allowed.allowed) return null;
  const key = `refused.${allowed.code}`;
  const why = has(key) ? t(key as MessageKey) : t('refused.rule', { code: allowed.code ?? '' });
  return allowed.from ? `${why} ${t('refused.from', { at: moment(allowed.from, storeNow()) })}` : why;
}

export function Header({ event, onAsk }: { event: EventDetail; onAsk: (ask: Ask) => void }) {
  const operator = useRefusal('operator');
  const limits = useLimits();
  const attempts = event.consumptions.filter((each) => each.attemptNo > 0);
  const failed = attempts.filter((each) => each.success === false).length;
  const { initiator } = event;
  const at = (time: string) => (isoDay(time) === isoDay(storeNow()) ? clock(time, 3) : moment(time, storeNow()));
  return (
    <>
      <div className="event-head">
        <div className="grow">
          <h1>
            {event.topic}{' '}
            <StatusPill look={EVENT[event.status]!} extra={`${event.consumedConsumers}/${event.expectedConsumers}`} />
          </h1>
          <p className="event-ids">
            <span className="own-id">
              <code className="cut">{event.eventId}</code>
              <Copy text={event.eventId} />
            </span>
            {event.key && (
              <span>
                {t('filter.key')}{' '}
                <Link to="/stories/$key" params={{ key: event.key } as never}>
                  {[event.aggregateType, middle(event.key, 4, 8)].filter(Boolean).join(' ')}
                </Link>
              </span>
            )}
            {event.traceId && (
              <span className="only-wide">
                {t('filter.trace')}{' '}
                <Link to="/traces/$id" params={{ id: event.traceId } as never} className="mono">
                  {middle(event.traceId)}
                </Link>
              </span>
            )}
            {event.tenantId && (
              <span className="only-wide">
                {t('filter.tenant')} <b>{event.tenantId}</b>
              </span>
            )}
            {initiator.service && (
              <span className="only-wide">
                {t('event.by')} <b>{[initiator.service, initiator.operation].filter(Boolean).join(' · ')}</b>
              </span>
            )}
          </p>
        </div>
        <div className="row only-wide">
          <CopyAs event={event} />
          <Button
            icon="hourglass"
            refused={operator ?? refusalOf(event.actions?.expire)}
            onClick={() => onAsk({ verb: 'expire' })}
          >
            {t('act.expire')}
          </Button>
          <Button
            kind="primary"
            icon="repeat"
            refused={operator ?? refusalOf(event.actions?.redrive)}
            onClick={() => onAsk({ verb: 'redrive' })}
          >
            {t('act.redrive')}
          </Button>
        </div>
      </div>
      <div className="card cells facts only-wide">
        <Fact label={t('fact.occurred')} value={at(event.occurredAt)}>
          <Age at={event.occurredAt} form={(seconds) => t('ago', { t: brief(seconds) })} />
        </Fact>
        <Fact label={t('fact.sent')} value={event.sentAt ? at(event.sentAt) : '–'}>
          {event.sentAt && offset(Date.parse(event.sentAt) - Date.parse(event.occurredAt))}
        </Fact>
        <Fact label={t('nav.consumers')} value={`${event.consumedConsumers} / ${event.expectedConsumers}`}>
          <Meter event={event} figure={false} />
        </Fact>
        <Fact label={t('col.attempts')} value={String(attempts.length)}>
          {failed > 0 && t('fact.failed', { n: failed })}
        </Fact>
        <Fact label={t('fact.redriven')} value={event.retryCount === 0 ? t('never') : `${event.retryCount} ×`}>
          {limits.redriveMaxCount !== undefined && t('fact.limit', { n: limits.redriveMaxCount })}
        </Fact>
        <Fact label={t('fact.since')} value={event.statusAt ? at(event.statusAt) : '–'}>
          {event.status}
        </Fact>
      </div>
    </>
  );
}

function Fact({ label, value, children }: { label: string; value: string; children?: ReactNode }) {
  return (
    <div>
      <small>{label}</small>
      <span className="row">
        <b>{value}</b>
        <span className="fine t2">{children}</span>
      </span>
    </div>
  );
}
