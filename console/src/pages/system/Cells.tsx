// Store, broker, schema, clock and retention, one cell each.
import type { ReactNode } from 'react';
import type { components } from '../../api/schema';
import type { Health } from '../../api/types';
import { Icon, type IconName } from '../../components/Icon';
import { has, type MessageKey, t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { bytes, clock, hourMinute, moment, took } from '../../lib/format';
import { storeName } from '../../shell/session';

type Job = components['schemas']['Job'];
type Setting = components['schemas']['Setting'];
/** Clocks further apart than this disturb leases and schedules. */
const CLOCK_MS = 500;

function Cell(props: { icon: IconName; name: string; good: boolean; value: string; note: ReactNode }) {
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
    </div>
  );
}

export function Cells({ health: state, jobs: list, settings }: { health: Health; jobs: Job[]; settings: Setting[] }) {
  const prune = list.find((job) => /prune|retention/.test(job.name));
  const days = settings.find((each) => each.key === 'retention.finished-days')?.value;
  const { store, broker } = state;
  const { found, needed } = store.schema;
  const size = store.sizes.reduce((sum, each) => sum + each.bytes, 0);
  const clockGood = Math.abs(store.clockDifferenceMs) < CLOCK_MS;
  return (
    <div className="card cells health">
      <Cell
        icon="database"
        name={t('system.store')}
        good
        value={`${storeName(store.kind)} ${store.version}`}
        note={t('system.latency', { t: took(store.latencyMs, 1) })}
      />
      {broker && broker.state !== 'unused' ? (
        <Cell
          icon="plane"
          name={t('system.broker')}
          good={broker.state === 'connected'}
          value={has(`broker.${broker.state}`) ? t(`broker.${broker.state}` as MessageKey) : broker.state}
          note={broker.error ?? t('system.since', { at: moment(broker.since, storeNow()) })}
        />
      ) : (
        <Cell icon="plane" name={t('system.broker')} good value={t('none')} note={t('system.nobroker')} />
      )}
      <Cell
        icon="matrix"
        name={t('system.schema')}
        good={found === needed}
        value={`${found} / ${needed}`}
        note={found === needed ? t('system.schema.ok') : t('system.schema.bad')}
      />
      <Cell
        icon="clock"
        name={t('system.clock')}
        good={clockGood}
        value={`${store.clockDifferenceMs > 0 ? '+' : ''}${store.clockDifferenceMs} ms`}
        note={t('system.clock.text')}
      />
      <Cell
        icon="trash"
        name={t('system.retention')}
        good={prune?.success !== false}
        value={[size > 0 && bytes(size), days && t('system.days', { n: days })].filter(Boolean).join(' · ') || '–'}
        note={
          prune?.success === false
            ? t('system.prune.failed', { at: prune.nextFire ? hourMinute(prune.nextFire) : '–' })
            : prune?.nextFire
              ? t('system.next', { at: clock(prune.nextFire) })
              : ''
        }
      />
    </div>
  );
}
