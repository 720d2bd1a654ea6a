// What the installation itself reports: alerts that fire, and work that no live process does.
import { Link } from '@tanstack/react-router';
import type { Health } from '../../api/types';
import { Icon } from '../../components/Icon';
import { has, type MessageKey, t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { moment, number } from '../../lib/format';

function alertName(alert: string): string {
  return has(`alert.${alert}`) ? t(`alert.${alert}` as MessageKey) : alert;
}

export function Troubles({ health }: { health: Health }) {
  const firing = health.alerts.filter((each) => each.state === 'firing');
  const { unservedLanes: lanes, unservedLoops: loops } = health;
  if (firing.length + lanes.length + loops.length === 0) return null;
  return (
    <section className="card troubles">
      {lanes.map((each) => (
        <Trouble key={each.lane} title={t('system.lane.unserved', { c: each.lane })} consumer={each.lane}>
          {t('system.lane.waiting', { n: number(each.waiting) })}
        </Trouble>
      ))}
      {loops.map((each) => (
        <Trouble key={each.name} title={t('system.loop.unserved', { n: each.name })}>
          {each.without}
        </Trouble>
      ))}
      {firing.map((each) => (
        <Trouble key={`${each.alert} ${each.consumer}`} title={alertName(each.alert)} consumer={each.consumer}>
          {t('system.since', { at: moment(each.since, storeNow()) })}
          {!each.sent && ` · ${t('alert.unsent')}`}
        </Trouble>
      ))}
    </section>
  );
}

function Trouble(props: { title: string; consumer?: string | null; children: React.ReactNode }) {
  return (
    <p className="trouble m-warn">
      <span className="status">
        <Icon name="alert" />
      </span>
      <b>{props.title}</b>
      {props.consumer && (
        <Link to="/consumers" search={{ sel: props.consumer } as never}>
          {props.consumer}
        </Link>
      )}
      <span className="t2">{props.children}</span>
    </p>
  );
}
