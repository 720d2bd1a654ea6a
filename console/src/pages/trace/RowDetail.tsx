import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { event as eventQuery } from '../../api/queries';
import { Code } from '../../components/Copy';
import { DELIVERY, EVENT, StatusIcon } from '../../components/Status';
import { t, tx } from '../../i18n';
import { clock } from '../../lib/format';
import type { WaterRow } from '../../lib/waterfall';

/** What is known about the chosen row. */
export function RowDetail({ row }: { row: WaterRow }) {
  const id = row.event?.eventId ?? '';
  const detail = useQuery({ ...eventQuery(id), enabled: row.kind !== 'stub' }).data;
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
      </div>
      {row.state === 'dead' && <p className="t2">{tx('row.safe', { id: <code>{id}</code> })}</p>}
      {row.event.key && row.state === 'dead' && detail?.key && (
        <p className="t2">
          {t('row.order', { key: [row.event.aggregateType?.toLowerCase(), row.event.key].filter(Boolean).join(' ') })}
        </p>
      )}
      {error && <Code lead={colon > 0 ? error.slice(0, colon) : error} text={colon > 0 ? error.slice(colon) : ''} />}
    </section>
  );
}
