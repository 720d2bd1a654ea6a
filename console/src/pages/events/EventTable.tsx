import { Link } from '@tanstack/react-router';
import { type Ref, useEffect, useRef, useState } from 'react';
import type { EventSummary } from '../../api/pending';
import { Box } from '../../components/Controls';
import { Copy } from '../../components/Copy';
import { Icon } from '../../components/Icon';
import { Meter } from '../../components/Meter';
import { EVENT, StatusWord } from '../../components/Status';
import { Age } from '../../components/Time';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { duration } from '../../lib/format';
import { usePageKeys } from '../../shell/keys';

type Props = {
  ref: Ref<HTMLTableElement>;
  events: EventSummary[];
  selected: string[];
  everything: boolean;
  onSelect: (ids: string[]) => void;
  onOpen: (id: string) => void;
};

/** What a screen reader says for a row. */
export function rowName(event: EventSummary): string {
  return t('row.name', {
    topic: event.topic,
    key: [event.aggregateType?.toLowerCase(), event.key].filter(Boolean).join(' ') || event.eventId,
    status: t(EVENT[event.status]!.word),
    done: event.consumedConsumers,
    all: event.expectedConsumers,
    age: duration((storeNow() - Date.parse(event.createdAt)) / 1000),
  });
}

/** Ids whose status has changed since the last drawing. */
function useChanged(events: EventSummary[]): Set<string> {
  const before = useRef(new Map<string, string>());
  const changed = new Set(
    events
      .filter((each) => (before.current.get(each.eventId) ?? each.status) !== each.status)
      .map((each) => each.eventId),
  );
  useEffect(() => {
    before.current = new Map(events.map((each) => [each.eventId, each.status]));
  }, [events]);
  return changed;
}

export function EventTable({ ref, events, selected, everything, onSelect, onOpen }: Props) {
  const [active, setActive] = useState(-1);
  const [anchor, setAnchor] = useState(-1);
  const changed = useChanged(events);
  const body = useRef<HTMLTableSectionElement>(null);
  const ids = events.map((each) => each.eventId);
  const all = everything || ids.every((id) => selected.includes(id));

  function toggle(index: number, range: boolean) {
    const id = ids[index]!;
    if (range && anchor >= 0) {
      const [a, b] = [Math.min(anchor, index), Math.max(anchor, index)];
      onSelect([...new Set([...selected, ...ids.slice(a, b + 1)])]);
    } else onSelect(selected.includes(id) ? selected.filter((each) => each !== id) : [...selected, id]);
    setAnchor(index);
  }
  function move(step: number) {
    const next = Math.min(ids.length - 1, Math.max(0, active + step));
    setActive(next);
    (body.current?.children[next] as HTMLElement | undefined)?.focus();
  }
  usePageKeys({
    j: () => move(1),
    k: () => move(-1),
    x: () => active >= 0 && toggle(active, false),
    X: () => active >= 0 && toggle(active, true),
    Enter: (event) => (event.target as HTMLElement).tagName === 'TR' && active >= 0 && onOpen(ids[active]!),
  });

  return (
    <table className="table event-table" ref={ref}>
      <thead>
        <tr>
          <th className="box">
            <Box checked={all} label={t('select.page')} onChange={() => onSelect(all ? [] : ids)} />
          </th>
          <th>{t('col.status')}</th>
          <th>{t('col.topic')}</th>
          <th>{t('col.key')}</th>
          <th>{t('col.deliveries')}</th>
          <th className="num">{t('col.attempts')}</th>
          <th>{t('col.service')}</th>
          <th className="num" aria-sort="descending">
            {t('col.age')} <Icon name="arrowDown" size={12} className="inline" />
          </th>
          <th>{t('col.id')}</th>
        </tr>
      </thead>
      <tbody ref={body}>
        {events.map((event, index) => {
          const chosen = everything || selected.includes(event.eventId);
          const attempts = event.attempts;
          return (
            <tr
              key={event.eventId}
              tabIndex={index === Math.max(0, active) ? 0 : -1}
              aria-label={rowName(event)}
              className={`open ${chosen ? 'chosen' : ''} ${changed.has(event.eventId) ? 'changed' : ''}`}
              onClick={() => onOpen(event.eventId)}
              onFocus={() => setActive(index)}
            >
              <td className="box" onClick={(click) => click.stopPropagation()}>
                <Box
                  checked={chosen}
                  label={t('select.row', { id: event.eventId })}
                  onChange={(range) => toggle(index, range)}
                />
              </td>
              <td>
                <StatusWord look={EVENT[event.status]!} />
              </td>
              <td className="topic">{event.topic}</td>
              <td>
                {event.key && (
                  <Link
                    to="/stories/$key"
                    params={{ key: event.key } as never}
                    onClick={(click) => click.stopPropagation()}
                  >
                    {event.key}
                  </Link>
                )}
              </td>
              <td className="nowrap">
                <Meter event={event} />
                {event.held && (
                  <span className="held">
                    <Icon name="lock" size={12} />
                    {t('delivery.held').toLowerCase()}
                  </span>
                )}
              </td>
              <td className={`num ${(attempts ?? 0) > event.expectedConsumers ? 'strong' : 't2'}`}>
                {attempts ?? '–'}
              </td>
              <td className="t2 nowrap">{event.initiator.service ?? '–'}</td>
              <td className="num nowrap">
                <Age at={event.createdAt} />
              </td>
              <td className="mono nowrap">
                <span className="id">{event.eventId}</span>
                <Copy text={event.eventId} className="hover-only" />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
