// Is anything wrong, and what do I do first?
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLive } from '../../api/live';
import { consumers, events, stats, subscriptions } from '../../api/queries';
import { Segments } from '../../components/Controls';
import { Empty, Loaded } from '../../components/Empty';
import { t } from '../../i18n';
import { useNow } from '../../lib/clock';
import { dateTime } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { useWhole } from '../../shell/session';
import { Attention } from './Attention';
import { ConsumerList } from './ConsumerList';
import { FirstRun } from './FirstRun';
import { PromisesPanel } from './Promises';
import { PromisesDrawer } from './PromisesDrawer';
import { RateChart } from './RateChart';
import { Tiles } from './Tiles';
import './overview.css';

export const RANGES = { '15m': 15, '1h': 60, '6h': 360, '24h': 1440 } as const;
type Range = keyof typeof RANGES;

/** As long as nothing was written, the list of first steps looks again at this pace. */
const FIRST_MS = 2_000;

function emptyPace(events: number | undefined): number | false {
  return events === 0 ? FIRST_MS : false;
}

function Now() {
  return <span className="meta">{dateTime(useNow())}</span>;
}

export function Overview() {
  const [search, change] = useUrl();
  const range: Range = search.range && search.range in RANGES ? (search.range as Range) : '1h';
  const minutes = RANGES[range];
  const [skipped, setSkipped] = useState(false);
  const whole = useWhole();
  const figures = useQuery({ ...stats(minutes, minutes > 360 ? 5 : 1), enabled: whole.may });
  const now = useLive((live) => live.stats);
  const wrote = useLive((live) => live.fresh.length > 0);
  const list = useQuery(consumers());
  const any = useQuery({
    ...events({ limit: 1 }),
    refetchInterval: (query) => emptyPace(query.state.data?.events.length),
  });
  const subscribed = useQuery({ ...subscriptions, refetchInterval: emptyPace(any.data?.events.length) });
  const current =
    // The stream has the figures of this second; the curves are those of the chosen range.
    figures.data && now
      ? { ...figures.data, ...now, minutes: figures.data.minutes, step: figures.data.step }
      : figures.data;
  const untouched = any.data?.events.length === 0 && subscribed.data !== undefined && !skipped;
  if (untouched && (subscribed.data.length === 0 || !wrote)) {
    return <FirstRun listens={subscribed.data.length > 0} wrote={wrote} onSkip={() => setSkipped(true)} />;
  }
  return (
    <div className="page">
      <div className="page-head only-wide">
        <h1>{t('nav.overview')}</h1>
        <Now />
        <div className="tools">
          <Segments
            label={t('range.label')}
            value={range}
            onChange={(value) => change({ range: value })}
            options={(Object.keys(RANGES) as Range[]).map((value) => ({ value, label: t(`range.${value}`) }))}
          />
        </div>
      </div>
      {!whole.refused && (
        <Loaded query={{ ...figures, data: current }}>{(data) => <Tiles stats={data} minutes={minutes} />}</Loaded>
      )}
      <div className="overview">
        {whole.refused ? (
          <div className="card">
            <Empty icon="lock" title={t('chart.title')} text={whole.refused} />
          </div>
        ) : (
          <Loaded query={{ ...figures, data: current }}>
            {(data) => <RateChart stats={data} minutes={minutes} />}
          </Loaded>
        )}
        <Attention />
        <Loaded query={list}>{(data) => <ConsumerList consumers={data} />}</Loaded>
        <PromisesPanel onOpen={() => change({ panel: 'promises' })} />
      </div>
      {search.panel === 'promises' && <PromisesDrawer onClose={() => change({ panel: undefined })} />}
    </div>
  );
}
