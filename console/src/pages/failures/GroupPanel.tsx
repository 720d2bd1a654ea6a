import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { FailureGroup } from '../../api/pending';
import { consumer, consumers } from '../../api/queries';
import { Button } from '../../components/Button';
import { Code } from '../../components/Copy';
import { Icon } from '../../components/Icon';
import { t } from '../../i18n';
import { number } from '../../lib/format';
import { useRefusal } from '../../shell/session';
import { useConsumerActs } from '../consumers/acts';
import { idOf } from './group';
import { useHealthOf, Wellness } from './Wellness';

export function GroupPanel({
  asked,
  group,
  onClose,
  onRedrive,
}: {
  asked: boolean;
  group: FailureGroup;
  onClose: () => void;
  onRedrive: () => void;
}) {
  const operator = useRefusal('operator');
  const about = useQuery({ ...consumer(group.consumerId), retry: false }).data;
  const health = useHealthOf(group.consumerId, about);
  const row = useQuery(consumers()).data?.find((each) => each.consumerId === group.consumerId);
  const { askPause, dialog } = useConsumerActs();
  const colon = group.sample.indexOf(':');
  const top = Math.max(1, ...(group.topics ?? []).map((each) => each.count));
  return (
    <aside className={`card panel ${asked ? 'asked' : ''}`} aria-label={group.consumerId}>
      <section className="panel-head">
        <div className="row">
          <h2>{group.consumerId}</h2>
          {group.errorCode && <span className="tag mono">{group.errorCode}</span>}
          <span className="grow" />
          <button type="button" className="hit" aria-label={t('close')} onClick={onClose}>
            <Icon name="x" />
          </button>
        </div>
        <Code
          lead={colon > 0 ? group.sample.slice(0, colon) : group.sample}
          text={colon > 0 ? group.sample.slice(colon) : ''}
        />
        <div className="card cells">
          <div>
            <small>{t('group.retried')}</small>
            <span className="fig">{number(group.count - group.dead)}</span>
          </div>
          <div>
            <small>{t('col.dead')}</small>
            <span className={`fig ${group.dead > 0 ? 'm-bad c' : ''}`}>{number(group.dead)}</span>
          </div>
          <div>
            <small>{t('group.held')}</small>
            <span className="fig">{group.held === undefined ? '–' : number(group.held)}</span>
          </div>
        </div>
      </section>
      {group.topics && group.topics.length > 0 && (
        <section>
          <p className="label">{t('failures.by.topic')}</p>
          {group.topics.map((each) => (
            <div key={each.topic} className="topic-bar m-bad">
              <span className="cut">{each.topic}</span>
              <span className="bar-line">
                <i style={{ width: `${(each.count / top) * 100}%` }} />
              </span>
              <span className="num t2">{number(each.count)}</span>
            </div>
          ))}
        </section>
      )}
      {health && (
        <section>
          <p className="label">{t('group.well', { c: group.consumerId })}</p>
          <Wellness health={health} />
        </section>
      )}
      <section className="between">
        <span className="t2">{t('group.example')}</span>
        <Link to="/events/$id" params={{ id: group.sampleEventId } as never} className="mono cut">
          {group.sampleEventId}
        </Link>
      </section>
      <footer className="row">
        <Button kind="primary" icon="repeat" className="grow" refused={operator} onClick={onRedrive}>
          {t('failures.redrive', { n: number(group.count) })}
        </Button>
        <Link
          className="btn"
          to="/events"
          search={{ ...(group.groupId ? { group: idOf(group) } : {}), consumer: group.consumerId } as never}
        >
          {t('show.events')}
        </Link>
        {row && !row.paused && (
          <Button
            icon="pause"
            refused={operator}
            aria-label={t('pause.verb', { c: group.consumerId })}
            onClick={() => askPause(row)}
          />
        )}
      </footer>
      {dialog}
    </aside>
  );
}
