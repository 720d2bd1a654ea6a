// The columns of the list. Status and topic always stand; the others can be hidden by the person at this browser.
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { EventSummary } from '../../api/pending';
import { Button } from '../../components/Button';
import { Copy } from '../../components/Copy';
import { Icon } from '../../components/Icon';
import { Menu } from '../../components/Menu';
import { Meter } from '../../components/Meter';
import { EVENT, StatusWord } from '../../components/Status';
import { Age } from '../../components/Time';
import { type MessageKey, t } from '../../i18n';
import { middle } from '../../lib/format';
import { changeSettings, useSettings } from '../../lib/settings';

type Column = {
  name: string;
  head: MessageKey;
  fixed?: boolean;
  num?: boolean;
  cell: (event: EventSummary) => ReactNode;
};

const stop = (click: React.MouseEvent) => click.stopPropagation();

export const COLUMNS: Column[] = [
  {
    name: 'status',
    head: 'col.status',
    fixed: true,
    cell: (event) => <StatusWord look={EVENT[event.status]!} />,
  },
  { name: 'topic', head: 'col.topic', fixed: true, cell: (event) => <span className="long">{event.topic}</span> },
  {
    name: 'key',
    head: 'col.key',
    cell: ({ key }) =>
      key && (
        <Link to="/stories/$key" params={{ key } as never} className="long" title={key} onClick={stop}>
          {middle(key, 4, 8)}
        </Link>
      ),
  },
  {
    name: 'deliveries',
    head: 'col.deliveries',
    cell: (event) => (
      <>
        <Meter event={event} />
        {event.held && (
          <span className="held">
            <Icon name="lock" size={12} />
            {t('delivery.held').toLowerCase()}
          </span>
        )}
      </>
    ),
  },
  {
    name: 'attempts',
    head: 'col.attempts',
    num: true,
    cell: ({ attempts, expectedConsumers }) => (
      <span className={(attempts ?? 0) > expectedConsumers ? 'strong' : 't2'}>{attempts ?? '–'}</span>
    ),
  },
  {
    name: 'service',
    head: 'col.service',
    cell: (event) => <span className="long t2">{event.initiator.service ?? '–'}</span>,
  },
  { name: 'age', head: 'col.age', num: true, cell: (event) => <Age at={event.createdAt} /> },
  {
    name: 'id',
    head: 'col.id',
    cell: ({ eventId }) => (
      <>
        <Link
          to="/events/$id"
          params={{ id: eventId } as never}
          className="id mono plain"
          title={eventId}
          onClick={stop}
        >
          {middle(eventId, 11, 13)}
        </Link>
        <Copy text={eventId} className="hover-only" />
      </>
    ),
  },
];

export function useColumns(): Column[] {
  const { hiddenColumns } = useSettings();
  return COLUMNS.filter((each) => each.fixed || !hiddenColumns.includes(each.name));
}

export function ColumnMenu() {
  const { hiddenColumns, compact } = useSettings();
  const toggle = (name: string) =>
    changeSettings({
      hiddenColumns: hiddenColumns.includes(name)
        ? hiddenColumns.filter((each) => each !== name)
        : [...hiddenColumns, name],
    });
  const item = (key: string, label: string, on: boolean, change: () => void) => (
    <button type="button" role="menuitemcheckbox" aria-checked={on} key={key} onClick={change}>
      <span className="menu-tick">{on && <Icon name="tick" size={14} />}</span>
      {label}
    </button>
  );
  return (
    <Menu
      role="menu"
      button={(open, press) => (
        <Button
          small
          icon="columns"
          aria-haspopup="menu"
          aria-expanded={open}
          aria-label={t('columns')}
          onClick={press}
        />
      )}
    >
      {() => (
        <>
          {COLUMNS.filter((each) => !each.fixed).map((each) =>
            item(each.name, t(each.head), !hiddenColumns.includes(each.name), () => toggle(each.name)),
          )}
          <hr />
          {item('compact', t('density.compact'), compact, () => changeSettings({ compact: !compact }))}
        </>
      )}
    </Menu>
  );
}
