import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { event as eventQuery, events } from '../../api/queries';
import { Button } from '../../components/Button';
import { Code } from '../../components/Copy';
import { DELIVERY, EVENT, StatusIcon } from '../../components/Status';
import { t, tx } from '../../i18n';
import { clock } from '../../lib/format';
import type { WaterRow } from '../../lib/waterfall';
import { useRefusal } from '../../shell/session';
import { type Ask, AskAct } from '../event/AskAct';
import { refusalOf } from '../event/Header';

/** What is known about the chosen row. */
export function RowDetail({ row }: { row: WaterRow }) {
  const [ask, setAsk] = useState<Ask | null>(null);
  const operator = useRefusal('operator');
  const id = row.event?.eventId ?? '';
  const detail = useQuery({ ...eventQuery(id), enabled: row.kind !== 'stub' }).data;
  const key = row.state === 'dead' ? row.event?.key : null;
  const behind = useQuery({ ...events({ key, limit: 20 }), enabled: !!key }).data?.events.find((each) => each.held);
  if (!row.event) return null;
  const last = row.attempts.at(-1);
  const error = last?.errorMessage ?? '';
  const colon = error.indexOf(':');
  const attempt = row.kind === 'consumer';
  return (
    <section className="card row-detail">
      <div className="row">
        <StatusIcon look={row.state ? DELIVERY[row.state] : EVENT[row.event.status]!} />
        <h2>{attempt ? t('row.on', { c: row.name, topic: row.event.topic }) : row.event.topic}</h2>
        <span className="meta grow">
          {row.state === 'dead' && last
            ? t('row.dead', { at: clock(last.consumedAt ?? last.createdAt), n: row.attempts.length })
            : row.event.eventId}
        </span>
        <Link className="btn small" to="/events/$id" params={{ id } as never}>
          {attempt ? t('row.attempts') : t('keys.open')}
        </Link>
        {row.state === 'dead' && detail && (
          <Button
            small
            refused={operator ?? refusalOf(detail.actions?.redrive)}
            onClick={() => setAsk({ verb: 'redrive', consumerId: row.name })}
          >
            {t('redrive.only', { c: row.name })}
          </Button>
        )}
      </div>
      {row.state === 'dead' && <p className="t2 quoting">{tx('row.safe', { id: <code>{id}</code> })}</p>}
      {row.event.key && row.state === 'dead' && detail?.key && (
        <p className="t2 quoting">
          {t('row.order', { key: [row.event.aggregateType?.toLowerCase(), row.event.key].filter(Boolean).join(' ') })}{' '}
          {behind &&
            tx('row.waits', {
              c: row.name,
              topic: (
                <Link to="/events/$id" params={{ id: behind.eventId } as never}>
                  {behind.topic}
                </Link>
              ),
            })}
        </p>
      )}
      {ask && detail && <AskAct event={detail} ask={ask} onClose={() => setAsk(null)} />}
      {error && <Code lead={colon > 0 ? error.slice(0, colon) : error} text={colon > 0 ? error.slice(colon) : ''} />}
    </section>
  );
}
