// The newest traces, and the way to one by trace id, event id or business key.
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { traces } from '../../api/queries';
import { Button } from '../../components/Button';
import { Cli } from '../../components/Copy';
import { Empty, Loaded } from '../../components/Empty';
import { EVENT, StatusWord } from '../../components/Status';
import { Age } from '../../components/Time';
import { t } from '../../i18n';
import { middle, number, took } from '../../lib/format';
import { useRowKeys } from '../../shell/keys';
import { overlay } from '../../shell/overlay';

export function Traces() {
  const query = useQuery(traces({ limit: 50 }));
  const navigate = useNavigate();
  useRowKeys();
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.traces')}</h1>
        <span className="meta">{t('traces.newest')}</span>
        <div className="tools">
          <Button icon="search" onClick={() => overlay('palette')}>
            {t('traces.find')} <kbd>/</kbd>
          </Button>
        </div>
      </div>
      <Loaded query={query}>
        {(data) => (
          <div className="card scroll-x">
            {data.traces.length === 0 ? (
              <Empty icon="tree" title={t('first.title')} />
            ) : (
              <table className="table traces stack">
                <thead>
                  <tr>
                    <th>{t('col.status')}</th>
                    <th>{t('traces.root')}</th>
                    <th>{t('col.key')}</th>
                    <th className="num">{t('nav.events')}</th>
                    <th className="num roomy">{t('col.retrying')}</th>
                    <th className="num">{t('col.dead')}</th>
                    <th className="roomy">{t('traces.services')}</th>
                    <th className="num">{t('col.took')}</th>
                    <th className="num">{t('col.age')}</th>
                    <th className="roomy">{t('tab.trace')}</th>
                  </tr>
                </thead>
                <tbody>
                  {data.traces.map((each) => (
                    <tr
                      key={each.traceId}
                      className="open"
                      onClick={() => void navigate({ to: '/traces/$id', params: { id: each.traceId } as never })}
                    >
                      <td className="first">
                        <StatusWord
                          look={EVENT[each.failed > 0 ? 'PARTIAL' : each.retrying > 0 ? 'RETRYING' : each.root.status]!}
                        />
                      </td>
                      <td className="strong end">{each.root.topic}</td>
                      <td className="whole">
                        {each.root.key && (
                          <Link
                            to="/stories/$key"
                            params={{ key: each.root.key } as never}
                            onClick={(event) => event.stopPropagation()}
                          >
                            {middle(each.root.key, 8, 12)}
                          </Link>
                        )}
                      </td>
                      <td className="num" data-label={t('nav.events')}>
                        {number(each.events)}
                      </td>
                      <td className={`num roomy ${each.retrying > 0 ? 'm-warn c' : 't3'}`}>{each.retrying}</td>
                      <td className={`num ${each.failed > 0 ? 'm-bad c strong' : 't3'}`} data-label={t('col.dead')}>
                        {each.failed}
                      </td>
                      <td className="t2 roomy">{each.services.join(', ')}</td>
                      <td className="num nowrap" data-label={t('col.took')}>
                        {took(each.durationMs)}
                      </td>
                      <td className="num nowrap t2" data-label={t('col.age')}>
                        <Age at={each.root.createdAt} />
                      </td>
                      <td className="mono roomy">
                        <Link to="/traces/$id" params={{ id: each.traceId } as never}>
                          {middle(each.traceId, 6, 4)}
                        </Link>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
          </div>
        )}
      </Loaded>
      <div className="under">
        <Cli line="postrider events trace TRACE_ID" />
      </div>
    </div>
  );
}
