import type { Consumer } from '../../api/pending';
import type { components } from '../../api/schema';
import { Empty } from '../../components/Empty';
import { CONSUMER, StatusWord } from '../../components/Status';
import { t } from '../../i18n';

type Subscription = components['schemas']['Subscription'];

export function List({
  subscriptions,
  consumers,
  onEdit,
}: {
  subscriptions: Subscription[];
  consumers: Consumer[];
  onEdit: (topic: string, consumer: string) => void;
}) {
  if (subscriptions.length === 0) {
    return (
      <div className="card">
        <Empty icon="matrix" title={t('consumers.none')} />
      </div>
    );
  }
  return (
    <div className="card scroll-x">
      <table className="table stack">
        <thead>
          <tr>
            <th>{t('col.state')}</th>
            <th>{t('col.topic')}</th>
            <th>{t('col.consumer')}</th>
            <th className="only-wide">{t('col.via')}</th>
            <th className="roomy">{t('subs.endpoint')}</th>
            <th className="roomy">{t('subs.for')}</th>
          </tr>
        </thead>
        <tbody>
          {subscriptions.map((each) => {
            const paused = consumers.find((one) => one.consumerId === each.consumerId)?.paused;
            return (
              <tr
                key={`${each.topic}/${each.consumerId}`}
                className="open"
                onClick={() => onEdit(each.topic, each.consumerId)}
              >
                <td className="end">
                  <StatusWord look={CONSUMER[!each.enabled ? 'disabled' : paused ? 'paused' : 'active']} />
                </td>
                <td className="strong first">
                  <button type="button" className="hit" onClick={() => onEdit(each.topic, each.consumerId)}>
                    {each.topic}
                  </button>
                </td>
                <td className="whole">{each.consumerId}</td>
                <td className="t2 only-wide">{each.via}</td>
                <td className="mono cut roomy">{each.endpoint ?? '–'}</td>
                <td className="t2 roomy">{each.description ?? '–'}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
