// One event beside its list: who has it, who has not, and the last error. The whole event is one click away.
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { EventDetail } from '../../api/pending';
import { event as eventQuery } from '../../api/queries';
import { Button } from '../../components/Button';
import { Code, Copy } from '../../components/Copy';
import { Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { DELIVERY, EVENT, StatusPill, StatusWord } from '../../components/Status';
import { Age, Countdown } from '../../components/Time';
import { t } from '../../i18n';
import { type ConsumerPart, partsOf } from '../../lib/event';
import { clock, duration } from '../../lib/format';
import { useRefusal } from '../../shell/session';
import { type Ask, AskAct } from '../event/AskAct';
import { CopyAs } from '../event/CopyAs';
import { refusalOf } from '../event/Header';

export function EventPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useQuery(eventQuery(id));
  return (
    <aside className="card panel event-panel" aria-label={id}>
      <button type="button" className="hit panel-close" aria-label={t('close')} onClick={onClose}>
        <Icon name="x" />
      </button>
      <Loaded query={query} what={t('event.failed', { id })}>
        {(event) => <Shown event={event} />}
      </Loaded>
    </aside>
  );
}

function Shown({ event }: { event: EventDetail }) {
  const [ask, setAsk] = useState<Ask | null>(null);
  const operator = useRefusal('operator');
  const parts = partsOf(event);
  const error = event.lastError ?? '';
  return (
    <>
      <section className="panel-head">
        <h2 className="wrap">{event.topic}</h2>
        <span>
          <StatusPill look={EVENT[event.status]!} extra={`${event.consumedConsumers}/${event.expectedConsumers}`} />
        </span>
        <p className="mono wrap">
          {event.eventId}
          <Copy text={event.eventId} />
        </p>
        <p className="meta wrap">
          <Age at={event.occurredAt} form={(seconds) => t('ago', { t: duration(seconds) })} />
          {event.key && (
            <>
              {' · '}
              {t('filter.key')}{' '}
              <Link to="/stories/$key" params={{ key: event.key } as never}>
                {[event.aggregateType, event.key].filter(Boolean).join(' ')}
              </Link>
            </>
          )}
          {event.initiator.service && ` · ${t('event.by')} ${event.initiator.service}`}
        </p>
      </section>
      <section>
        <p className="label">{t('nav.consumers')}</p>
        {parts.length === 0 && <p className="t2">{t('why.unheard', { topic: event.topic })}</p>}
        <ul className="panel-parts">
          {parts.map((part) => (
            <Part key={part.consumerId} part={part} />
          ))}
        </ul>
      </section>
      {error && (
        <section>
          <Code lead={error.split(':')[0]} text={error.slice(error.split(':')[0]!.length)} />
        </section>
      )}
      <footer className="row">
        <Link className="btn primary grow" to="/events/$id" params={{ id: event.eventId } as never}>
          {t('panel.open')}
        </Link>
        <CopyAs event={event} small />
        <Button
          icon="repeat"
          aria-label={t('act.redrive')}
          refused={operator ?? refusalOf(event.actions?.redrive)}
          onClick={() => setAsk({ verb: 'redrive' })}
        />
      </footer>
      {ask && <AskAct event={event} ask={ask} onClose={() => setAsk(null)} />}
    </>
  );
}

function Part({ part }: { part: ConsumerPart }) {
  const last = part.attempts.at(-1);
  return (
    <li>
      <span className="cut grow">{part.consumerId}</span>
      <StatusWord look={DELIVERY[part.state]} />
      <span className="num t2">
        {part.state === 'retrying' && part.delivery ? (
          <Countdown to={part.delivery.dueAt} />
        ) : (
          last && clock(last.consumedAt ?? last.createdAt)
        )}
      </span>
    </li>
  );
}
