import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { EventDetail, TraceNode } from '../../api/pending';
import { trace } from '../../api/queries';
import { Empty, Loaded } from '../../components/Empty';
import { Meter } from '../../components/Meter';
import { EVENT, StatusIcon } from '../../components/Status';
import { t } from '../../i18n';
import { offset } from '../../lib/format';

export function TraceTab({ event }: { event: EventDetail }) {
  const query = useQuery({ ...trace(event.traceId ?? ''), enabled: !!event.traceId });
  if (!event.traceId) {
    return (
      <div className="card">
        <Empty icon="tree" title={t('trace.none')} />
      </div>
    );
  }
  return (
    <section className="card">
      <header>
        <h2>{t('tab.trace')}</h2>
        <Link to="/traces/$id" params={{ id: event.traceId } as never}>
          {t('trace.open')}
        </Link>
      </header>
      <Loaded query={query}>
        {(data) => (
          <ul className="trace-list">
            {data.roots.map((root) => (
              <Node
                key={root.eventId}
                node={root}
                depth={0}
                here={event.eventId}
                start={Date.parse(data.events[0]?.createdAt ?? root.createdAt)}
              />
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  );
}

function Node({ node, depth, here, start }: { node: TraceNode; depth: number; here: string; start: number }) {
  return (
    <>
      <li className={node.eventId === here ? 'here' : ''} style={{ paddingLeft: 14 + depth * 22 }}>
        <StatusIcon look={EVENT[node.status]!} />
        <Link
          to="/events/$id"
          params={{ id: node.eventId } as never}
          className={`plain cut ${node.failedConsumers > 0 ? 'm-bad c strong' : ''}`}
        >
          {node.topic}
        </Link>
        <span className="meta cut grow">{node.eventId}</span>
        <Meter event={node} />
        <span className="meta num">{offset(Date.parse(node.createdAt) - start)}</span>
      </li>
      {node.children.map((child) => (
        <Node key={child.eventId} node={child} depth={depth + 1} here={here} start={start} />
      ))}
    </>
  );
}
