import { type FormEvent, useState } from 'react';
import type { Counts } from '../../api/types';
import { Button } from '../../components/Button';
import { Icon } from '../../components/Icon';
import { Menu } from '../../components/Menu';
import { type MessageKey, t } from '../../i18n';
import { RANGES } from './filters';

const KEYS = [
  'topic',
  'service',
  'consumer',
  'tenant',
  'trace',
  'key',
  'aggregateType',
  'aggregateId',
  'delivery',
  'unheard',
];

function suggestions(name: string, counts?: Counts): string[] {
  if (name === 'delivery') return ['NEW', 'PROCESSING', 'FAILED', 'DEAD'];
  if (name === 'unheard') return ['true'];
  const map = {
    topic: counts?.byTopic,
    service: counts?.byService,
    consumer: counts?.byConsumer,
    tenant: counts?.byTenant,
  }[name];
  return Object.keys(map ?? {});
}

/** Key, then value with suggestions. */
export function AddFilter({ counts, onAdd }: { counts?: Counts; onAdd: (name: string, value: string) => void }) {
  const [name, setName] = useState<string | null>(null);
  const [value, setValue] = useState('');
  return (
    <Menu
      left
      button={(open, toggle) => (
        <button
          type="button"
          className="chip add"
          aria-expanded={open}
          onClick={() => {
            setName(null);
            setValue('');
            toggle();
          }}
        >
          <Icon name="plus" size={12} />
          {t('filter')}
        </button>
      )}
    >
      {(close) => {
        const add = (chosen: string) => {
          if (name && chosen.trim()) onAdd(name, chosen.trim());
          close();
        };
        if (!name) {
          return KEYS.map((each) => (
            <button type="button" key={each} onClick={() => setName(each)}>
              {t(`filter.${each}` as MessageKey)}
            </button>
          ));
        }
        const submit = (event: FormEvent) => {
          event.preventDefault();
          add(value);
        };
        return (
          <form onSubmit={submit} className="filter-form">
            <label className="field">
              <span>{t(`filter.${name}` as MessageKey)}</span>
              <input autoFocus className="input" value={value} onChange={(event) => setValue(event.target.value)} />
            </label>
            {suggestions(name, counts)
              .filter((each) => each.includes(value))
              .slice(0, 8)
              .map((each) => (
                <button type="button" key={each} onClick={() => add(each)}>
                  {each}
                </button>
              ))}
          </form>
        );
      }}
    </Menu>
  );
}

export function RangeMenu({ value, onChange }: { value?: string; onChange: (range: string | undefined) => void }) {
  const name = (range: string) => t('range.last', { r: t(`range.${range}` as MessageKey) });
  return (
    <Menu
      button={(open, toggle) => (
        <Button small icon="calendar" aria-expanded={open} onClick={toggle}>
          {value ? name(value) : t('range.any')} <Icon name="chevronDown" size={12} />
        </Button>
      )}
    >
      {(close) =>
        [undefined, ...Object.keys(RANGES)].map((range) => (
          <button
            type="button"
            key={range ?? 'any'}
            onClick={() => {
              onChange(range);
              close();
            }}
          >
            {range ? name(range) : t('range.any')}
          </button>
        ))
      }
    </Menu>
  );
}
