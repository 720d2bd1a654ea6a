// Who receives what, and what would a change do?
import { useQuery } from '@tanstack/react-query';
import { consumers, subscriptions, topics } from '../../api/queries';
import { Button } from '../../components/Button';
import { Segments } from '../../components/Controls';
import { Cli } from '../../components/Copy';
import { Loaded } from '../../components/Empty';
import { t } from '../../i18n';
import { quote } from '../../lib/cli';
import { usePhone } from '../../lib/media';
import { useUrl } from '../../lib/url';
import { useRefusal } from '../../shell/session';
import { Editor } from './Editor';
import { List } from './List';
import { Matrix } from './Matrix';
import './subscriptions.css';

/** A larger matrix cannot be read; the list can. */
const MATRIX_MAX = 40;

export function Subscriptions() {
  const [search, change] = useUrl();
  const query = useQuery(subscriptions);
  const heard = useQuery({ ...topics, retry: false }).data ?? [];
  const list = useQuery(consumers()).data ?? [];
  const admin = useRefusal('admin');
  const all = query.data ?? [];
  const topicNames = [...new Set([...heard.map((each) => each.topic), ...all.map((each) => each.topic)])];
  const consumerNames = [...new Set([...all.map((each) => each.consumerId), ...list.map((each) => each.consumerId)])];
  // A phone has no room for a matrix either.
  const phone = usePhone();
  const large = phone || topicNames.length > MATRIX_MAX || consumerNames.length > MATRIX_MAX;
  const view = large || search.view === 'list' ? 'list' : 'matrix';
  const disabled = all.filter((each) => !each.enabled).length;
  const edited = search.topic !== undefined || search.consumer !== undefined;
  const edit = (topic: string, consumer: string) => change({ topic, consumer });
  const close = () => change({ topic: undefined, consumer: undefined });
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.subscriptions')}</h1>
        {query.data && (
          <span className="meta">
            {t('subs.sum', { t: topicNames.length, c: consumerNames.length, n: all.length, d: disabled })}
          </span>
        )}
        <div className="tools">
          <Segments
            label={t('payload.view')}
            value={view}
            onChange={(value) => change({ view: value === 'matrix' ? undefined : value })}
            options={[
              ...(large ? [] : [{ value: 'matrix' as const, label: t('subs.matrix') }]),
              { value: 'list' as const, label: t('subs.list') },
            ]}
          />
          <Button icon="plus" refused={admin} onClick={() => change({ topic: '', consumer: '' })}>
            {t('subs.new')}
          </Button>
        </div>
      </div>
      <Loaded query={query}>
        {() => (
          <div className={edited ? 'split wide-side subs-split' : ''}>
            <div>
              {view === 'matrix' ? (
                <Matrix
                  topics={topicNames}
                  heard={heard}
                  names={consumerNames}
                  consumers={list}
                  subscriptions={all}
                  topic={search.topic}
                  consumer={search.consumer}
                  onEdit={edit}
                />
              ) : (
                <List subscriptions={all} consumers={list} onEdit={edit} />
              )}
              <div className="under">
                <Cli line={`postrider subscriptions list${search.topic ? ` ${quote(search.topic)}` : ''}`} />
              </div>
            </div>
            {edited && (
              <Editor
                // Via and endpoint come from the consumer, so the form starts again once it is known.
                key={`${search.topic}/${search.consumer}/${list.length > 0}`}
                topic={search.topic ?? ''}
                consumerId={search.consumer ?? ''}
                known={all.find((each) => each.topic === search.topic && each.consumerId === search.consumer)}
                consumer={list.find((each) => each.consumerId === search.consumer)}
                heard={heard}
                endpoint={all.find((each) => each.consumerId === search.consumer)?.endpoint}
                names={consumerNames}
                topics={topicNames}
                refused={admin}
                onClose={close}
              />
            )}
          </div>
        )}
      </Loaded>
    </div>
  );
}
