// Instances with what they hold, and jobs with their last and next fire.
import type { Health } from '../../api/pending';
import type { components } from '../../api/schema';
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

export function Instances({ list, health: state }: { list: Instance[]; health?: Health }) {
  const now = useNow();
  const { leaseSeconds } = useLimits();
  const all =
    state?.instances ??
    list.map((each) => ({ owner: each.owner, role: '', version: '', since: '', address: undefined }));
  return (
    <section className="card">
      <header>
        <h2>{t('system.instances')}</h2>
        <span className="meta grow">{all.length}</span>
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
            {all.map((each) => (
              <tr key={each.owner}>
                <td className="mono two">
                  {each.owner}
                  {each.address && <small>{each.address}</small>}
                </td>
                <td className="t2 nowrap">{each.role ? `serve ${each.role}` : '–'}</td>
                <td className="t2 nowrap">{each.since ? duration((now - Date.parse(each.since)) / 1000) : '–'}</td>
                <td>
                  <span className="holds">
                    {list
                      .find((one) => one.owner === each.owner)
                      ?.holdings.map((hold) => (
                        <span key={hold.kind + hold.name} className={`tag m-${HOLD[hold.kind] ?? 'idle'}`}>
                          {hold.kind} <b>{hold.name}</b>
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
                    {job.message ?? '–'}
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
