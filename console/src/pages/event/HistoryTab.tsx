import { useQuery } from '@tanstack/react-query';
import type { EventDetail } from '../../api/pending';
import { audit } from '../../api/queries';
import { Empty, Loaded } from '../../components/Empty';
import { t } from '../../i18n';
import { actionOf, detailOf } from '../../lib/audit';
import { dateTime } from '../../lib/format';
import { useOperatorsWhole } from '../../shell/session';

export const history = (eventId: string) => audit({ target: eventId, limit: 100 });

/** Who did what to this event. */
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
        {(page) =>
          page.records.length === 0 ? (
            <Empty icon="shield" title={t('history.none')} text={t('history.none.text')} />
          ) : (
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
                {page.records.map((record) => (
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
          )
        }
      </Loaded>
    </div>
  );
}
