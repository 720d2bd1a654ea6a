// Who is behind, who is silent?
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Consumer } from '../../api/pending';
import { consumers } from '../../api/queries';
import { Segments } from '../../components/Controls';
import { Cli } from '../../components/Copy';
import { Empty, Loaded } from '../../components/Empty';
import { Icon, type IconName } from '../../components/Icon';
import { Sparkline } from '../../components/Sparkline';
import { CONSUMER, StatusWord } from '../../components/Status';
import { t, tx } from '../../i18n';
import { quote } from '../../lib/cli';
import { useNow } from '../../lib/clock';
import { byLag, consumerState, isCounted, POOR_SUCCESS, silentSeconds } from '../../lib/consumer';
import { brief, number, percent, took } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { usePageKeys, useRowKeys } from '../../shell/keys';
import { useLimits } from '../../shell/session';
import { RedriveWizard, type What } from '../../wizard';
import { ConsumerPanel } from './ConsumerPanel';
import './consumers.css';

const VIA: Record<string, IconName> = {
  local: 'cube',
  rabbitmq: 'plane',
  pull: 'arrowDown',
  webhook: 'webhook',
  external: 'external',
};

const SPANS = { '1h': 60, '24h': 1440 };
type Range = keyof typeof SPANS;

/** Ten, of which 1 is paused and 2 silent. What is nowhere is not named. */
function sumOf(n: number, paused: number, silent: number): string {
  if (paused > 0 && silent > 0) return t('consumers.sum', { n, p: paused, s: silent });
  if (paused > 0) return t('consumers.sum.paused', { n, p: paused });
  return silent > 0 ? t('consumers.sum.silent', { n, s: silent }) : t('consumers.sum.well', { n });
}

export function Consumers() {
  const [search, change] = useUrl();
  const range: Range = search.range === '24h' ? '24h' : '1h';
  const query = useQuery(consumers(SPANS[range]));
  const silentAfter = useLimits().silentSeconds;
  const now = useNow();
  const [wizard, setWizard] = useState<What | null>(null);
  const list = [...(query.data ?? [])].sort(byLag);
  const paused = list.filter((each) => each.paused).length;
  const silent = list.filter((each) => consumerState(each, now, silentAfter) === 'silent').length;
  const known = knownOf(list);
  const chosen = list.find((each) => each.consumerId === search.sel) ?? (search.sel ? undefined : list[0]);
  const close = () => change({ sel: 'none' });
  usePageKeys({ Escape: close });
  useRowKeys();
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.consumers')}</h1>
        {query.data && <span className="meta">{sumOf(list.length, paused, silent)}</span>}
        <div className="tools">
          <Segments
            label={t('range.label')}
            value={range}
            onChange={(value) => change({ range: value === '1h' ? undefined : value })}
            options={(Object.keys(SPANS) as Range[]).map((value) => ({ value, label: t(`range.${value}`) }))}
          />
        </div>
      </div>
      <Loaded query={query}>
        {() =>
          list.length === 0 ? (
            <div className="card">
              <Empty icon="inbox" title={t('consumers.none')}>
                <Link to="/subscriptions" className="btn small">
                  {t('nav.subscriptions')}
                </Link>
              </Empty>
            </div>
          ) : (
            <div className="split wide-side consumers-split">
              <div>
                <div className="card scroll-x">
                  <table className="table consumers stack">
                    <thead>
                      <tr>
                        <th>{t('col.state')}</th>
                        <th>{t('col.consumer')}</th>
                        <th className="roomy">{t('col.via')}</th>
                        <th className="num roomy">{t('col.topics')}</th>
                        {known.success && <th className="num">{t('col.success')}</th>}
                        {known.p95 && <th className="num">{t('col.p95')}</th>}
                        {known.lags && (
                          <th className="roomy">
                            <span className="sr">{t('col.lag')}</span>
                          </th>
                        )}
                        <th className="num" aria-sort="descending">
                          {t('col.lag')} <Icon name="arrowDown" size={12} className="inline" />
                        </th>
                        <th className="num">{t('col.oldest')}</th>
                        <th className="num">{t('col.retrying')}</th>
                        <th className="num">{t('col.dead')}</th>
                        <th className="num">{t('col.held')}</th>
                      </tr>
                    </thead>
                    <tbody>
                      {list.map((each) => (
                        <Row
                          key={each.consumerId}
                          consumer={each}
                          known={known}
                          now={now}
                          silentAfter={silentAfter}
                          chosen={each === chosen}
                          onOpen={() => change({ sel: each.consumerId })}
                        />
                      ))}
                    </tbody>
                  </table>
                </div>
                <p className="under">{tx('consumers.note', { a: <b>rabbitmq</b>, b: <b>external</b> })}</p>
                <div className="under">
                  <Cli
                    line={chosen ? `postrider consumers show ${quote(chosen.consumerId)}` : 'postrider consumers list'}
                  />
                </div>
              </div>
              {chosen && (
                <ConsumerPanel
                  asked={search.sel !== undefined}
                  askedToPause={search.ask === 'pause'}
                  onAsked={() => change({ ask: undefined }, true)}
                  consumer={chosen}
                  range={range}
                  minutes={SPANS[range]}
                  onClose={close}
                  onRedrive={setWizard}
                />
              )}
            </div>
          )
        }
      </Loaded>
      {wizard && <RedriveWizard what={wizard} onClose={() => setWizard(null)} />}
    </div>
  );
}

/** A column that has no value in any row is left out. */
type Known = { success: boolean; p95: boolean; lags: boolean };
function knownOf(list: Consumer[]): Known {
  return {
    success: list.some((each) => each.successRate != null),
    p95: list.some((each) => each.p95Ms != null),
    lags: list.some((each) => (each.minutes?.length ?? 0) > 1),
  };
}

function Row({
  consumer,
  known,
  now,
  silentAfter,
  chosen,
  onOpen,
}: {
  consumer: Consumer;
  known: Known;
  now: number;
  silentAfter?: number;
  chosen: boolean;
  onOpen: () => void;
}) {
  const state = consumerState(consumer, now, silentAfter);
  const poor = (consumer.successRate ?? 1) < POOR_SUCCESS;
  const dash = <span className="t3">–</span>;
  const ours = isCounted(consumer);
  const lags = consumer.minutes?.map((each) => each.lag ?? 0) ?? [];
  const behind = (consumer.oldestAgeSeconds ?? 0) > 30;
  const count = (value: number | null | undefined, tone: string) =>
    value == null ? dash : <span className={value > 0 ? tone : 't2'}>{number(value)}</span>;
  return (
    <tr className={`open ${chosen ? 'chosen' : ''}`} onClick={onOpen}>
      <td className="end">
        <StatusWord
          look={CONSUMER[state]}
          extra={state === 'silent' ? brief(silentSeconds(consumer, now)) : undefined}
        />
      </td>
      <td className="first">
        <button type="button" className="name" onClick={onOpen}>
          {consumer.consumerId}
        </button>
      </td>
      <td className="t2 roomy">
        <span className="row via">
          <Icon name={VIA[consumer.via] ?? 'cube'} size={14} />
          {consumer.via}
        </span>
      </td>
      <td className="num t2 roomy">{consumer.topics.length}</td>
      {known.success && (
        <td className={`num nowrap ${poor ? 'm-warn c strong' : ''}`} data-label={t('col.success')}>
          {consumer.successRate == null ? dash : percent(consumer.successRate)}
        </td>
      )}
      {known.p95 && (
        <td className={`num nowrap ${poor ? 'm-warn c' : ''}`} data-label={t('col.p95')}>
          {consumer.p95Ms == null ? dash : took(consumer.p95Ms)}
        </td>
      )}
      {known.lags && (
        <td className="roomy">
          {lags.length > 1 && (
            <Sparkline values={lags} meaning={behind ? 'warn' : 'info'} width={44} height={20} dot={false} />
          )}
        </td>
      )}
      <td className="num" data-label={t('col.lag')}>
        {ours ? number(consumer.lag ?? 0) : <span className="t2">{t('broker')}</span>}
      </td>
      <td className={`num nowrap ${behind ? 'm-warn c strong' : 't2'}`} data-label={t('col.oldest')}>
        {consumer.oldestAgeSeconds == null ? dash : brief(consumer.oldestAgeSeconds)}
      </td>
      <td className="num" data-label={t('col.retrying')}>
        {count(consumer.retrying, (consumer.retrying ?? 0) > 100 ? 'm-warn c' : '')}
      </td>
      <td className="num" data-label={t('col.dead')}>
        {count(consumer.dead, 'm-bad c strong')}
      </td>
      <td className="num" data-label={t('col.held')}>
        {count(consumer.held, 'strong')}
      </td>
    </tr>
  );
}
