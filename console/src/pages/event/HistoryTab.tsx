import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { EventDetail } from '../../api/pending';
import { audit } from '../../api/queries';
import { Empty, Loaded } from '../../components/Empty';
import { t } from '../../i18n';
import { actionOf, detailOf, isRead } from '../../lib/audit';
import { dateTime } from '../../lib/format';
import { useOperatorsWhole } from '../../shell/session';

export const history = (eventId: string) => audit({ target: eventId, limit: 100 });

/** Who did what to this event. Those who only read its payload are counted. */
export function HistoryTab({ event }: { event: EventDetail }) {
  const { may, refused } = useOperatorsWhole();
  const query = useQuery({ ...history(event.eventId), enabled: may });
  if (refused) {
    return (
      <div className="card">
        <Empty icon="lock" title={refused} />
      </div>
    );
  }
  return (
    <div className="card">
      <Loaded query={query}>
        {(page) => {
          const records = page.records.filter((record) => !isRead(record));
          const reads = page.records.length - records.length;
          const note = reads > 0 && (
            <p className="history-reads t2">
              {t('history.reads', { n: reads })}{' '}
              <Link to="/audit" search={{ target: event.eventId, reads: 'yes' } as never}>
                {t('history.reads.show')}
              </Link>
            </p>
          );
          return records.length === 0 ? (
            <>
              <Empty icon="shield" title={t('history.none')} text={t('history.none.text')} />
              {note}
            </>
          ) : (
            <>
              <table className="table">
                <thead>
                  <tr>
                    <th>{t('col.when')}</th>
                    <th>{t('col.who')}</th>
                    <th>{t('col.action')}</th>
                    <th>{t('reason')}</th>
                    <th className="num">{t('col.answer')}</th>
                  </tr>
                </thead>
                <tbody>
                  {records.map((record) => (
                    <tr key={record.id}>
                      <td>{dateTime(record.at)}</td>
                      <td>{record.actor}</td>
                      <td className="mono">{actionOf(record.action)}</td>
                      <td>{[detailOf(record).what, detailOf(record).reason].filter(Boolean).join(' · ') || '–'}</td>
                      <td className={`num ${record.outcome.startsWith('4') ? 'm-bad c' : ''}`}>{record.outcome}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {note}
            </>
          );
        }}
      </Loaded>
    </div>
  );
}
