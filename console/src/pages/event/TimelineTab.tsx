// Time travel: drag to any instant, and everything stands as it stood then.
import { type KeyboardEvent, type PointerEvent, useEffect, useRef, useState } from 'react';
import type { EventDetail } from '../../api/pending';
import { Button } from '../../components/Button';
import { Icon } from '../../components/Icon';
import { DELIVERY, type DeliveryState, EVENT, StatusPill, StatusWord } from '../../components/Status';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { clock, offset, took } from '../../lib/format';
import type { ConsumerStand } from '../../lib/status';
import {
  type Lane,
  type Step,
  spent,
  standAt,
  statusThen,
  stretch,
  type Timeline,
  timelineOf,
  unstretch,
} from '../../lib/timeline';
import { useUrl } from '../../lib/url';
import { usePageKeys } from '../../shell/keys';

const STANDS: Record<ConsumerStand, DeliveryState> = {
  ok: 'done',
  retrying: 'retrying',
  failed: 'dead',
  waiting: 'waiting',
};
/** How long each change stands while the history is played. */
const PLAY_MS = 700;
const percent = (share: number) => `${(share * 100).toFixed(3)}%`;

export function TimelineTab({ event }: { event: EventDetail }) {
  const [search, change] = useUrl();
  const now = storeNow();
  const line = timelineOf(event, now);
  const chosen = search.at ? Date.parse(search.at) : null;
  const at = chosen === null || Number.isNaN(chosen) ? line.end : Math.min(line.end, Math.max(line.start, chosen));
  const set = (next: number | null) =>
    change({ at: next === null ? undefined : new Date(Math.round(next)).toISOString() }, true);
  const step = (by: 1 | -1) => {
    const next =
      by > 0 ? line.steps.find((each) => each.at > at) : [...line.steps].reverse().find((each) => each.at < at);
    if (next) set(next.at);
  };
  const [playing, setPlaying] = useState(false);
  const after = line.steps.find((each) => each.at > at)?.at;
  // biome-ignore lint/correctness/useExhaustiveDependencies: each instant sets the clock for the next one
  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => {
      if (after === undefined) setPlaying(false);
      set(after ?? null);
    }, PLAY_MS);
    return () => clearTimeout(timer);
  }, [playing, at]);
  const play = () => {
    setPlaying(!playing);
    if (!playing && after === undefined) set(line.start);
  };
  usePageKeys({ '[': () => step(-1), ']': () => step(1) });
  const past = line.steps.filter((each) => each.at <= at);
  const done = past.at(-1)?.done ?? 0;
  const status = chosen === null ? event.status : statusThen(event, at);
  const last = past.at(-1);
  return (
    <div className="side">
      <section className="card timeline">
        <header>
          <Icon name="clock" />
          <h2>{chosen === null ? t('timeline.now') : t('timeline.then', { t: clock(at, 3) })}</h2>
          <span className="meta">{offset(at - line.start)}</span>
          <StatusPill look={EVENT[status]!} extra={`${done}/${line.expected}`} />
          <span className="t2 cut grow">{last && describe(last)}</span>
          {chosen !== null && (
            <Button small onClick={() => set(null)}>
              {t('timeline.back')}
            </Button>
          )}
        </header>
        <Scrubber line={line} at={at} playing={playing} onPlay={play} onStep={step} onChange={set} />
        <div className="lanes">
          <div className="lane">
            <b>{t('timeline.outbox')}</b>
            <span>
              {line.sentAt !== null && line.sentAt <= at ? (
                <StatusWord look={{ ...DELIVERY.done, word: 'timeline.handed' }} size={14} />
              ) : (
                <StatusWord look={DELIVERY.waiting} size={14} />
              )}
            </span>
            <div className="track">
              <BarView line={line} at={at} from={line.start} to={line.sentAt ?? line.end} kind="wait" />
              <span className="bar-note" style={{ left: percent(stretch(line, line.sentAt ?? line.end)) }}>
                {took((line.sentAt ?? line.end) - line.start)}
              </span>
            </div>
          </div>
          {line.lanes.map((lane) => (
            <LaneView key={lane.consumerId} event={event} line={line} lane={lane} at={at} />
          ))}
          <div className="handle" style={{ '--x': stretch(line, at) } as never} aria-hidden />
        </div>
        <Axis line={line} />
      </section>
      <div className="split">
        <Story line={line} at={at} chosen={chosen !== null} onPick={set} />
        <Spent line={line} />
      </div>
    </div>
  );
}

function describe(step: Step): string {
  if (step.kind === 'written') return t('step.written');
  if (step.kind === 'sent') return t('step.sent');
  if (step.kind === 'done')
    return step.tookMs === undefined
      ? t('step.done.plain', { c: step.consumerId ?? '' })
      : t('step.done', { c: step.consumerId ?? '', t: took(step.tookMs) });
  return t('step.failed', { c: step.consumerId ?? '', why: (step.error ?? '').split(':')[0] ?? '' });
}

type ScrubberProps = {
  line: Timeline;
  at: number;
  playing: boolean;
  onPlay: () => void;
  onStep: (by: 1 | -1) => void;
  onChange: (at: number) => void;
};

function Scrubber({ line, at, playing, onPlay, onStep, onChange }: ScrubberProps) {
  const track = useRef<HTMLDivElement>(null);
  const move = (event: PointerEvent) => {
    const box = track.current?.getBoundingClientRect();
    if (box) onChange(unstretch(line, (event.clientX - box.left) / box.width));
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === 'ArrowLeft') onStep(-1);
    else if (event.key === 'ArrowRight') onStep(1);
    else if (event.key === 'Home') onChange(line.start);
    else if (event.key === 'End') onChange(line.end);
    else return;
    event.preventDefault();
  };
  return (
    <div className="scrubber">
      <div className="row">
        <Button small icon="chevronLeft" aria-label={t('step.before')} onClick={() => onStep(-1)} />
        <Button
          small
          icon={playing ? 'pause' : 'play'}
          aria-label={playing ? t('step.pause') : t('step.play')}
          onClick={onPlay}
        />
        <Button small icon="chevronRight" aria-label={t('step.after')} onClick={() => onStep(1)} />
        <kbd>[</kbd>
        <kbd>]</kbd>
      </div>
      <div
        className="scrub-track"
        ref={track}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          move(event);
        }}
        onPointerMove={(event) => event.buttons === 1 && move(event)}
      >
        <i className="scrub-past" style={{ width: percent(stretch(line, at)) }} />
        {line.steps.map((step, index) => (
          <i
            key={index}
            className={`tick ${step.kind} ${step.at > at ? 'later' : ''}`}
            style={{ left: percent(stretch(line, step.at)) }}
          />
        ))}
        <div
          className="scrub-handle"
          role="slider"
          tabIndex={0}
          aria-label={t('timeline.scrub')}
          aria-valuemin={0}
          aria-valuemax={Math.round(line.end - line.start)}
          aria-valuenow={Math.round(at - line.start)}
          aria-valuetext={clock(at, 3)}
          style={{ left: percent(stretch(line, at)) }}
          onKeyDown={key}
        />
      </div>
    </div>
  );
}

function BarView({ line, at, from, to, kind }: { line: Timeline; at: number; from: number; to: number; kind: string }) {
  const piece = (a: number, b: number, later: boolean) =>
    b > a && (
      <i
        className={`bar ${kind} ${later ? 'later' : ''}`}
        style={{ left: percent(stretch(line, a)), width: percent(stretch(line, b) - stretch(line, a)) }}
      />
    );
  return (
    <>
      {piece(from, Math.min(to, at), false)}
      {piece(Math.max(from, at), to, true)}
    </>
  );
}

function LaneView({ event, line, lane, at }: { event: EventDetail; line: Timeline; lane: Lane; at: number }) {
  return (
    <div className="lane">
      <b>{lane.consumerId}</b>
      <span>
        <StatusWord look={DELIVERY[STANDS[standAt(event, lane.consumerId, at)]]} size={14} />
      </span>
      <div className="track">
        {lane.bars.map((bar, index) => (
          <BarView key={index} line={line} at={at} {...bar} />
        ))}
        {lane.ends.map((end) => (
          <span
            key={end.at}
            className={`end m-${end.good ? 'ok' : 'bad'} ${end.at > at ? 'later' : ''}`}
            style={{ left: percent(stretch(line, end.at)) }}
          >
            <Icon
              name={end.good ? 'check' : 'cross'}
              size={14}
              label={end.good ? t('delivery.done') : t('status.FAILED')}
            />
          </span>
        ))}
      </div>
    </div>
  );
}

const TICKS = [0, 100, 300, 1000, 3000, 10_000, 30_000, 120_000, 600_000, 3_600_000, 86_400_000];

function Axis({ line }: { line: Timeline }) {
  const whole = line.end - line.start;
  const ticks = TICKS.filter((ms) => ms < whole * 0.75);
  return (
    <div className="lane axis">
      <span className="axis-note">{t('timeline.axis')}</span>
      <div className="track">
        {ticks.map((ms) => (
          <span key={ms} style={{ left: percent(stretch(line, line.start + ms)) }}>
            {ms === 0 ? '0' : took(ms).replace('.00', '').replace('.0', '')}
          </span>
        ))}
        <b style={{ left: '100%' }}>{t('now')}</b>
      </div>
    </div>
  );
}

function Story({
  line,
  at,
  chosen,
  onPick,
}: {
  line: Timeline;
  at: number;
  chosen: boolean;
  onPick: (at: number) => void;
}) {
  const here = line.steps.filter((step) => step.at <= at).length;
  return (
    <div className="card scroll-x">
      <table className="table steps-table">
        <thead>
          <tr>
            <th className="num">{t('col.when')}</th>
            <th className="num">{t('col.after')}</th>
            <th>{t('col.happened')}</th>
            <th>{t('col.then')}</th>
            <th className="num">{t('delivery.done')}</th>
          </tr>
        </thead>
        <tbody>
          {line.steps.map((step, index) => [
            chosen && index === here && (
              <tr key="here" className="here">
                <td colSpan={5}>
                  <span>{t('timeline.here', { t: clock(at, 3) })}</span>
                </td>
              </tr>
            ),
            <tr key={index} className={`open ${step.at > at ? 'later' : ''}`} onClick={() => onPick(step.at)}>
              <td className="num t2">
                {index > 0 && sameSecond(step.at, line.steps[index - 1]!.at)
                  ? clock(step.at, 3).slice(8)
                  : clock(step.at, 3)}
              </td>
              <td className="num t2">{index === 0 ? '0' : offset(step.at - line.steps[index - 1]!.at)}</td>
              <td>{describe(step)}</td>
              <td>
                <StatusWord look={EVENT[step.status]!} size={14} />
              </td>
              <td className="num">
                {step.done}/{line.expected}
              </td>
            </tr>,
          ])}
        </tbody>
      </table>
    </div>
  );
}

/** Whether the clock shows the same second, so that only the fraction has to be written. */
function sameSecond(a: number, b: number): boolean {
  return Math.floor(a / 1000) === Math.floor(b / 1000);
}

function Spent({ line }: { line: Timeline }) {
  const parts = spent(line);
  const all = [
    ['outbox', 'idle', parts.outbox],
    ['good', 'ok', parts.good],
    ['vain', 'bad', parts.vain],
    ['between', 'warn', parts.between],
  ] as const;
  // Where the server does not measure the work, the part is left out.
  const rows = all.filter(([name, , ms]) => name === 'outbox' || ms > 0);
  const whole = rows.reduce((sum, [, , ms]) => sum + ms, 0) || 1;
  return (
    <section className="card">
      <header>
        <h2>{t('spent.title')}</h2>
      </header>
      <div className="spent">
        <div className="bar-line thick">
          {rows.map(([name, meaning, ms]) => (
            <i
              key={name}
              className={`m-${meaning}`}
              style={{ width: percent(Math.max(ms / whole, ms > 0 ? 0.02 : 0)) }}
            />
          ))}
        </div>
        {rows.map(([name, meaning, ms]) => (
          <div key={name} className={`between m-${meaning}`}>
            <span className="row t2">
              <i className="square" /> {t(`spent.${name}`)}
            </span>
            <span>{took(ms)}</span>
          </div>
        ))}
      </div>
    </section>
  );
}
