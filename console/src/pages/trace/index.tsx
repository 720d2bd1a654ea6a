// What did one request cause, where did it break?
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import type { Trace as TraceData } from '../../api/pending';
import { session, trace } from '../../api/queries';
import { Button } from '../../components/Button';
import { Segments, Switch } from '../../components/Controls';
import { Cli, copyText } from '../../components/Copy';
import { Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { EVENT, StatusPill } from '../../components/Status';
import { toast } from '../../components/Toasts';
import { t, tx } from '../../i18n';
import { quote } from '../../lib/cli';
import { middle, number, took } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { type Waterfall, type WaterRow, waterfallOf } from '../../lib/waterfall';
import { useRefusal } from '../../shell/session';
import { RedriveWizard } from '../../wizard';
import { RowDetail } from './RowDetail';
import { TraceTable } from './TraceTable';
import { WaterfallView } from './WaterfallView';
import './trace.css';

export function Trace() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(trace(id));
  return (
    <div className="page">
      <Loaded query={query} what={t('trace.failed', { id })}>
        {(data) => <Shown data={data} />}
      </Loaded>
    </div>
  );
}

/** The tree as indented text. */
export function textOf(fall: Waterfall): string {
  return fall.rows
    .map(
      (row) =>
        `${'  '.repeat(row.depth)}${row.name}${row.note ? ` (${row.note})` : ''}${row.state ? ` ${row.state}` : ''}${row.event && row.kind === 'event' ? ` ${row.event.status} ${row.event.eventId}` : ''}`,
    )
    .join('\n');
}

/** Rows on the way to something that failed. */
function failedPath(rows: WaterRow[]): WaterRow[] {
  return rows.filter((row, index) => {
    if (row.failed) return true;
    for (let at = index + 1; at < rows.length && rows[at]!.depth > row.depth; at += 1)
      if (rows[at]!.failed) return true;
    return false;
  });
}

function worst(data: TraceData): string {
  const order = ['FAILED', 'PARTIAL', 'RETRYING', 'SENT', 'PENDING', 'EXPIRED', 'CONSUMED'];
  return order.find((status) => data.events.some((each) => each.status === status)) ?? 'PENDING';
}

function Shown({ data }: { data: TraceData }) {
  const [search, change] = useUrl();
  const fall = waterfallOf(data);
  const collapse = search.idle !== 'show';
  const only = search.only === 'failed';
  const [wizard, setWizard] = useState(false);
  const operator = useRefusal('operator');
  const links = useQuery(session).data?.links ?? {};
  const rows = only ? failedPath(fall.rows) : fall.rows;
  const dead = fall.rows.filter((row) => row.kind === 'consumer' && row.state === 'dead');
  const chosen = rows.find((row) => row.id === search.sel) ?? dead[0];
  const leaves = [...new Set(dead.map((row) => row.event!.eventId))];
  const first = data.events[0];
  const deliveries = fall.rows.filter((row) => row.kind === 'consumer').length;
  const services = new Set(data.events.map((each) => each.initiator.service)).size;
  const title = first?.key
    ? t('trace.title', {
        topic: first.topic,
        key: [first.aggregateType?.toLowerCase(), middle(first.key, 8, 12)].filter(Boolean).join(' '),
      })
    : (first?.topic ?? '');
  const external = (/^https?:/.test(links.trace ?? '') ? links.trace : undefined)?.replace(
    '{traceId}',
    encodeURIComponent(data.traceId),
  );
  return (
    <>
      <div className="crumbs">
        <Link to="/traces">{t('nav.traces')}</Link>
        <Icon name="chevronRight" size={12} />
        <code>{middle(data.traceId, 12, 4)}</code>
      </div>
      <div className="event-head trace-head">
        <h1 className="grow">
          {title} <StatusPill look={EVENT[worst(data)]!} />
        </h1>
        <div className="row">
          <Button
            icon="copy"
            onClick={() => {
              void copyText(textOf(fall));
              toast({ icon: 'copy', title: t('copied') });
            }}
          >
            {t('trace.text')}
          </Button>
          {external && (
            <a className="btn" href={external} target="_blank" rel="noreferrer">
              <Icon name="external" size={15} />
              {t('trace.external')}
            </a>
          )}
          {leaves.length > 0 && (
            <Button kind="primary" icon="repeat" refused={operator} onClick={() => setWizard(true)}>
              {t('trace.redrive', { n: dead.length })}
            </Button>
          )}
        </div>
      </div>
      <div className="trace-bar">
        <Segments
          label={t('payload.view')}
          value={search.view === 'table' ? 'table' : 'tree'}
          onChange={(view) => change({ view: view === 'tree' ? undefined : view })}
          options={[
            { value: 'tree', label: t('payload.tree') },
            { value: 'table', label: t('trace.table') },
          ]}
        />
        <span className="t2 trace-facts">
          <span>{tx('trace.events', { n: <b>{number(data.events.length)}</b> })}</span>
          <span>{tx('trace.deliveries', { n: <b>{number(deliveries)}</b> })}</span>
          {dead.length > 0 && (
            <span className="m-bad c">
              <b className="c">{dead.length}</b> {t('trace.dead')}
            </span>
          )}
          <span>{tx('trace.services', { n: <b>{services}</b> })}</span>
          {fall.workMs > 0 && (
            <span>{tx('trace.work', { t: <b>{took(fall.workMs)}</b>, all: took(fall.end - fall.start) })}</span>
          )}
          {data.cut && <span>{t('trace.cut')}</span>}
        </span>
        <span className="grow" />
        <Switch
          on={collapse}
          label={t('trace.collapse')}
          onChange={(on) => change({ idle: on ? undefined : 'show' })}
        />
        <Switch on={only} label={t('trace.only')} onChange={(on) => change({ only: on ? 'failed' : undefined })} />
      </div>
      {search.view === 'table' ? (
        <TraceTable events={data.events} />
      ) : (
        <WaterfallView
          fall={fall}
          rows={rows}
          collapse={collapse}
          chosen={chosen?.id}
          onChoose={(id) => change({ sel: id }, true)}
        />
      )}
      {chosen && search.view !== 'table' && <RowDetail row={chosen} />}
      <div className="under">
        <Cli line={`postrider events trace ${quote(data.traceId)}`} />
      </div>
      {wizard && <RedriveWizard what={{ eventIds: leaves }} onClose={() => setWizard(false)} />}
    </>
  );
}
