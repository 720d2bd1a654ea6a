import { Link, useNavigate } from '@tanstack/react-router';
import type { Consumer } from '../../api/pending';
import { CONSUMER, StatusWord } from '../../components/Status';
import { t } from '../../i18n';
import { useNow } from '../../lib/clock';
import { byLag, consumerState, isCounted, POOR_SUCCESS } from '../../lib/consumer';
import { brief, number, percent, took } from '../../lib/format';
import { useLimits } from '../../shell/session';

const SHOWN = 7;

export function ConsumerList({ consumers }: { consumers: Consumer[] }) {
  const navigate = useNavigate();
  const now = useNow();
  const silentAfter = useLimits().silentSeconds;
  const list = [...consumers].sort(byLag);
  // The most behind first. Those that people paused stay in sight.
  const paused = list.filter((each) => each.paused).slice(0, SHOWN);
  const shown = [...list.filter((each) => !each.paused).slice(0, SHOWN - paused.length), ...paused];
  // A column that has no value in any row is left out.
  const rated = list.some((each) => each.successRate != null);
  const timed = list.some((each) => each.p95Ms != null);
  const dash = <span className="t3">–</span>;
  const count = (value: number | null | undefined, tone: string) =>
    value === null || value === undefined ? dash : <span className={value > 0 ? tone : 't3'}>{number(value)}</span>;
  return (
    <section className="card only-wide">
      <header>
        <h2>{t('nav.consumers')}</h2>
        <span className="meta">{consumers.length}</span>
        <Link to="/consumers">{t('consumers.all')}</Link>
      </header>
      <div className="scroll-x">
        <table className="table">
          <thead>
            <tr>
              <th>{t('col.state')}</th>
              <th>{t('col.consumer')}</th>
              <th className="roomy">{t('col.via')}</th>
              {rated && <th className="num">{t('col.success.1h')}</th>}
              {timed && <th className="num">{t('col.p95')}</th>}
              <th className="num">{t('col.lag')}</th>
              <th className="num">{t('col.oldest')}</th>
              <th className="num">{t('col.retrying')}</th>
              <th className="num">{t('col.dead')}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((each) => {
              const poor = (each.successRate ?? 1) < POOR_SUCCESS;
              const state = consumerState(each, now, silentAfter);
              return (
                <tr
                  key={each.consumerId}
                  className="open"
                  onClick={() => void navigate({ to: '/consumers', search: { sel: each.consumerId } as never })}
                >
                  <td>
                    <StatusWord look={CONSUMER[state]} />
                  </td>
                  <td>
                    <Link to="/consumers" search={{ sel: each.consumerId } as never} className="plain">
                      {each.consumerId}
                    </Link>
                  </td>
                  <td className="t2 roomy">{each.via}</td>
                  {rated && (
                    <td className="num">
                      {each.successRate === null || each.successRate === undefined ? (
                        dash
                      ) : (
                        <span className={`success ${poor ? 'm-warn c strong' : 'm-ok'}`}>
                          <span className="bar-line">
                            <i style={{ width: `${each.successRate * 100}%` }} />
                          </span>
                          <span>{percent(each.successRate)}</span>
                        </span>
                      )}
                    </td>
                  )}
                  {timed && (
                    <td className={`num ${poor ? 'm-warn c' : ''}`}>{each.p95Ms == null ? dash : took(each.p95Ms)}</td>
                  )}
                  <td className="num">
                    {isCounted(each) ? number(each.lag ?? 0) : <span className="t2">{t('broker')}</span>}
                  </td>
                  <td className={`num ${(each.oldestAgeSeconds ?? 0) > 30 ? 'm-warn c strong' : 't2'}`}>
                    {each.oldestAgeSeconds == null ? dash : brief(each.oldestAgeSeconds)}
                  </td>
                  <td className="num">{count(each.retrying, (each.retrying ?? 0) > 100 ? 'm-warn c' : '')}</td>
                  <td className="num">{count(each.dead, 'm-bad c strong')}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}
