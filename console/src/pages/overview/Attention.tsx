// What needs an action, worst first, each with its verb.
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useLive } from '../../api/live';
import type { FailureGroup } from '../../api/pending';
import { consumers, failures, promises, topics } from '../../api/queries';
import { Button } from '../../components/Button';
import { Icon, type IconName } from '../../components/Icon';
import type { Meaning } from '../../components/Status';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { silentSeconds } from '../../lib/consumer';
import { brief, duration, moment, number, shortError } from '../../lib/format';
import { useHealth, useLimits, useRefusal, useWhole } from '../../shell/session';
import { RedriveWizard } from '../../wizard';
import { useConsumerActs } from '../consumers/acts';
import { usePause } from '../consumers/pause';
import { idOf } from '../failures/group';
import { type Need, needsOf } from './needs';

/** More would push the verbs off the first screen. */
const SHOWN = 5;
type Item = { icon: IconName; meaning: Meaning; title: string; text: string; act: ReactNode };

export function Attention() {
  const whole = useWhole();
  const held = useQuery({ ...promises, enabled: whole.may }).data?.promises ?? [];
  const groups = useQuery(failures).data?.groups ?? [];
  const list = useQuery(consumers()).data ?? [];
  const heard = useQuery(topics).data ?? [];
  const relays = useHealth().data?.instances.length ?? null;
  const limits = useLimits();
  const oldest = useLive((live) => live.stats?.oldestPendingSeconds ?? 0);
  const [redrive, setRedrive] = useState<FailureGroup | null>(null);
  const [all, setAll] = useState(false);
  const needs = needsOf({
    promises: held,
    groups,
    consumers: list,
    topics: heard,
    limits,
    relays,
    oldestSeconds: oldest,
    now: storeNow(),
  });
  const hidden = all ? 0 : Math.max(0, needs.length - SHOWN);
  return (
    <section className="card attention">
      <header>
        <h2>{t('attention.title')}</h2>
        {needs.length > 0 && <span className="badge m-bad">{needs.length}</span>}
        <Link to="/failures">{t('attention.all')}</Link>
      </header>
      {needs.length === 0 && (
        <div className="attention-item">
          <Icon name="check" className="ok" />
          <div className="grow">
            <b>{t('attention.none')}</b>
            <p>{t('attention.none.text')}</p>
          </div>
        </div>
      )}
      {needs.slice(0, needs.length - hidden).map((need) => (
        <NeedRow key={keyOf(need)} need={need} onRedrive={setRedrive} />
      ))}
      {hidden > 0 && (
        <button type="button" className="attention-more" onClick={() => setAll(true)}>
          {t('more', { n: hidden })}
        </button>
      )}
      {redrive && <RedriveWizard what={{ groups: [redrive] }} onClose={() => setRedrive(null)} />}
    </section>
  );
}

function keyOf(need: Need): string {
  if (need.kind === 'promise') return need.promise.name;
  if (need.kind === 'group') return idOf(need.group);
  if (need.kind === 'unheard') return `unheard ${need.topic.topic}`;
  return 'consumer' in need ? `${need.kind} ${need.consumer.consumerId}` : need.kind;
}

function NeedRow({ need, onRedrive }: { need: Need; onRedrive: (group: FailureGroup) => void }) {
  const item = useItem(need, onRedrive);
  return (
    <div className="attention-item">
      <span className={`status m-${item.meaning}`}>
        <Icon name={item.icon} />
      </span>
      <div className="grow">
        <span className="attention-title">{item.title}</span>
        <p className="cut">{item.text}</p>
      </div>
      {item.act}
    </div>
  );
}

function Show({ to, search }: { to: string; search?: Record<string, string> }) {
  return (
    <Link className="btn small" to={to} search={(search ?? {}) as never}>
      {t('show')}
    </Link>
  );
}

function useItem(need: Need, onRedrive: (group: FailureGroup) => void): Item {
  const { resume } = useConsumerActs();
  const navigate = useNavigate();
  const operator = useRefusal('operator');
  const admin = useRefusal('admin');
  const now = storeNow();
  const pause = usePause(need.kind === 'paused' ? need.consumer : undefined);
  switch (need.kind) {
    case 'promise':
      return {
        icon: 'alert',
        meaning: 'bad',
        title: t('attention.promise', { p: t(`promise.${need.promise.name}`) }),
        text: need.promise.events?.slice(0, 3).join(', ') ?? '',
        act: <Show to="/" search={{ panel: 'promises' }} />,
      };
    case 'nobody':
      return {
        icon: 'server',
        meaning: 'bad',
        title: t('why.nobody'),
        text: t('why.nobody.text'),
        act: <Show to="/system" />,
      };
    case 'group':
      return {
        icon: 'dead',
        meaning: 'bad',
        title: [need.group.consumerId, shortError(need.group.sample, need.group.errorCode)].join(' · '),
        text: t(need.group.count > need.group.dead ? 'attention.group' : 'attention.group.dead', {
          r: number(need.group.count - need.group.dead),
          d: number(need.group.dead),
          at: moment(need.group.first, now),
        }),
        act: (
          <Button small refused={operator} onClick={() => onRedrive(need.group)}>
            {t('act.redrive')}
          </Button>
        ),
      };
    case 'groups':
      return {
        icon: 'dead',
        meaning: 'bad',
        title: t('attention.groups', { n: need.groups.length }),
        text: t('attention.groups.text', {
          d: number(need.groups.reduce((sum, each) => sum + each.dead, 0)),
          c: [...new Set(need.groups.map((each) => each.consumerId))].join(', '),
        }),
        act: <Show to="/failures" />,
      };
    case 'held': {
      const { consumer, keys } = need;
      const held = number(consumer.held ?? 0);
      return {
        icon: 'lock',
        meaning: 'warn',
        title: keys.length > 0 ? t('attention.keys', { n: keys.length }) : t('attention.held', { n: held }),
        text:
          keys.length > 0
            ? t('attention.keys.text', { n: held, keys: keys.slice(0, 3).join(', ') })
            : t('attention.held.text', { c: consumer.consumerId }),
        act: <Show to="/consumers" search={{ sel: consumer.consumerId }} />,
      };
    }
    case 'paused': {
      const { consumer } = need;
      const age = pause?.at ? brief((now - Date.parse(pause.at)) / 1000) : '–';
      return {
        icon: 'pause',
        meaning: 'human',
        title: t('attention.paused', { c: consumer.consumerId }),
        text: pause
          ? t(pause.why ? 'attention.paused.text' : 'attention.paused.who', { who: pause.who, age, why: pause.why })
          : t('attention.paused.plain', { n: number(consumer.lag ?? 0) }),
        act: (
          <Button small refused={operator} onClick={() => void resume(consumer.consumerId)}>
            {t('act.resume')}
          </Button>
        ),
      };
    }
    case 'unheard':
      return {
        icon: 'info',
        meaning: 'idle',
        title: t('attention.unheard', { t: need.topic.topic }),
        text: t('attention.unheard.text', { n: number(need.topic.unheard) }),
        act: (
          <Button
            small
            refused={admin}
            onClick={() => void navigate({ to: '/subscriptions', search: { topic: need.topic.topic } as never })}
          >
            {t('act.subscribe')}
          </Button>
        ),
      };
    case 'silent':
      return {
        icon: 'clock',
        meaning: 'warn',
        title: t('attention.silent', { c: need.consumer.consumerId }),
        text: t('attention.silent.text', { age: brief(silentSeconds(need.consumer, now)) }),
        act: <Show to="/consumers" search={{ sel: need.consumer.consumerId }} />,
      };
    case 'oldest':
      return {
        icon: 'clock',
        meaning: 'warn',
        title: t('attention.oldest', { age: duration(need.seconds) }),
        text: t('attention.oldest.text', { n: need.limit }),
        act: <Show to="/events" search={{ preset: 'slow' }} />,
      };
  }
}
