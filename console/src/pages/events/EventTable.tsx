import { type Ref, useEffect, useRef, useState } from 'react';
import type { EventSummary } from '../../api/pending';
import { Box } from '../../components/Controls';
import { Icon } from '../../components/Icon';
import { EVENT } from '../../components/Status';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { duration } from '../../lib/format';
import { usePageKeys } from '../../shell/keys';
import { useColumns } from './columns';

type Props = {
  ref: Ref<HTMLTableElement>;
  events: EventSummary[];
  selected: string[];
  everything: boolean;
  /** The event in the side panel; it follows `j` and `k`. */
  peeked?: string;
  onSelect: (ids: string[]) => void;
  onPeek: (id: string) => void;
  onOpen: (id: string) => void;
  onCopy: (ids: string[]) => void;
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

export function EventTable(props: Props) {
  const { ref, events, selected, everything, peeked, onSelect, onPeek, onOpen, onCopy } = props;
  const [active, setActive] = useState(-1);
  const [anchor, setAnchor] = useState(-1);
  const changed = useChanged(events);
  const columns = useColumns();
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
    if (peeked) onPeek(ids[next]!);
  }
  usePageKeys({
    j: () => move(1),
    k: () => move(-1),
    x: () => active >= 0 && toggle(active, false),
    X: () => active >= 0 && toggle(active, true),
    c: () => {
      if (peeked) return;
      if (selected.length > 0) onCopy(selected);
      else if (active >= 0) onCopy([ids[active]!]);
    },
    ' ': (event) => {
      if ((event.target as HTMLElement).tagName !== 'TR' || active < 0) return;
      event.preventDefault();
      onPeek(ids[active]!);
    },
    Enter: (event) => (event.target as HTMLElement).tagName === 'TR' && active >= 0 && onOpen(ids[active]!),
  });

  return (
    <table className={`table event-table ${peeked ? 'narrowed' : ''}`} ref={ref}>
      <thead>
        <tr>
          <th className="box">
            <Box checked={all} label={t('select.page')} onChange={() => onSelect(all ? [] : ids)} />
          </th>
          {columns.map(({ name, head, num }) => (
            <th
              key={name}
              className={`col-${name} ${num ? 'num' : ''}`}
              aria-sort={name === 'age' ? 'descending' : undefined}
            >
              {t(head)} {name === 'age' && <Icon name="arrowDown" size={12} className="inline" />}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {events.map((event, index) => {
          const id = event.eventId;
          const chosen = everything || selected.includes(id) || peeked === id;
          return (
            <tr
              key={id}
              tabIndex={index === Math.max(0, active) ? 0 : -1}
              aria-label={rowName(event)}
              className={`open ${chosen ? 'chosen' : ''} ${changed.has(id) ? 'changed' : ''}`}
              onClick={() => onPeek(id)}
              onDoubleClick={() => onOpen(id)}
              onFocus={() => setActive(index)}
            >
              <td className="box" onClick={(click) => click.stopPropagation()}>
                <Box
                  checked={everything || selected.includes(id)}
                  label={t('select.row', { id })}
                  onChange={(range) => toggle(index, range)}
                />
              </td>
              {columns.map(({ name, num, cell }) => (
                <td key={name} className={`col-${name} nowrap ${num ? 'num' : ''}`}>
                  {cell(event)}
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
