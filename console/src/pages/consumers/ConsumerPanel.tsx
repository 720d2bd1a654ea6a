import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useEffect } from 'react';
import type { Consumer } from '../../api/pending';
import { consumer as consumerQuery, failures } from '../../api/queries';
import { Button } from '../../components/Button';
import { Icon } from '../../components/Icon';
import { waitAfter } from '../../components/Ladder';
import { t, tx } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { brief, clock, duration, hourMinute, number } from '../../lib/format';
import { useLimits, useRefusal } from '../../shell/session';
import type { What } from '../../wizard';
import { Bars, useHealthOf } from '../failures/Wellness';
import { useConsumerActs } from './acts';
import { HeldKeys } from './HeldKeys';
import { usePause } from './pause';

/** Bars that there is room for. */
const TRIES = 60;

export function ConsumerPanel({
  asked,
  askedToPause,
  onAsked,
  consumer,
  range,
  minutes: span,
  onClose,
  onRedrive,
}: {
  asked: boolean;
  askedToPause: boolean;
  onAsked: () => void;
  consumer: Consumer;
  range: '1h' | '24h';
  minutes: number;
  onClose: () => void;
  onRedrive: (what: What) => void;
}) {
  const id = consumer.consumerId;
  const operator = useRefusal('operator');
  const about = useQuery({ ...consumerQuery(id, span), retry: false }).data;
  const groups = useQuery(failures).data?.groups.filter((each) => each.consumerId === id) ?? [];
  const limits = useLimits();
  const tries = about?.retry?.maxAttempts ?? limits.maxAttempts;
  const jitter = about?.retry?.jitter ?? limits.backoffJitter;
  const { askPause, resume, dialog } = useConsumerActs();
  const pause = usePause(consumer);
  const mayPause = !consumer.paused && !operator;
  useEffect(() => {
    // The palette asks by address; the question is put once.
    if (!askedToPause || !about) return;
    if (mayPause) askPause(about);
    onAsked();
  }, [askedToPause, about, mayPause, askPause, onAsked]);
  const remote = consumer.via === 'rabbitmq' || consumer.via === 'external';
  const figure = (value: number | null | undefined) => (value == null ? '–' : number(value));
  const waiting = consumer.lag == null ? null : consumer.lag - (consumer.retrying ?? 0);
  const health = useHealthOf(id, about && { ...about, minutes: about.minutes ?? consumer.minutes });
  const tried = health?.tries.slice(-TRIES) ?? [];
  return (
    <aside className={`card panel ${asked ? 'asked' : ''}`} aria-label={id}>
      <section>
        <div className="row">
          <h2 className="panel-title">{id}</h2>
          <span className="tag">{consumer.via}</span>
          <span className="grow" />
          {consumer.paused ? (
            <Button small icon="play" refused={operator} onClick={() => void resume(id)}>
              {t('act.resume')}
            </Button>
          ) : (
            <Button
              small
              icon="pause"
              refused={operator ?? (remote ? t('pause.remote', { via: consumer.via }) : null)}
              onClick={() => askPause(consumer)}
            >
              {t('act.pause.ask')}
            </Button>
          )}
          <button type="button" className="hit" aria-label={t('close')} onClick={onClose}>
            <Icon name="x" />
          </button>
        </div>
        {about?.description && <p className="meta">{about.description}</p>}
        <p className="meta">{consumer.topics.join(' · ')}</p>
        {pause && (
          <p className="m-human c">
            {t(pause.why ? 'attention.paused.text' : 'attention.paused.who', {
              who: pause.who,
              age: pause.at ? duration((storeNow() - Date.parse(pause.at)) / 1000) : '–',
              why: pause.why,
            })}
          </p>
        )}
      </section>
      <div className="cells panel-cells">
        <div>
          <small>{t('delivery.waiting')}</small>
          <span className="fig">{figure(waiting)}</span>
        </div>
        <div>
          <small>{t('col.retrying')}</small>
          <span className={`fig ${(consumer.retrying ?? 0) > 0 ? 'm-warn c' : ''}`}>{figure(consumer.retrying)}</span>
        </div>
        <div>
          <small>{t('col.dead')}</small>
          <span className={`fig ${(consumer.dead ?? 0) > 0 ? 'm-bad c' : ''}`}>{figure(consumer.dead)}</span>
        </div>
        <div>
          <small>{t('col.held')}</small>
          <span className="fig">{figure(consumer.held)}</span>
        </div>
      </div>
      {health && tried.length > 1 && (
        <section className="attempts-hour">
          <div className="between label">
            <span>
              {health.of === 'attempts'
                ? t('panel.attempts.last', { n: tried.length })
                : t(range === '1h' ? 'panel.attempts' : 'panel.attempts.24h')}
            </span>
            <span>
              {hourMinute(tried[0]!.at)} – {hourMinute(tried.at(-1)!.at)}
            </span>
          </div>
          <Bars
            tries={tried}
            label={t('well.tries', { n: tried.filter((each) => each.good).length, m: tried.length })}
          />
          <div className="between meta">
            <span>{health.lastSuccessAt && t('panel.last', { at: clock(health.lastSuccessAt) })}</span>
            {groups.length > 0 && (
              <Link to="/failures" search={{ consumer: id } as never}>
                {t('panel.groups', { n: groups.length })}
              </Link>
            )}
          </div>
        </section>
      )}
      {tries !== undefined && (
        <section>
          <div className="between label">
            <span>{t('panel.schedule')}</span>
            <span>
              {t('panel.policy', { n: tries })}
              {jitter ? ` ± ${Math.round(jitter * 100)} %` : ''}
            </span>
          </div>
          <Schedule
            max={tries}
            cap={about?.retry?.capSeconds ?? limits.backoffCapSeconds}
            waiting={about?.waitingByAttempt ?? []}
          />
        </section>
      )}
      {((consumer.held ?? 0) > 0 || (about?.skippedKeys ?? []).length > 0) && (
        <section>
          <p className="label">{t('panel.order')}</p>
          <p className="t2 small-text">
            {tx(limits.deadHead !== 'skip' ? 'panel.order.hold' : 'panel.order.skip', {
              n: number(consumer.held ?? 0),
              holds: <b>{t('panel.order.holds')}</b>,
            })}
          </p>
          <HeldKeys consumerId={id} held={about?.heldKeys ?? []} skipped={about?.skippedKeys ?? []} />
        </section>
      )}
      <footer className="row">
        <Button
          icon="repeat"
          className="grow"
          refused={operator ?? ((consumer.dead ?? 0) === 0 ? t('panel.nodead') : null)}
          onClick={() => onRedrive({ filter: { consumerId: id, deliveryStatus: 'DEAD' } })}
        >
          {t('panel.redrive', { n: figure(consumer.dead) })}
        </Button>
        <Link className="btn" to="/events" search={{ consumer: id } as never}>
          {t('show.events')}
        </Link>
      </footer>
      {dialog}
    </aside>
  );
}

/** When each try comes after the first, with how many events wait for it. */
function Schedule({ max, cap, waiting }: { max: number; cap?: number; waiting: number[] }) {
  const width = 330;
  const x = (index: number) => 8 + (index / Math.max(1, max - 1)) * (width - 22);
  const top = Math.max(1, ...waiting);
  let total = 0;
  const times = Array.from({ length: max }, (_, index) => {
    if (index > 0) total += waitAfter(index, cap);
    return total;
  });
  return (
    <>
      <svg className="schedule" viewBox={`0 0 ${width} 52`} role="img" aria-label={t('panel.schedule')}>
        <line x1={x(0)} x2={x(max - 1)} y1={26} y2={26} stroke="var(--line2)" strokeWidth={1.5} />
        {times.map((seconds, index) => {
          const size = ((waiting[index] ?? 0) / top) * 18;
          const last = index === max - 1;
          return (
            <g key={seconds + index}>
              <rect x={x(index) - 4} y={24 - size} width={8} height={size} rx={1} fill="var(--warn-mark)" />
              <circle
                cx={x(index)}
                cy={26}
                r={3.2}
                fill="var(--raised)"
                stroke={last ? 'var(--bad-mark)' : 'var(--idle-mark)'}
                strokeWidth={1.5}
              />
              <text x={x(index)} y={44} textAnchor="middle">
                {index === 0 ? '0' : brief(seconds)}
              </text>
            </g>
          );
        })}
      </svg>
      <div className="between fine t2">
        <span>{waiting.length > 0 && t('panel.bars')}</span>
        <span className="m-bad c">{t('panel.then')}</span>
      </div>
    </>
  );
}
