import { useQuery } from '@tanstack/react-query';
import type { Promise_ } from '../../api/pending';
import { promises } from '../../api/queries';
import { Icon, type IconName } from '../../components/Icon';
import type { Meaning } from '../../components/Status';
import { has, type MessageKey, t } from '../../i18n';
import { useNow } from '../../lib/clock';
import { brief, hourMinute, number } from '../../lib/format';
import { useWhole } from '../../shell/session';

/** A promise is kept, kept with effort (events wait so that order is kept), or broken. */
export function lookOf(promise: Promise_): { icon: IconName; meaning: Meaning } {
  if (!promise.ok) return { icon: 'alert', meaning: 'bad' };
  if ((promise.figures.held ?? 0) > 0) return { icon: 'lock', meaning: 'warn' };
  return { icon: 'check', meaning: 'ok' };
}

export function figureName(name: string): string {
  return has(`figure.${name}`) ? t(`figure.${name}` as MessageKey) : name;
}

/** In this order; figures of a service's own books come before their discrepancies. */
const ORDER = ['repeats', 'stopped', 'twice', 'leases', 'oldestSeconds', 'overdue', 'lanes', 'outOfOrder', 'heldKeys'];

function place(name: string): number {
  const at = ORDER.indexOf(name);
  return at < 0 ? (name === 'discrepancies' ? ORDER.length + 1 : ORDER.length) : at;
}

export function figuresOf(promise: Promise_): [string, number][] {
  return Object.entries(promise.figures).sort(([a], [b]) => place(a) - place(b));
}

/** The figures of a promise as one sentence. */
export function lineOf(promise: Promise_): string {
  const values = Object.fromEntries(figuresOf(promise).map(([name, value]) => [name, number(value)]));
  if (promise.name === 'stuck' && !promise.figures.leases && !promise.figures.overdue) return t('promise.stuck.idle');
  if (promise.name === 'order' && !promise.figures.held) return t('promise.order.ok');
  const key = `promise.${promise.name}.line`;
  if (has(key)) return t(key, values);
  const list = Object.entries(values).map(([name, value]) => `${value} ${figureName(name)}`);
  const source = [promise.source, promise.checkedAt && hourMinute(promise.checkedAt)].filter(Boolean).join(' ');
  return [source, list.join(', ')].filter(Boolean).join(' · ');
}

export function PromisesPanel({ onOpen }: { onOpen: () => void }) {
  const whole = useWhole();
  const { data } = useQuery({ ...promises, retry: false, enabled: whole.may });
  const now = useNow();
  if (!data) return null;
  return (
    <section className="card promises">
      <header>
        <h2>{t('promises')}</h2>
        <button type="button" className="meta link" onClick={onOpen}>
          {t('promises.checked', { age: brief(Math.max(1, (now - Date.parse(data.checkedAt)) / 1000)) })}
        </button>
      </header>
      {data.promises.map((promise) => {
        const look = lookOf(promise);
        return (
          <button type="button" key={promise.name} className="promise" onClick={onOpen}>
            <span className={`status m-${look.meaning}`}>
              <Icon name={look.icon} />
            </span>
            <span className="grow">
              <span className={promise.ok ? '' : 'm-bad c strong'}>{t(`promise.${promise.name}`)}</span>
              <small>{lineOf(promise)}</small>
            </span>
          </button>
        );
      })}
    </section>
  );
}
