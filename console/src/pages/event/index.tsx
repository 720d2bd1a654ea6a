// Who has it, who has not, why, and when next?
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import type { Query } from '../../api/client';
import type { EventDetail, EventPage } from '../../api/pending';
import { event as eventQuery, trace } from '../../api/queries';
import type { Counts } from '../../api/types';
import { Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { t } from '../../i18n';
import { isRead } from '../../lib/audit';
import { bytes, counted } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { usePageKeys } from '../../shell/keys';
import { useOperatorsWhole, useRefusal } from '../../shell/session';
import { PAGE } from '../events/filters';
import { type Ask, AskAct } from './AskAct';
import { ConsumersTab } from './ConsumersTab';
import { EnvelopeTab } from './EnvelopeTab';
import { Header } from './Header';
import { HistoryTab, history } from './HistoryTab';
import { PayloadTab } from './PayloadTab';
import { Side } from './Side';
import { TimelineTab } from './TimelineTab';
import { TraceTab } from './TraceTab';
import './event.css';

const TABS = ['consumers', 'timeline', 'payload', 'envelope', 'trace', 'history'] as const;
type Tab = (typeof TABS)[number];

export function Event() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(eventQuery(id));
  return (
    <div className="page">
      <Loaded query={query} what={t('event.failed', { id })}>
        {(event) => <Shown event={event} />}
      </Loaded>
    </div>
  );
}

function Shown({ event }: { event: EventDetail }) {
  const [search, change] = useUrl();
  const [ask, setAsk] = useState<Ask | null>(null);
  const operator = useRefusal('operator');
  const tab: Tab = TABS.includes(search.tab as Tab) ? (search.tab as Tab) : 'consumers';
  const go = (next: Tab) => change({ tab: next === 'consumers' ? undefined : next, at: undefined });
  usePageKeys({
    ...Object.fromEntries(TABS.map((name, index) => [String(index + 1), () => go(name)])),
    r: () => !operator && event.actions?.redrive.allowed !== false && setAsk({ verb: 'redrive' }),
  });
  const { may } = useOperatorsWhole();
  const records = useQuery({ ...history(event.eventId), enabled: may }).data?.records.filter(
    (each) => !isRead(each),
  ).length;
  const traced = useQuery({ ...trace(event.traceId ?? ''), enabled: !!event.traceId, retry: false }).data?.events
    .length;
  const extra: Partial<Record<Tab, string>> = {
    consumers: String(event.expectedConsumers),
    payload:
      event.payloadBytes !== undefined
        ? bytes(event.payloadBytes)
        : event.payloadText
          ? bytes(event.payloadText.length)
          : undefined,
    trace: String(traced ?? event.parents.length + event.children.length + 1),
    history: records === undefined ? undefined : String(records),
  };
  return (
    <>
      <div className="crumbs only-wide">
        <Link to="/events">{t('nav.events')}</Link>
        <Icon name="chevronRight" size={12} />
        <span>{event.topic}</span>
        <Neighbours id={event.eventId} />
      </div>
      <Header event={event} onAsk={setAsk} />
      <div className="tabs" role="tablist">
        {TABS.map((name) => (
          <button
            type="button"
            key={name}
            role="tab"
            id={`tab-${name}`}
            aria-selected={name === tab}
            aria-controls="tab-panel"
            tabIndex={name === tab ? 0 : -1}
            onClick={() => go(name)}
            onKeyDown={(key) => moveTab(key, name, go)}
          >
            {t(`tab.${name}`)} {extra[name] && <small>{extra[name]}</small>}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
        {tab === 'timeline' ? (
          <TimelineTab event={event} />
        ) : (
          <div className="split">
            <div className="side">
              {tab === 'consumers' && <ConsumersTab event={event} onAsk={setAsk} />}
              {tab === 'payload' && <PayloadTab event={event} />}
              {tab === 'envelope' && <EnvelopeTab event={event} />}
              {tab === 'trace' && <TraceTab event={event} />}
              {tab === 'history' && <HistoryTab event={event} />}
            </div>
            <Side event={event} />
          </div>
        )}
      </div>
      {ask && <AskAct event={event} ask={ask} onClose={() => setAsk(null)} />}
    </>
  );
}

function moveTab(key: React.KeyboardEvent, name: Tab, go: (tab: Tab) => void) {
  const step = key.key === 'ArrowRight' ? 1 : key.key === 'ArrowLeft' ? -1 : 0;
  const next = TABS[(TABS.indexOf(name) + step + TABS.length) % TABS.length]!;
  if (step === 0) return;
  go(next);
  document.getElementById(`tab-${next}`)?.focus();
}

/** The list page asks for whole pages; the neighbours of a key are no list to step through. */
const isList = (key: readonly unknown[]) => (key[1] as Query | undefined)?.limit === PAGE;

/** The event before and after this one in the list it was opened from. */
function Neighbours({ id }: { id: string }) {
  const client = useQueryClient();
  const found = client
    .getQueriesData<EventPage>({ queryKey: ['events'] })
    .find(([key, data]) => isList(key) && (data?.events ?? []).some((each) => each.eventId === id));
  const page = found?.[1]?.events;
  const { limit: _limit, cursor, ...filter } = (found?.[0][1] ?? {}) as Query;
  const total = client.getQueryData<Counts>(['counts', filter])?.total;
  const at = page?.findIndex((each) => each.eventId === id) ?? -1;
  const before = page?.[at - 1]?.eventId;
  const after = page?.[at + 1]?.eventId;
  usePageKeys({
    '[': () => document.getElementById('event-before')?.click(),
    ']': () => document.getElementById('event-after')?.click(),
  });
  if (!page) return null;
  return (
    <span className="neighbours">
      {t('event.place', { n: at + 1, m: total && !cursor ? counted(total) : page.length })}
      {before && (
        <Link
          id="event-before"
          className="btn small icon"
          to="/events/$id"
          params={{ id: before } as never}
          aria-label={t('event.before')}
        >
          <Icon name="chevronLeft" size={14} />
        </Link>
      )}
      {after && (
        <Link
          id="event-after"
          className="btn small icon"
          to="/events/$id"
          params={{ id: after } as never}
          aria-label={t('event.after')}
        >
          <Icon name="chevronRight" size={14} />
        </Link>
      )}
    </span>
  );
}
