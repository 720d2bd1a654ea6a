import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useLive } from '../../api/live';
import type { Stats } from '../../api/pending';
import { Sparkline } from '../../components/Sparkline';
import type { Meaning } from '../../components/Status';
import { Countdown } from '../../components/Time';
import { t } from '../../i18n';
import { OLDEST_SECONDS } from '../../lib/consumer';
import { brief, hourMinute, number } from '../../lib/format';
import { ratePoints } from '../../lib/rate';
import { useLimits } from '../../shell/session';

type TileProps = {
  to: string;
  search?: Record<string, string>;
  label: string;
  figure: ReactNode;
  unit?: string;
  tone?: Meaning;
  fact: ReactNode;
  values: number[];
  line: Meaning;
  wide?: boolean;
};

/** The whole tile opens exactly the events it counted. */
function Tile({ to, search, label, figure, unit, tone, fact, values, line, wide }: TileProps) {
  return (
    <Link to={to} search={search as never} className={`tile ${wide ? 'only-wide' : ''}`}>
      <span className="tile-label">{label}</span>
      <span className={`tile-figure ${tone ? `m-${tone} c` : ''}`}>
        {figure}
        {unit && <small>{unit}</small>}
      </span>
      <span className="tile-fact">{fact}</span>
      <Sparkline values={values} meaning={line} />
    </Link>
  );
}

const HOUR = 60;
/** Fewer points make no curve. */
const FEW = 5;
type Level = 'backlog' | 'retrying' | 'dead';

export function Tiles({ stats, minutes }: { stats: Stats; minutes: number }) {
  const points = ratePoints(stats, minutes);
  const seen = useLive((live) => live.levels);
  const limit = useLimits().oldestSeconds ?? OLDEST_SECONDS;
  const hasLevels = points.some((each) => each.levels);
  // Without levels of each minute, the curve begins when the page was opened.
  const level = (name: Level) =>
    hasLevels
      ? points.map((each) => each.levels?.[name] ?? 0)
      : seen.length < FEW
        ? []
        : seen.map((each) => each[name]);
  const rates = points.map((each) => each.created / each.seconds);
  const peak = points.reduce((best, each) => (each.created > best.created ? each : best), points[0]!);
  const five = points.filter((each) => Date.parse(stats.at) - Date.parse(each.at) < 6 * 60_000);
  const good = five.reduce((sum, each) => sum + each.delivered, 0);
  const failed = five.reduce((sum, each) => sum + each.missed, 0);
  const success = good + failed > 0 ? (good / (good + failed)) * 100 : null;
  const successes = points
    .filter((each) => each.delivered + each.missed > 0)
    .map((each) => each.delivered / (each.delivered + each.missed));
  const newDead = points
    .filter((each) => Date.parse(stats.at) - Date.parse(each.at) <= 3_600_000)
    .reduce((sum, each) => sum + each.dead, 0);
  const oldest = stats.oldestPendingSeconds ?? null;
  const late = oldest !== null && oldest > limit / 2;
  return (
    <div className="tiles card">
      <Tile
        to="/events"
        search={{ status: 'PENDING,SENT,RETRYING' }}
        label={t('tile.backlog')}
        figure={number(stats.backlog)}
        fact={
          oldest === null ? (
            t(stats.backlog > 0 ? 'tile.none.due' : 'tile.nothing.waits')
          ) : (
            <>
              {t('tile.oldest')} <b className={late ? 'm-warn c' : ''}>{brief(oldest)}</b>
            </>
          )
        }
        values={level('backlog')}
        line="info"
      />
      <Tile
        wide
        to="/events"
        label={t('tile.rate')}
        figure={number(rates.at(-1) ?? 0)}
        unit="/s"
        fact={t('tile.peak', { n: number(peak.created / peak.seconds), at: hourMinute(peak.at) })}
        values={rates}
        line="info"
      />
      <Tile
        to="/failures"
        label={t('tile.success')}
        figure={success === null ? '–' : success.toFixed(1)}
        unit="%"
        fact={t('tile.success.of', { n: number(good + failed) })}
        values={successes}
        line="ok"
      />
      <Tile
        to="/events"
        search={{ status: 'RETRYING' }}
        label={t('tile.retrying')}
        figure={number(stats.retrying)}
        tone={stats.retrying > 0 ? 'warn' : undefined}
        fact={
          stats.nextRetryAt && stats.retrying > 0 ? (
            <>
              {t('tile.retrying.next')} <Countdown to={stats.nextRetryAt} />
            </>
          ) : (
            t('tile.retrying.fact')
          )
        }
        values={level('retrying')}
        line="warn"
      />
      <Tile
        to="/events"
        search={{ deliveryStatus: 'DEAD' }}
        label={t('tile.dead')}
        figure={number(stats.dead)}
        tone={stats.dead > 0 ? 'bad' : undefined}
        fact={
          newDead > 0 ? (
            <>
              <b className="m-bad c">+{number(newDead)}</b>{' '}
              {t(minutes < HOUR ? 'tile.dead.more.15m' : 'tile.dead.more')}
            </>
          ) : (
            t(minutes < HOUR ? 'tile.dead.none.15m' : 'tile.dead.none')
          )
        }
        values={level('dead')}
        line="bad"
      />
    </div>
  );
}
