// What runs, what counts?
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Health } from '../../api/pending';
import { config, health, instances, jobs } from '../../api/queries';
import type { components } from '../../api/schema';
import { Button } from '../../components/Button';
import { Segments } from '../../components/Controls';
import { Cli, copyText } from '../../components/Copy';
import { Empty, Loaded } from '../../components/Empty';
import { Icon, type IconName } from '../../components/Icon';
import { Sparkline } from '../../components/Sparkline';
import type { Meaning } from '../../components/Status';
import { Countdown } from '../../components/Time';
import { toast } from '../../components/Toasts';
import { has, type MessageKey, t } from '../../i18n';
import { useNow } from '../../lib/clock';
import { bytes, clock, duration, number } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { useRefusal } from '../../shell/session';
import './system.css';

type Instance = components['schemas']['Instance'];
type Job = components['schemas']['Job'];
type Setting = components['schemas']['Setting'];

/** Clocks further apart than this disturb leases and schedules. */
const CLOCK_MS = 500;
const ORIGINS: Record<string, Meaning> = { file: 'info', environment: 'human', flag: 'part', default: 'idle' };

export function System() {
  const state = useQuery({ ...health, retry: false });
  const who = useQuery(instances);
  const schedule = useQuery(jobs);
  const operator = useRefusal('operator');
  const settings = useQuery({ ...config, enabled: !operator });
  const ok = state.data && state.data.schema.have === state.data.schema.want;
  function bundle() {
    const text = JSON.stringify(
      { health: state.data, instances: who.data, jobs: schedule.data, config: settings.data },
      null,
      2,
    );
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    link.download = 'postrider-debug.json';
    link.click();
    URL.revokeObjectURL(link.href);
  }
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.system')}</h1>
        {state.data && (
          <span className={`pill m-${ok ? 'ok' : 'bad'}`}>
            <Icon name={ok ? 'check' : 'alert'} size={14} />
            {ok ? t('login.ready') : t('login.notready')}
          </span>
        )}
        <div className="tools">
          <Button
            kind="quiet"
            icon="terminal"
            onClick={() => {
              void copyText('postrider doctor');
              toast({ icon: 'copy', title: t('copied') });
            }}
          >
            postrider doctor
          </Button>
          <Button icon="download" refused={operator} onClick={bundle}>
            {t('system.bundle')}
          </Button>
        </div>
      </div>
      {state.data && <Cells health={state.data} jobs={schedule.data ?? []} settings={settings.data ?? []} />}
      <div className="system-two">
        <Loaded query={who}>{(list) => <Instances list={list} health={state.data} />}</Loaded>
        <Loaded query={schedule}>{(list) => <Jobs list={list} />}</Loaded>
      </div>
      {operator ? (
        <div className="card">
          <Empty icon="lock" title={t('system.config')} text={operator} />
        </div>
      ) : (
        <Loaded query={settings}>{(list) => <Configuration settings={list} />}</Loaded>
      )}
      <div className="under">
        <Cli line="postrider config" />
      </div>
    </div>
  );
}

function Cell(props: {
  icon: IconName;
  name: string;
  good: boolean;
  value: string;
  note: ReactNode;
  values?: number[];
}) {
  return (
    <div className="cell-health">
      <div className="between">
        <span className="row t2">
          <Icon name={props.icon} size={14} />
          {props.name}
        </span>
        <span className={`status m-${props.good ? 'ok' : 'warn'}`}>
          <Icon
            name={props.good ? 'check' : 'alert'}
            size={14}
            label={props.good ? t('login.ready') : t('attention.title')}
          />
        </span>
      </div>
      <b>{props.value}</b>
      <small>{props.note}</small>
      {props.values && props.values.length > 1 && (
        <Sparkline values={props.values} meaning="ok" width={54} height={20} />
      )}
    </div>
  );
}

function Cells({ health: state, jobs: list, settings }: { health: Health; jobs: Job[]; settings: Setting[] }) {
  const prune = list.find((job) => /prune|retention/.test(job.name));
  const days = settings.find((each) => each.key === 'retention.finished-days')?.value;
  const { store, broker, schema } = state;
  return (
    <div className="card cells health">
      <Cell
        icon="database"
        name={t('system.store')}
        good
        value={`${store.kind} ${store.version}`}
        note={[
          `${store.latencyMs} ms`,
          store.connections && t('system.connections', { n: store.connections.used, m: store.connections.max }),
        ]
          .filter(Boolean)
          .join(' · ')}
        values={store.history}
      />
      {broker ? (
        <Cell
          icon="plane"
          name={t('system.broker')}
          good={broker.unconfirmed < 1000}
          value={`${broker.kind} ${broker.version}`}
          note={`${broker.latencyMs} ms · ${t('system.unconfirmed', { n: number(broker.unconfirmed) })}`}
          values={broker.history}
        />
      ) : (
        <Cell icon="plane" name={t('system.broker')} good value={t('none')} note={t('system.nobroker')} />
      )}
      <Cell
        icon="matrix"
        name={t('system.schema')}
        good={schema.have === schema.want}
        value={`${schema.have} / ${schema.want}`}
        note={schema.have === schema.want ? t('system.schema.ok') : t('system.schema.bad')}
      />
      <Cell
        icon="clock"
        name={t('system.clock')}
        good={Math.abs(state.clock.differenceMs) < CLOCK_MS}
        value={`${state.clock.differenceMs > 0 ? '+' : ''}${state.clock.differenceMs} ms`}
        note={t('system.clock.text')}
      />
      <Cell
        icon="trash"
        name={t('system.retention')}
        good={prune?.success !== false}
        value={
          [state.sizes && bytes(state.sizes.bytes), days && t('system.days', { n: days })]
            .filter(Boolean)
            .join(' · ') || '–'
        }
        note={
          prune?.success === false
            ? (prune.message ?? '')
            : prune?.nextFire
              ? t('system.next', { at: clock(prune.nextFire) })
              : ''
        }
      />
    </div>
  );
}

const HOLD: Record<string, Meaning> = { lane: 'idle', lease: 'info', job: 'human', operation: 'human' };

function Instances({ list, health: state }: { list: Instance[]; health?: Health }) {
  const now = useNow();
  const all =
    state?.instances ??
    list.map((each) => ({ owner: each.owner, role: '–', version: '', since: '', address: undefined }));
  return (
    <section className="card">
      <header>
        <h2>{t('system.instances')}</h2>
        <span className="meta grow">{all.length}</span>
        <span className="meta">{t('system.leases')}</span>
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
                <td className="t2 nowrap">serve {each.role}</td>
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

function Jobs({ list }: { list: Job[] }) {
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

function Configuration({ settings }: { settings: Setting[] }) {
  const [search, change] = useUrl();
  const changed = settings.filter((each) => each.origin !== 'default');
  const only = search.config === 'changed';
  const shown = (only ? changed : settings).filter((each) => each.key.includes(search.find ?? ''));
  const sentence = (key: string) => (has(`config.${key}`) ? t(`config.${key}` as MessageKey) : '');
  return (
    <section className="card">
      <header>
        <h2>{t('system.config')}</h2>
        <span className="meta grow">{t('system.config.text')}</span>
        <input
          className="input find"
          aria-label={t('system.find')}
          placeholder={t('system.find')}
          value={search.find ?? ''}
          onChange={(event) => change({ find: event.target.value || undefined }, true)}
        />
        <Segments
          label={t('system.config')}
          value={only ? 'changed' : 'all'}
          onChange={(value) => change({ config: value === 'all' ? undefined : value })}
          options={[
            { value: 'all', label: `${t('all')} ${settings.length}` },
            { value: 'changed', label: `${t('system.changed')} ${changed.length}` },
          ]}
        />
      </header>
      <div className="scroll-x">
        <table className="table config">
          <tbody>
            {shown.map((each) => (
              <tr key={each.key}>
                <td className="mono">{each.key}</td>
                <td className="mono">{each.value}</td>
                <td>
                  <span className={`tag m-${ORIGINS[each.origin] ?? 'idle'}`}>
                    {each.origin === 'file' ? 'postrider.toml' : each.origin}
                  </span>
                </td>
                <td className="t2">{sentence(each.key)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
