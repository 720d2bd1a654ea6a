// Why is it waiting? The cause in a sentence, what comes next and when, one thing to do.
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { EventDetail } from '../../api/pending';
import { consumers, events, failures, topics } from '../../api/queries';
import { Button } from '../../components/Button';
import { Icon, type IconName } from '../../components/Icon';
import { givenUpAt, Ladder } from '../../components/Ladder';
import type { Meaning } from '../../components/Status';
import { Countdown } from '../../components/Time';
import { t, tx } from '../../i18n';
import { storeNow, useNow } from '../../lib/clock';
import { type Why, whyWaiting } from '../../lib/event';
import { clock, duration, hourMinute, number, shortError } from '../../lib/format';
import { useHealth, useLimits, useRefusal } from '../../shell/session';
import { useConsumerActs } from '../consumers/acts';
import { usePause } from '../consumers/pause';
import type { Ask } from './AskAct';

type Card = { icon: IconName; meaning: Meaning; title: ReactNode; text: ReactNode; act?: ReactNode; below?: ReactNode };

/** A share of time that has passed, with its two ends. */
function Passed({ from, to, left, right }: { from: string; to: string; left: string; right: string }) {
  const now = useNow();
  const share = Math.min(1, Math.max(0, (now - Date.parse(from)) / Math.max(1, Date.parse(to) - Date.parse(from))));
  return (
    <div className="passed m-info">
      <span className="bar-line">
        <i style={{ width: `${share * 100}%` }} />
      </span>
      <span className="between fine t2">
        <span>{left}</span>
        <span>{right}</span>
      </span>
    </div>
  );
}

const OPEN = ['PENDING', 'SENT', 'RETRYING'];

/** What stands before this event, and what behind it. */
function Chain(props: { icon: IconName; first?: string; between?: number; more: number }) {
  const { icon, first, between = 0, more } = props;
  const links: [IconName, string][] = [[icon, first ?? '–']];
  if (between > 0) links.push(['clock', t('more', { n: between })]);
  links.push(['lock', t('why.this')]);
  if (more > 0) links.push(['clock', t('more', { n: more })]);
  return (
    <ol className="chain">
      {links.map(([name, text]) => (
        <li key={text} className={name === 'lock' ? 'strong' : ''}>
          <Icon name={name} size={14} />
          <span className="cut">{text}</span>
        </li>
      ))}
    </ol>
  );
}

export function WhyCard({ event, onAsk }: { event: EventDetail; onAsk: (ask: Ask) => void }) {
  const list = useQuery(consumers()).data ?? [];
  const instances = useHealth().data?.instances.length ?? null;
  const why = whyWaiting(event, list, storeNow(), instances);
  if (!why) return null;
  return <Answer event={event} why={why} onAsk={onAsk} />;
}

function Answer({ event, why, onAsk }: { event: EventDetail; why: Why; onAsk: (ask: Ask) => void }) {
  const operator = useRefusal('operator');
  const admin = useRefusal('admin');
  const navigate = useNavigate();
  const { resume } = useConsumerActs();
  const groups = useQuery(failures).data?.groups ?? [];
  const limits = useLimits();
  const cap = limits.backoffCapSeconds;
  const key = [event.aggregateType?.toLowerCase(), event.key].filter(Boolean).join(' ');
  const now = useNow();
  const same = useQuery({ ...events({ key: event.key, limit: 20 }), enabled: !!event.key }).data?.events ?? [];
  const later = same.filter((each) => each.occurredAt > event.occurredAt && OPEN.includes(each.status)).length;
  const unheard = useQuery({ ...topics, enabled: why.answer === 'unheard', retry: false }).data?.find(
    (each) => each.topic === event.topic,
  )?.unheard;
  const pause = usePause(why.answer === 'paused' ? why.consumer : undefined);
  const card = cardOf();
  return (
    <section className={`card edge why m-${card.meaning}`}>
      <span className="status">
        <Icon name={card.icon} />
      </span>
      <div className="grow">
        <div className="between">
          <h2>{card.title}</h2>
          {card.act}
        </div>
        <div className="t2 quoting">{card.text}</div>
        {card.below}
      </div>
    </section>
  );

  function cardOf(): Card {
    switch (why.answer) {
      case 'dead': {
        const { part } = why;
        const last = part.attempts.at(-1);
        return {
          icon: 'dead',
          meaning: 'bad',
          title: t('why.dead', { c: part.consumerId, n: part.attempts.length }),
          text: tx('why.dead.text', {
            error: <b>{last?.errorCode ?? last?.errorMessage?.slice(0, 60) ?? '–'}</b>,
            at: last ? clock(last.consumedAt ?? last.createdAt) : '–',
          }),
          act: redriveButton(part.consumerId, t('act.redrive')),
        };
      }
      case 'held':
        return {
          icon: 'lock',
          meaning: 'idle',
          title: t('why.held'),
          text: tx('why.held.text', {
            key,
            topic: <b>{why.part.delivery?.heldBy?.topic ?? '–'}</b>,
            c: why.part.consumerId,
          }),
          act: open(why.part.delivery?.heldBy?.eventId, t('why.open.dead')),
          below: <Chain icon="dead" first={why.part.delivery?.heldBy?.topic} more={later} />,
        };
      case 'working': {
        const { delivery } = why.part;
        return {
          icon: 'bolt',
          meaning: 'info',
          title: t('why.working', { c: why.part.consumerId }),
          text: tx(
            delivery?.lockUntil && Date.parse(delivery.lockUntil) <= now ? 'why.working.over' : 'why.working.text',
            {
              who: <b>{delivery?.lockOwner ?? '–'}</b>,
              age: delivery?.lockTime ? duration((storeNow() - Date.parse(delivery.lockTime)) / 1000) : '–',
              left: delivery?.lockUntil ? <Countdown to={delivery.lockUntil} /> : '–',
            },
          ),
          below: delivery?.lockTime && delivery.lockUntil && (
            <Passed
              from={delivery.lockTime}
              to={delivery.lockUntil}
              left={clock(delivery.lockTime)}
              right={t('why.lease', { at: clock(delivery.lockUntil) })}
            />
          ),
        };
      }
      case 'paused': {
        const { consumer } = why;
        return {
          icon: 'pause',
          meaning: 'human',
          title: t('attention.paused', { c: consumer.consumerId }),
          text: pause
            ? tx(pause.why ? 'why.paused.text' : 'why.paused.who', {
                who: <b>{pause.who}</b>,
                age: pause.at ? duration((now - Date.parse(pause.at)) / 1000) : '–',
                why: pause.why,
                n: number(consumer.lag ?? 0),
              })
            : t('attention.paused.plain', { n: number(consumer.lag ?? 0) }),
          act: (
            <Button small refused={operator} onClick={() => void resume(consumer.consumerId)}>
              {t('act.resume')}
            </Button>
          ),
        };
      }
      case 'later':
        return {
          icon: 'clock',
          meaning: 'info',
          title: tx('why.later', { t: <Countdown to={why.at} /> }),
          text: tx('why.later.text', { at: <b>{clock(why.at)}</b> }),
          below: (
            <Passed
              from={event.createdAt}
              to={why.at}
              left={t('why.written', { at: hourMinute(event.createdAt) })}
              right={hourMinute(why.at)}
            />
          ),
        };
      case 'retrying': {
        const { part } = why;
        const last = part.attempts.at(-1);
        const made = part.attempts.length;
        const max = part.max ?? limits.maxAttempts ?? made + 1;
        const due = part.delivery?.dueAt ?? last?.createdAt ?? event.createdAt;
        const group = groups.find((each) => each.consumerId === part.consumerId && each.errorCode === last?.errorCode);
        const others = (group?.count ?? 1) - 1;
        const reason = shortError(last?.errorMessage ?? '', last?.errorCode);
        return {
          icon: 'question',
          meaning: 'warn',
          title: t('why.title'),
          text: (
            <>
              {tx(Date.parse(due) > storeNow() ? 'why.retrying.text' : 'why.retrying.due', {
                c: <b>{part.consumerId}</b>,
                error: <b>{reason}</b>,
                n: made,
                t: (
                  <span className="m-warn c">
                    <Countdown to={due} />
                  </span>
                ),
                left: max - made,
                at: clock(givenUpAt(due, made, max, cap)),
                holds: later > 0 && limits.deadHead !== 'skip' ? t('why.holds', { n: later, key }) : '',
              })}{' '}
              {others > 0 && group && (
                <Link to="/failures" search={{ sel: group.groupId } as never}>
                  {t('why.others', { n: number(others) })}
                </Link>
              )}
            </>
          ),
          act: redriveButton(part.consumerId, t('try.now', { c: part.consumerId })),
          below: (
            <>
              <div className="only-wide">
                <Ladder attempts={made} max={max} dueAt={due} capSeconds={cap} />
              </div>
              <MobileTries attempts={made} max={max} due={due} cap={cap} />
            </>
          ),
        };
      }
      case 'turn': {
        const by = why.part.delivery?.blockedBy;
        return {
          icon: 'clock',
          meaning: 'idle',
          title: t('why.turn'),
          text: by
            ? tx('why.turn.text', { n: by.ahead, key, topic: <b>{by.topic ?? by.eventId}</b> })
            : t('why.turn.plain', { c: why.part.consumerId }),
          act: by && open(by.eventId, t('why.open.first')),
          below: by && <Chain icon="retry" first={by.topic ?? by.eventId} between={by.ahead - 1} more={later} />,
        };
      }
      case 'pull': {
        const { consumer } = why;
        const waits = t('why.pull.text', { c: consumer.consumerId, n: consumer.lag ?? 0 });
        const seen = consumer.lastSeenAt
          ? t('why.pull.seen', { age: duration((now - Date.parse(consumer.lastSeenAt)) / 1000) })
          : '';
        return {
          icon: 'arrowDown',
          meaning: 'idle',
          title: t('why.pull', { c: consumer.consumerId }),
          text: [waits, seen].join(' '),
          act: (
            <Link className="btn small" to="/consumers" search={{ sel: consumer.consumerId } as never}>
              {t('show')}
            </Link>
          ),
        };
      }
      case 'sent': {
        const from = event.actions?.redrive.from;
        return {
          icon: 'plane',
          meaning: 'info',
          title: t('why.sent'),
          text: tx('why.sent.text', {
            age: event.lastSentAt ? duration((storeNow() - Date.parse(event.lastSentAt)) / 1000) : '–',
            c: <b>{why.part?.consumerId ?? '–'}</b>,
            at: from ? hourMinute(from) : '–',
          }),
          below: from && event.lastSentAt && (
            <Passed
              from={event.lastSentAt}
              to={from}
              left={t('why.confirmed', { at: hourMinute(event.lastSentAt) })}
              right={t('why.redrivable', { at: hourMinute(from) })}
            />
          ),
        };
      }
      case 'unheard':
        return {
          icon: 'info',
          meaning: 'part',
          title: t('why.unheard', { topic: event.topic }),
          text: [t('why.unheard.text'), unheard ? t('why.unheard.many', { n: number(unheard) }) : ''].join(' '),
          act: (
            <Button
              small
              refused={admin}
              onClick={() => void navigate({ to: '/subscriptions', search: { topic: event.topic } as never })}
            >
              {t('act.subscribe')}
            </Button>
          ),
        };
      case 'nobody':
        return {
          icon: 'server',
          meaning: 'bad',
          title: t('why.nobody'),
          text: t('why.nobody.text'),
          act: (
            <Link className="btn small" to="/system">
              {t('nav.system')}
            </Link>
          ),
        };
    }
  }

  function redriveButton(consumerId: string, label: string) {
    return (
      <span className="only-wide">
        <Button small icon="bolt" refused={operator} onClick={() => onAsk({ verb: 'redrive', consumerId })}>
          {label}
        </Button>
      </span>
    );
  }
  function open(id: string | undefined, label: string) {
    if (!id) return null;
    return (
      <Link className="btn small" to="/events/$id" params={{ id } as never}>
        {label}
      </Link>
    );
  }
}

function MobileTries({ attempts, max, due, cap }: { attempts: number; max: number; due: string; cap?: number }) {
  return (
    <div className="only-mobile tries">
      <div className="between">
        <span className="tries-count m-warn c">
          <Countdown to={due} />
        </span>
        <span className="meta num">
          {t('tries.next', { n: attempts + 1, max })}
          <br />
          {t('tries.end', { at: clock(givenUpAt(due, attempts, max, cap)) })}
        </span>
      </div>
      <div className="tries-bar">
        {Array.from({ length: max }, (_, index) => (
          <i key={index} className={index < attempts ? 'm-bad' : index === attempts ? 'm-warn' : 'rest'} />
        ))}
      </div>
    </div>
  );
}
