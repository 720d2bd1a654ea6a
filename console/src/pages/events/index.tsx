// Which ones, and what do I do with them all?
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useRouter } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import { url } from '../../api/client';
import { clearFresh, useLive } from '../../api/live';
import { counts, events } from '../../api/queries';
import { Button } from '../../components/Button';
import { FilterChip, Segments } from '../../components/Controls';
import { Cli, copyText } from '../../components/Copy';
import { Failed, Skeleton } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { type MessageKey, t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { counted, number, short } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { usePageKeys } from '../../shell/keys';
import { useRefusal } from '../../shell/session';
import { RedriveWizard, type What } from '../../wizard';
import { flagsOf } from '../../wizard/plan';
import { AddFilter, RangeMenu } from './AddFilter';
import { EmptyList } from './EmptyList';
import { EventTable } from './EventTable';
import { Facets } from './Facets';
import { chipsOf, filterOf, fits, normal, PAGE, PRESETS, type Preset, presetOf } from './filters';
import { PublishDialog } from './PublishDialog';
import './events.css';

const FRESH_MANY = 200;

export function Events() {
  const [raw, change] = useUrl();
  const search = normal(raw);
  const navigate = useNavigate();
  const router = useRouter();
  const client = useQueryClient();
  const filter = filterOf(search, storeNow());
  const list = useQuery(events({ ...filter, limit: PAGE, cursor: search.cursor }));
  const total = useQuery({ ...counts(filter), retry: false });
  const whole = useQuery({ ...counts({}), retry: false });
  const live = useLive();
  const [selected, setSelected] = useState<string[]>([]);
  const [everything, setEverything] = useState(false);
  const [wizard, setWizard] = useState<What | null>(null);
  const [publish, setPublish] = useState(false);
  const operator = useRefusal('operator');
  const admin = useRefusal('admin');
  const table = useRef<HTMLTableElement>(null);
  const rows = list.data?.events ?? [];
  const page = Number(search.page ?? 1);
  const fresh = page === 1 && selected.length === 0 ? live.fresh.filter((each) => fits(each, search)) : [];
  const preset = presetOf(search);

  const go = (part: Record<string, string | undefined>) => {
    setSelected([]);
    setEverything(false);
    change({ ...part, cursor: undefined, page: undefined, preset: undefined });
  };
  const showNew = async () => {
    clearFresh();
    await client.invalidateQueries({ queryKey: ['events'] });
    table.current?.querySelector<HTMLElement>('tbody tr')?.focus();
  };
  const redrive = () => setWizard(everything ? { filter } : { eventIds: selected });
  usePageKeys({
    n: () => void showNew(),
    r: () => selected.length > 0 && !operator && redrive(),
    Escape: () => setSelected([]),
  });

  const presets = (Object.keys(PRESETS) as Preset[]).map((value) => ({
    value,
    label: <PresetLabel preset={value} counts={total.data} whole={value === 'all'} />,
  }));
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.events')}</h1>
        {total.data && (
          <span className="meta">
            {t('events.match', { n: counted(total.data.total) })}
            {whole.data && chipsOf(search).length > 0 && t('events.of', { n: short(whole.data.total.value) })}
          </span>
        )}
        <div className="tools only-wide">
          <a className="btn quiet" href={url('/export', { format: 'jsonl', ...filter })} download="events.jsonl">
            <Icon name="download" size={15} />
            {t('export')}
          </a>
          <Button refused={admin} icon="plus" onClick={() => setPublish(true)}>
            {t('publish')}
          </Button>
        </div>
      </div>
      <div className="filter-row">
        <Segments
          label={t('presets')}
          value={preset ?? ('' as Preset)}
          options={presets}
          onChange={(value) => go({ status: undefined, delivery: undefined, older: undefined, ...PRESETS[value] })}
        />
        {chipsOf(search).map(([name, value]) => (
          <FilterChip
            key={name}
            name={t(`filter.${name}` as MessageKey)}
            value={value}
            onRemove={() => go({ [name]: undefined })}
          />
        ))}
        <AddFilter counts={total.data} onAdd={(name, value) => go({ [name]: value })} />
        <div className="filter-end">
          <span className="new-slot" aria-live="polite">
            {fresh.length > 0 && (
              <button type="button" className="new-pill" onClick={() => void showNew()}>
                <Icon name="chevronUp" size={12} />
                {search.consumer
                  ? t('events.new.some')
                  : t('events.new', { n: fresh.length >= FRESH_MANY ? `${FRESH_MANY}+` : fresh.length })}
              </button>
            )}
          </span>
          <RangeMenu value={search.range} onChange={(range) => go({ range })} />
        </div>
      </div>
      <div className="events">
        <Facets
          counts={total.data}
          search={search}
          onPick={(name, value) => go({ [name]: search[name] === value ? undefined : value })}
        />
        <div className="grow">
          <div className="card scroll-x">
            {list.error && rows.length === 0 ? (
              <Failed error={list.error} what={t('events.failed')} retry={() => list.refetch()} />
            ) : !list.data ? (
              <Skeleton rows={8} />
            ) : rows.length === 0 ? (
              <EmptyList
                search={search}
                more={list.data.nextCursor ?? null}
                onClear={go}
                onMore={(cursor) => change({ cursor, page: String(page + 1) })}
              />
            ) : (
              <EventTable
                ref={table}
                events={rows}
                selected={selected}
                everything={everything}
                onSelect={(ids) => {
                  setSelected(ids);
                  setEverything(false);
                }}
                onOpen={(id) => void navigate({ to: '/events/$id', params: { id } as never })}
              />
            )}
          </div>
          {selected.length > 0 && (
            <div className="selection" role="toolbar" aria-label={t('selection')}>
              <Icon name="tick" size={14} />
              <span>
                {everything
                  ? t('selected.all', { m: total.data ? counted(total.data.total) : '…' })
                  : t('selected.n', { n: selected.length })}
              </span>
              {!everything && total.data && total.data.total.value > selected.length && (
                <button type="button" className="selection-all" onClick={() => setEverything(true)}>
                  {t('select.all', { m: counted(total.data.total) })}
                </button>
              )}
              <span className="grow" />
              <Button icon="repeat" refused={operator} onClick={redrive}>
                {t('act.redrive')} <kbd>r</kbd>
              </Button>
              <Button icon="copy" className="ghost" onClick={() => void copyText(selected.join('\n'))}>
                {t('copy.ids')}
              </Button>
              <button type="button" className="hit" aria-label={t('selection.clear')} onClick={() => setSelected([])}>
                <Icon name="x" />
              </button>
            </div>
          )}
          <div className="pager">
            <span className="meta">
              {rows.length > 0 &&
                t('events.range', { a: number((page - 1) * PAGE + 1), b: number((page - 1) * PAGE + rows.length) })}
            </span>
            <Cli line={`postrider events list${flagsOf(filter)}`} />
            <Button small icon="chevronLeft" disabled={page <= 1} onClick={() => router.history.back()}>
              {t('newer')}
            </Button>
            <Button
              small
              disabled={!list.data?.nextCursor}
              onClick={() => change({ cursor: list.data?.nextCursor ?? undefined, page: String(page + 1) })}
            >
              {t('older')} <Icon name="chevronRight" size={14} />
            </Button>
          </div>
        </div>
      </div>
      {wizard && <RedriveWizard what={wizard} onClose={() => setWizard(null)} />}
      {publish && <PublishDialog onClose={() => setPublish(false)} />}
    </div>
  );
}

function PresetLabel({
  preset,
  counts: all,
  whole,
}: {
  preset: Preset;
  counts?: import('../../api/pending').Counts;
  whole: boolean;
}) {
  const by = all?.byStatus ?? {};
  const sum = (names: string[]) => names.reduce((value, name) => value + (by[name]?.value ?? 0), 0);
  const count: Record<Preset, number | null> = {
    all: null,
    inflight: sum(['PENDING', 'SENT', 'RETRYING']),
    retrying: sum(['RETRYING']),
    // Counts are by status; none of them is exactly the events with a dead delivery.
    dead: null,
    slow: null,
  };
  const value = count[preset];
  return (
    <>
      {t(`preset.${preset}`)}
      {whole && all && <small>{counted(all.total, short)}</small>}
      {value !== null && value > 0 && <small>{number(value)}</small>}
    </>
  );
}
