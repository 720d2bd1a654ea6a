// Store, broker, schema, clock and retention, one cell each.
import type { ReactNode } from 'react';
import type { Health } from '../../api/pending';
import type { components } from '../../api/schema';
import { Icon, type IconName } from '../../components/Icon';
import { Sparkline } from '../../components/Sparkline';
import { t } from '../../i18n';
import { bytes, clock, hourMinute, number } from '../../lib/format';

type Job = components['schemas']['Job'];
type Setting = components['schemas']['Setting'];
/** Clocks further apart than this disturb leases and schedules. */
const CLOCK_MS = 500;

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

export function Cells({ health: state, jobs: list, settings }: { health: Health; jobs: Job[]; settings: Setting[] }) {
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
            ? t('system.prune.failed', { at: prune.nextFire ? hourMinute(prune.nextFire) : '–' })
            : prune?.nextFire
              ? t('system.next', { at: clock(prune.nextFire) })
              : ''
        }
      />
    </div>
  );
}
