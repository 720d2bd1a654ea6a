import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { EventDetail, EventSummary, TraceNode } from '../../api/pending';
import { events, trace } from '../../api/queries';
import { EVENT, StatusIcon } from '../../components/Status';
import { t } from '../../i18n';
import { hourMinute, isoDay, middle, offset, subject } from '../../lib/format';
import { useLimits } from '../../shell/session';

/** Its key's neighbours, what it caused, and its facts. */
export function Side({ event }: { event: EventDetail }) {
  return (
    <aside className="side only-wide">
      {event.key && <SameKey event={event} />}
      {event.traceId && <Caused event={event} />}
      <Facts event={event} />
    </aside>
  );
}

function Row({ event, from, depth, here }: { event: EventSummary; from: number; depth: number; here?: boolean }) {
  const waits = event.status === 'PENDING' && depth > 0;
  return (
    <li style={{ paddingLeft: depth * 20 }}>
      {depth > 0 && <i className="elbow" aria-hidden />}
      <StatusIcon look={EVENT[event.status]!} size={14} />
      <Link
        to="/events/$id"
        params={{ id: event.eventId } as never}
        className={`plain cut grow ${here ? 'strong' : ''}`}
      >
        {event.topic}
        {waits && ` · ${t('side.waits')}`}
      </Link>
      <span className={here ? 'meta strong' : 'meta'}>{here ? '0' : offset(Date.parse(event.occurredAt) - from)}</span>
    </li>
  );
}

function SameKey({ event }: { event: EventDetail }) {
  const query = useQuery(events({ key: event.key, limit: 20 }));
  const all = [...(query.data?.events ?? [])]
    .sort((a, b) => a.occurredAt.localeCompare(b.occurredAt))
    .filter((each) => each.aggregateType === event.aggregateType);
  const at = all.findIndex((each) => each.eventId === event.eventId);
  const near = all.filter((_, index) => Math.abs(index - at) <= 3);
  return (
    <section className="card">
      <header>
        <h2 className="cut">{subject(event.aggregateType, event.key && middle(event.key, 6, 8))}</h2>
        <Link to="/stories/$key" params={{ key: event.key } as never}>
          {t('side.story')}
        </Link>
      </header>
      <ul className="side-list">
        {near.map((each) => (
          <Row
            key={each.eventId}
            event={each}
            from={Date.parse(event.occurredAt)}
            here={each.eventId === event.eventId}
            depth={each.occurredAt > event.occurredAt ? 1 : 0}
          />
        ))}
      </ul>
      <p className="side-note">{t('side.order')}</p>
    </section>
  );
}

function find(nodes: TraceNode[], id: string): TraceNode | undefined {
  for (const node of nodes) {
    const found = node.eventId === id ? node : find(node.children, id);
    if (found) return found;
  }
  return undefined;
}

function flat(nodes: TraceNode[], depth = 0): { node: TraceNode; depth: number }[] {
  return nodes.flatMap((node) => [{ node, depth }, ...flat(node.children, depth + 1)]);
}

function Caused({ event }: { event: EventDetail }) {
  const tree = useQuery({ ...trace(event.traceId ?? ''), retry: false }).data;
  const node = tree && find(tree.roots, event.eventId);
  const rows = node ? flat(node.children) : event.children.map((child) => ({ node: child, depth: 0 }));
  if (rows.length === 0) return null;
  return (
    <section className="card">
      <header>
        <h2>{t('side.caused')}</h2>
        <span className="meta">{rows.length}</span>
        <Link to="/traces/$id" params={{ id: event.traceId } as never}>
          {t('trace.open')}
        </Link>
      </header>
      <ul className="side-list">
        {rows.slice(0, 8).map(({ node: each, depth }) => (
          <Row key={each.eventId} event={each} depth={depth} from={Date.parse(event.occurredAt)} />
        ))}
      </ul>
    </section>
  );
}

const DAY = 86_400_000;

function Facts({ event }: { event: EventDetail }) {
  const { finishedDays, redriveHorizonDays } = useLimits();
  const after = (days: number) => Date.parse(event.createdAt) + days * DAY;
  const { initiator } = event;
  const rows: [string, string | null][] = [
    [t('facts.aggregate'), [event.aggregateType, event.aggregateId].filter(Boolean).join(' ')],
    [t('facts.initiator'), [initiator.service, initiator.userId].filter(Boolean).join(' · ')],
    [t('facts.request'), initiator.clientRequestId ?? null],
    [t('facts.written'), event.written ? t(`facts.written.${event.written}`) : null],
    [t('facts.kept'), finishedDays === undefined ? null : isoDay(after(finishedDays))],
    [
      t('facts.redrivable'),
      redriveHorizonDays === undefined
        ? null
        : `${isoDay(after(redriveHorizonDays))} ${hourMinute(after(redriveHorizonDays))}`,
    ],
  ];
  return (
    <section className="card">
      <header>
        <h2>{t('facts')}</h2>
      </header>
      <dl className="kv side-facts">
        {rows
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name} className="kv-row">
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </section>
  );
}
