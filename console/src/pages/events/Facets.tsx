import { useState } from 'react';
import type { Counted, Counts } from '../../api/types';
import { Icon } from '../../components/Icon';
import { EVENT, EVENT_ORDER, StatusIcon } from '../../components/Status';
import { t } from '../../i18n';
import { counted, short } from '../../lib/format';
import type { Search } from '../../lib/url';

/** More values stand behind "more". */
const SHOWN = 5;
type Props = {
  counts?: Counts;
  /** Counts by status without the filter by status. */
  statuses?: Record<string, Counted>;
  search: Search;
  onPick: (name: string, value: string) => void;
};

export function Facets({ counts, statuses, search, onPick }: Props) {
  const status: [string, Counted | undefined][] = EVENT_ORDER.map((name) => [name, statuses?.[name]]);
  return (
    <nav className="facets only-wide" aria-label={t('facets')}>
      <Facet name="status" title={t('col.status')} values={status} search={search} onPick={onPick} all />
      {counts && (
        <>
          <Facet name="topic" title={t('col.topic')} values={sorted(counts.byTopic)} search={search} onPick={onPick} />
          <Facet
            name="consumer"
            title={t('col.consumer')}
            values={sorted(counts.byConsumer)}
            search={search}
            onPick={onPick}
          />
          <Facet
            name="service"
            title={t('col.service')}
            values={sorted(counts.byService)}
            search={search}
            onPick={onPick}
          />
          {Object.keys(counts.byTenant).length > 1 && (
            <Facet
              name="tenant"
              title={t('filter.tenant')}
              values={sorted(counts.byTenant)}
              search={search}
              onPick={onPick}
            />
          )}
        </>
      )}
    </nav>
  );
}

function sorted(map: Record<string, Counted>): [string, Counted][] {
  return Object.entries(map).sort((a, b) => b[1].value - a[1].value);
}

type FacetProps = Props & { name: string; title: string; values: [string, Counted | undefined][]; all?: boolean };

function Facet({ name, title, values, search, onPick, all }: Omit<FacetProps, 'counts' | 'statuses'>) {
  const [open, setOpen] = useState(true);
  const [more, setMore] = useState(false);
  const shown = all || more ? values : values.slice(0, SHOWN);
  return (
    <section>
      <button type="button" className="facet-title" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={open ? 'chevronDown' : 'chevronRight'} size={12} />
        {title}
      </button>
      {open &&
        shown.map(([value, count]) => (
          <button
            type="button"
            key={value}
            className="facet"
            aria-pressed={search[name] === value}
            onClick={() => onPick(name, value)}
          >
            {name === 'status' && <StatusIcon look={EVENT[value]!} size={14} />}
            <span className="cut">{name === 'status' ? t(EVENT[value]!.word) : value}</span>
            {count && <small>{counted(count, count.exact ? undefined : short)}</small>}
          </button>
        ))}
      {open && !all && values.length > SHOWN && (
        <button type="button" className="facet t2" onClick={() => setMore(!more)}>
          {more ? t('less') : t('more', { n: values.length - SHOWN })}
        </button>
      )}
    </section>
  );
}
