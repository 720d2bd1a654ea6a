import { Link } from '@tanstack/react-router';
import type { EventSummary } from '../../api/pending';
import { Meter } from '../../components/Meter';
import { EVENT, StatusWord } from '../../components/Status';
import { t } from '../../i18n';
import { clock, offset } from '../../lib/format';

export function TraceTable({ events }: { events: EventSummary[] }) {
  const start = Date.parse(events[0]?.createdAt ?? '');
  return (
    <div className="card scroll-x">
      <table className="table">
        <thead>
          <tr>
            <th>{t('col.status')}</th>
            <th>{t('col.topic')}</th>
            <th>{t('col.service')}</th>
            <th>{t('col.deliveries')}</th>
            <th className="num">{t('col.when')}</th>
            <th className="num">{t('trace.starts')}</th>
            <th>{t('col.id')}</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.eventId}>
              <td>
                <StatusWord look={EVENT[event.status]!} />
              </td>
              <td className="strong">{event.topic}</td>
              <td className="t2">{event.initiator.service}</td>
              <td>
                <Meter event={event} />
              </td>
              <td className="num">{clock(event.createdAt, 3)}</td>
              <td className="num t2">{offset(Date.parse(event.createdAt) - start)}</td>
              <td className="mono">
                <Link to="/events/$id" params={{ id: event.eventId } as never}>
                  {event.eventId}
                </Link>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
