// Accepted as area and line, delivered as a line, failed as bars below the axis on a scale of their own.
import { useQuery } from '@tanstack/react-query';
import { type PointerEvent, useEffect, useRef, useState } from 'react';
import type { AuditRecord, Stats } from '../../api/pending';
import { audit } from '../../api/queries';
import { t } from '../../i18n';
import { actionOf, targetOf } from '../../lib/audit';
import { hourMinute, number } from '../../lib/format';
import { ratePoints } from '../../lib/rate';
import { useOperatorsWhole } from '../../shell/session';
import { niceTop, pathOf } from './scale';

const TOP = 28;
/** Room below the axis for the bars and the times. */
const BELOW = 62;
const BARS = 30;
const LEFT = 34;

type Point = { at: string; accepted: number; delivered: number; failed: number };

function pointsOf(stats: Stats, minutes: number): Point[] {
  return ratePoints(stats, minutes).map((each) => ({
    at: each.at,
    accepted: each.created / each.seconds,
    delivered: each.consumed / each.seconds,
    failed: each.missed / each.seconds,
  }));
}

type Mark = { at: number; until?: number; text: string };

/** What people did in the range: pauses with their end, and redrives that stopped. */
export function marksOf(records: AuditRecord[], from: number): Mark[] {
  const marks: Mark[] = [];
  const old = [...records].reverse().filter((each) => Date.parse(each.at) >= from && !each.outcome.startsWith('4'));
  for (const [index, each] of old.entries()) {
    const action = actionOf(each.action);
    const at = Date.parse(each.at);
    if (action === 'consumer.pause') {
      const end = old
        .slice(index)
        .find(
          (later) => actionOf(later.action) === 'consumer.resume' && targetOf(later.target) === targetOf(each.target),
        );
      marks.push({
        at,
        // A pause that lasts is a line; the consumer says so itself.
        until: end && Date.parse(end.at),
        text: t('chart.paused', { c: targetOf(each.target) ?? '', who: each.actor }),
      });
    }
    if (action === 'operation.stopped')
      marks.push({ at, text: t('chart.stopped', { n: targetOf(each.target) ?? '' }) });
  }
  return marks.slice(-3);
}

function useSize() {
  const ref = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 760, height: 222 });
  useEffect(() => {
    if (!ref.current) return;
    const watch = new ResizeObserver(
      ([entry]) =>
        entry &&
        setSize({ width: Math.max(280, entry.contentRect.width), height: Math.max(200, entry.contentRect.height) }),
    );
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return { ref, ...size };
}

export function RateChart({ stats, minutes }: { stats: Stats; minutes: number }) {
  const [table, setTable] = useState(false);
  const points = pointsOf(stats, minutes);
  const last = points.at(-1);
  const [hover, setHover] = useState<number | null>(null);
  const shown = hover === null ? last : points[hover];
  const legend = [
    ['accepted', 'info', shown?.accepted],
    ['delivered', 'ok', shown?.delivered],
    ['failed', 'bad', shown?.failed],
  ] as const;
  return (
    <section className="card chart">
      <header>
        <h2>{t('chart.title')}</h2>
        <span className="meta only-wide">
          {t('chart.unit')}
          {hover !== null && shown && ` · ${hourMinute(shown.at)}`}
        </span>
        <div className="legend">
          {legend.map(([name, meaning, value]) => (
            <span key={name} className={`m-${meaning}`}>
              <i className={name} />
              {t(`chart.${name}`)} <b>{number(value ?? 0)}</b>
            </span>
          ))}
          <button type="button" className="link" onClick={() => setTable(!table)}>
            {table ? t('chart.chart') : t('chart.table')}
          </button>
        </div>
      </header>
      {table ? (
        <RateTable points={points} />
      ) : (
        <Drawing points={points} minutes={minutes} hover={hover} onHover={setHover} />
      )}
    </section>
  );
}

function RateTable({ points }: { points: Point[] }) {
  return (
    <div className="chart-table" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>{t('chart.time')}</th>
            <th className="num">{t('chart.accepted')}</th>
            <th className="num">{t('chart.delivered')}</th>
            <th className="num">{t('chart.failed')}</th>
          </tr>
        </thead>
        <tbody>
          {[...points].reverse().map((each) => (
            <tr key={each.at}>
              <td>{hourMinute(each.at)}</td>
              <td className="num">{each.accepted.toFixed(1)}</td>
              <td className="num">{each.delivered.toFixed(1)}</td>
              <td className="num">{each.failed.toFixed(1)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A line between two whole numbers is not rounded to one of them. */
function tick(value: number): string {
  return Number.isInteger(value) ? number(value) : String(Number(value.toFixed(2)));
}

type DrawingProps = { points: Point[]; minutes: number; hover: number | null; onHover: (index: number | null) => void };

function Drawing({ points, minutes, hover, onHover }: DrawingProps) {
  const { ref, width, height } = useSize();
  const axis = height - BELOW;
  const { may } = useOperatorsWhole();
  const from = Date.now() - minutes * 60_000;
  const records = useQuery({ ...audit({ limit: 100 }), enabled: may }).data?.records ?? [];
  const right = width - 6;
  const start = Date.parse(points[0]?.at ?? new Date(from).toISOString());
  const end = Date.parse(points.at(-1)?.at ?? new Date().toISOString());
  const x = (at: number) => LEFT + Math.min(1, (at - start) / Math.max(1, end - start)) * (right - LEFT);
  const top = niceTop(Math.max(1, ...points.flatMap((each) => [each.accepted, each.delivered])));
  const y = (value: number) => axis - (value / top) * (axis - TOP);
  const failTop = Math.max(1, ...points.map((each) => each.failed));
  const accepted = pathOf(points.map((each) => [x(Date.parse(each.at)), y(each.accepted)]));
  const delivered = pathOf(points.map((each) => [x(Date.parse(each.at)), y(each.delivered)]));
  const bar = Math.max(1, (right - LEFT) / Math.max(1, points.length) - 1.5);
  const marks = marksOf(records, Math.max(from, start));
  const ticks = Array.from({ length: 7 }, (_, index) => start + ((end - start) * index) / 6);

  function onMove(event: PointerEvent<SVGSVGElement>) {
    const box = event.currentTarget.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (right - LEFT);
    onHover(Math.min(points.length - 1, Math.max(0, Math.round(share * (points.length - 1)))));
  }

  return (
    <div ref={ref} className="chart-body">
      <svg
        width={width}
        height={height}
        role="img"
        aria-label={t('chart.title')}
        onPointerMove={onMove}
        onPointerLeave={() => onHover(null)}
      >
        <defs>
          <linearGradient id="fade" x1="0" x2="0" y1="0" y2="1">
            <stop offset="0" stopColor="var(--info-mark)" stopOpacity="0.16" />
            <stop offset="1" stopColor="var(--info-mark)" stopOpacity="0.02" />
          </linearGradient>
        </defs>
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <g key={share}>
            <line x1={LEFT} x2={right} y1={y(top * share)} y2={y(top * share)} stroke="var(--line)" />
            <text x={LEFT - 8} y={y(top * share) + 4} textAnchor="end">
              {tick(top * share)}
            </text>
          </g>
        ))}
        <text x={LEFT - 8} y={axis + BARS + 10} textAnchor="end">
          {number(failTop)}
        </text>
        {marks.map((mark) => (
          <g key={mark.at} className="chart-mark">
            {mark.until && (
              <rect x={x(mark.at)} y={TOP} width={x(mark.until) - x(mark.at)} height={axis + 8 + BARS - TOP} />
            )}
            {[mark.at, mark.until].map(
              (at) => at && <line key={at} x1={x(at)} x2={x(at)} y1={TOP} y2={axis + 8 + BARS} />,
            )}
            <text x={Math.min(x(mark.at), right - 130)} y={TOP - 8}>
              {mark.text}
            </text>
          </g>
        ))}
        {points.length > 1 && <path d={`${accepted}L${right} ${axis}L${LEFT} ${axis}Z`} fill="url(#fade)" />}
        <path d={accepted} fill="none" stroke="var(--info-mark)" strokeWidth={1.5} />
        <path d={delivered} fill="none" stroke="var(--ok-mark)" strokeWidth={1.5} />
        {points.map((each) => {
          const size = each.failed > 0 ? Math.max(1.5, (each.failed / failTop) * BARS) : 0;
          // The first and the last have half their width inside.
          const from = Math.max(LEFT, x(Date.parse(each.at)) - bar / 2);
          const upto = Math.min(right, x(Date.parse(each.at)) + bar / 2);
          return (
            <rect
              key={each.at}
              x={from}
              y={axis + 8}
              width={Math.max(1, upto - from)}
              height={size}
              fill="var(--bad-mark)"
            />
          );
        })}
        {ticks.map((at, index) => (
          <text key={at} x={x(at)} y={height - 4} textAnchor={index === 0 ? 'start' : index === 6 ? 'end' : 'middle'}>
            {hourMinute(at)}
          </text>
        ))}
        {hover !== null && points[hover] && (
          <line
            x1={x(Date.parse(points[hover].at))}
            x2={x(Date.parse(points[hover].at))}
            y1={TOP}
            y2={axis + BARS + 8}
            stroke="var(--ctl)"
          />
        )}
      </svg>
    </div>
  );
}
