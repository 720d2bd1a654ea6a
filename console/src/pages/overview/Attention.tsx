// What needs somebody, worst first, each with its verb.
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useState } from 'react';
import { useLive } from '../../api/live';
import type { FailureGroup } from '../../api/pending';
import { consumers, failures, promises, topics } from '../../api/queries';
import { Button } from '../../components/Button';
import { Icon, type IconName } from '../../components/Icon';
import type { Meaning } from '../../components/Status';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { consumerState, OLDEST_SECONDS, silentSeconds } from '../../lib/consumer';
import { duration, moment, number } from '../../lib/format';
import { useRefusal } from '../../shell/session';
import { RedriveWizard } from '../../wizard';
import { useConsumerActs } from '../consumers/acts';

/** More would push the verbs off the first screen. */
const SHOWN = 5;
type Item = { key: string; icon: IconName; meaning: Meaning; title: ReactNode; text: ReactNode; act: ReactNode };

export function Attention() {
  const groups = useQuery(failures).data?.groups ?? [];
  const list = useQuery(consumers).data ?? [];
  const heard = useQuery(topics).data ?? [];
  const broken = useQuery(promises).data?.promises.filter((each) => !each.ok) ?? [];
  const { stats } = useLive();
  const [redrive, setRedrive] = useState<FailureGroup | null>(null);
  const { resume } = useConsumerActs();
  const navigate = useNavigate();
  const operator = useRefusal('operator');
  const admin = useRefusal('admin');
  const now = storeNow();
  const items: Item[] = [];

  for (const promise of broken) {
    items.push({
      key: promise.name,
      icon: 'alert',
      meaning: 'bad',
      title: t('attention.promise', { p: t(`promise.${promise.name}`) }),
      text: promise.events?.slice(0, 3).join(', '),
      act: (
        <Link className="btn small" to="/" search={{ panel: 'promises' } as never}>
          {t('show')}
        </Link>
      ),
    });
  }
  const worst = [...groups]
    .filter((each) => each.dead > 0 && (each.hours?.at(-1) ?? 1) > 0)
    .sort((a, b) => b.count - a.count)
    .slice(0, 2);
  for (const group of worst.slice(0, 1)) {
    items.push({
      key: `${group.consumerId}${group.fingerprint}`,
      icon: 'cross',
      meaning: 'bad',
      title: `${group.consumerId} · ${group.sample.split(/[:.]/)[0]}`,
      text: t('attention.group', {
        r: number(group.count - group.dead),
        d: number(group.dead),
        at: moment(group.first, now),
      }),
      act: (
        <Button small refused={operator} onClick={() => setRedrive(group)}>
          {t('act.redrive')}
        </Button>
      ),
    });
  }
  for (const each of list.filter((one) => (one.held ?? 0) > 0)) {
    items.push({
      key: `held${each.consumerId}`,
      icon: 'lock',
      meaning: 'warn',
      title: t('attention.held', { n: number(each.held ?? 0) }),
      text: t('attention.held.text', { c: each.consumerId }),
      act: (
        <Button small onClick={() => void navigate({ to: '/consumers', search: { sel: each.consumerId } as never })}>
          {t('show')}
        </Button>
      ),
    });
  }
  for (const each of list.filter((one) => one.paused)) {
    const age = each.pausedAt ? duration((now - Date.parse(each.pausedAt)) / 1000) : '–';
    items.push({
      key: `paused${each.consumerId}`,
      icon: 'pause',
      meaning: 'human',
      title: t('attention.paused', { c: each.consumerId }),
      text: each.pausedBy
        ? t('attention.paused.text', { who: each.pausedBy, age, why: each.pauseReason ?? '' })
        : t('attention.paused.plain', { n: number(each.lag ?? 0) }),
      act: (
        <Button small refused={operator} onClick={() => void resume(each.consumerId)}>
          {t('act.resume')}
        </Button>
      ),
    });
  }
  for (const each of heard.filter((one) => one.unheard > 0)) {
    items.push({
      key: `unheard${each.topic}`,
      icon: 'info',
      meaning: 'idle',
      title: t('attention.unheard', { t: each.topic }),
      text: t('attention.unheard.text', { n: number(each.unheard) }),
      act: (
        <Button
          small
          refused={admin}
          onClick={() => void navigate({ to: '/subscriptions', search: { topic: each.topic } as never })}
        >
          {t('act.subscribe')}
        </Button>
      ),
    });
  }
  for (const each of list.filter((one) => consumerState(one, now) === 'silent')) {
    items.push({
      key: `silent${each.consumerId}`,
      icon: 'clock',
      meaning: 'warn',
      title: t('attention.silent', { c: each.consumerId }),
      text: t('attention.silent.text', { age: duration(silentSeconds(each, now)) }),
      act: (
        <Button small onClick={() => void navigate({ to: '/consumers', search: { sel: each.consumerId } as never })}>
          {t('show')}
        </Button>
      ),
    });
  }
  const oldest = stats?.oldestPendingSeconds ?? 0;
  if (oldest > OLDEST_SECONDS) {
    items.push({
      key: 'oldest',
      icon: 'clock',
      meaning: 'warn',
      title: t('attention.oldest', { age: duration(oldest) }),
      text: t('attention.oldest.text', { n: OLDEST_SECONDS }),
      act: (
        <Link className="btn small" to="/events" search={{ preset: 'slow' } as never}>
          {t('show')}
        </Link>
      ),
    });
  }

  return (
    <section className="card attention">
      <header>
        <h2>{t('attention.title')}</h2>
        {items.length > 0 && <span className="badge m-bad">{items.length}</span>}
        <Link to="/failures">{t('attention.all')}</Link>
      </header>
      {items.length === 0 && (
        <div className="attention-item">
          <Icon name="check" className="ok" />
          <div className="grow">
            <b>{t('attention.none')}</b>
            <p>{t('attention.none.text')}</p>
          </div>
        </div>
      )}
      {items.slice(0, SHOWN).map((item) => (
        <div key={item.key} className="attention-item">
          <span className={`status m-${item.meaning}`}>
            <Icon name={item.icon} />
          </span>
          <div className="grow">
            <span className="attention-title">{item.title}</span>
            <p className="cut">{item.text}</p>
          </div>
          {item.act}
        </div>
      ))}
      {redrive && <RedriveWizard what={{ group: redrive }} onClose={() => setRedrive(null)} />}
    </section>
  );
}
