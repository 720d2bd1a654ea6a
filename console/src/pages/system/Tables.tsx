// Instances with what they hold, and jobs with their last and next fire.
import type { components } from '../../api/schema';
import type { Health } from '../../api/types';
import { Icon } from '../../components/Icon';
import type { Meaning } from '../../components/Status';
import { Countdown } from '../../components/Time';
import { t } from '../../i18n';
import { useNow } from '../../lib/clock';
import { clock, duration, number } from '../../lib/format';
import { useLimits } from '../../shell/session';

type Instance = components['schemas']['Instance'];
type Job = components['schemas']['Job'];
const HOLD: Record<string, Meaning> = { lane: 'idle', lease: 'info', job: 'human', operation: 'human' };

/** What a process holds: the names of its holders begin with its id, or are of a loop that only its process runs. */
function holdingsOf(list: Instance[], id: string): Instance['holdings'] {
  const process = id.replace(/-[^-]*$/, '');
  return list.filter(({ owner }) => owner === id || owner.startsWith(`${process}-`)).flatMap((each) => each.holdings);
}

type Row = {
  id: string;
  role?: string;
  version?: string;
  since?: string;
  lanes: number;
  holdings: Instance['holdings'];
};

function rowsOf(list: Instance[], state: Health | undefined): Row[] {
  if (!state) return list.map(({ owner, holdings }) => ({ id: owner, lanes: 0, holdings }));
  const rows = state.instances.map((each) => ({
    id: each.instanceId,
    role: each.role,
    version: each.version,
    since: each.startedAt,
    lanes: each.lanes.length,
    holdings: holdingsOf(list, each.instanceId),
  }));
  const known = new Set(rows.flatMap((each) => each.holdings));
  const others = list.filter((each) => !each.holdings.some((held) => known.has(held)));
  return [...rows, ...others.map(({ owner, holdings }) => ({ id: owner, lanes: 0, holdings }))];
}

export function Instances({ list, health: state }: { list: Instance[]; health?: Health }) {
  const now = useNow();
  const { leaseSeconds } = useLimits();
  return (
    <section className="card">
      <header>
        <h2>{t('system.instances')}</h2>
        <span className="meta grow">{state?.instances.length ?? list.length}</span>
        {leaseSeconds !== undefined && <span className="meta">{t('system.leases', { n: leaseSeconds })}</span>}
      </header>
      <div className="scroll-x">
        <table className="table">
          <thead>
            <tr>
              <th>{t('system.owner')}</th>
              <th>{t('system.role')}</th>
              <th>{t('system.up')}</th>
              <th>{t('system.holds')}</th>
            </tr>
          </thead>
          <tbody>
            {rowsOf(list, state).map((each) => (
              <tr key={each.id}>
                <td className="mono two">
                  {each.id}
                  {each.version && <small>{each.version}</small>}
                </td>
                <td className="t2 nowrap">{each.role ?? '–'}</td>
                <td className="t2 nowrap">{each.since ? duration((now - Date.parse(each.since)) / 1000) : '–'}</td>
                <td>
                  <span className="holds">
                    {each.lanes > 0 && <span className="tag">{t('system.lanes', { n: each.lanes })}</span>}
                    {each.holdings.map((hold) => (
                      <span key={hold.kind + hold.name} className={`tag m-${HOLD[hold.kind] ?? 'idle'}`}>
                        {hold.kind} <b>{hold.name.replace(/^postrider\./, '')}</b>
                        {hold.count > 1 && ` ×${number(hold.count)}`}
                      </span>
                    ))}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** What a run reports as JSON is shown as names and values. */
function messageOf(message: string | null | undefined): string {
  if (!message) return '–';
  try {
    const report: unknown = JSON.parse(message);
    if (report === null || typeof report !== 'object') return message;
    const parts = Object.entries(report).filter(([, value]) => typeof value !== 'object');
    return parts.map(([name, value]) => `${name} ${String(value)}`).join(' · ') || '–';
  } catch {
    return message;
  }
}

export function Jobs({ list }: { list: Job[] }) {
  return (
    <section className="card">
      <header>
        <h2>{t('system.jobs')}</h2>
        <span className="meta grow">{list.length}</span>
        <span className="meta">{t('system.slots')}</span>
      </header>
      <div className="scroll-x">
        <table className="table">
          <thead>
            <tr>
              <th>{t('system.job')}</th>
              <th>{t('col.last')}</th>
              <th>{t('system.said')}</th>
              <th className="num">{t('system.nextin')}</th>
            </tr>
          </thead>
          <tbody>
            {list.map((job) => (
              <tr key={job.name}>
                <td className="two">
                  {job.name}
                  <small className="mono">{job.schedule}</small>
                </td>
                <td className="t2">{job.lastFire ? clock(job.lastFire) : '–'}</td>
                <td>
                  <span className={`status ${job.success === false ? 'm-warn loud' : 'm-ok calm'}`}>
                    {job.success != null && <Icon name={job.success ? 'check' : 'alert'} size={14} />}
                    {messageOf(job.message)}
                  </span>
                </td>
                <td className="num">{job.nextFire ? <Countdown to={job.nextFire} /> : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
