// Which ones, and what do I do with them all?
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useRouter } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import { apiBase } from '../../api/client';
import { exportEvents, exportProblem } from '../../api/export';
import { clearFresh, useLive } from '../../api/live';
import type { EventSummary } from '../../api/pending';
import { counts, events } from '../../api/queries';
import { Button } from '../../components/Button';
import { FilterChip, Segments } from '../../components/Controls';
import { Cli, copyText } from '../../components/Copy';
import { Failed, Skeleton } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { toast } from '../../components/Toasts';
import { type MessageKey, t } from '../../i18n';
import { listCommand } from '../../lib/cli';
import { storeNow } from '../../lib/clock';
import { counted, number, short, words } from '../../lib/format';
import { isPhone } from '../../lib/media';
import { type Search, useUrl } from '../../lib/url';
import { usePageKeys } from '../../shell/keys';
import { useRefusal } from '../../shell/session';
import { RedriveWizard, type What } from '../../wizard';
import { AddFilter, RangeMenu } from './AddFilter';
import { ColumnMenu } from './columns';
import { EmptyList } from './EmptyList';
import { EventPanel } from './EventPanel';
import { EventTable } from './EventTable';
import { Facets } from './Facets';
import { chipsOf, filterOf, fits, normal, PAGE, PRESETS, type Preset, presetOf, withoutPreset } from './filters';
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
  // A facet counts what it would show, so the status facet and the presets leave their own filter out.
  const plain = withoutPreset(search);
  const base = useQuery({ ...counts(filterOf(plain, storeNow())), retry: false });
  const whole = useQuery({ ...counts({}), retry: false });
  const [selected, setSelected] = useState<string[]>([]);
  const [everything, setEverything] = useState(false);
  const [wizard, setWizard] = useState<What | null>(null);
  const [publish, setPublish] = useState(false);
  /** What the export says while it runs. */
  const [saving, setSaving] = useState<string | null>(null);
  const operator = useRefusal('operator');
  const admin = useRefusal('admin');
  const table = useRef<HTMLTableElement>(null);
  const rows = list.data?.events ?? [];
  const page = Number(search.page ?? 1);
  const preset = presetOf(search);

  const go = (part: Record<string, string | undefined>) => {
    setSelected([]);
    setEverything(false);
    change({ ...part, cursor: undefined, page: undefined, preset: undefined });
  };
  const peek = (id: string) => (isPhone() ? open(id) : change({ sel: id === search.sel ? undefined : id }, true));
  const open = (id: string) => void navigate({ to: '/events/$id', params: { id } as never });
  const copyIds = (ids: string[]) => {
    void copyText(ids.join('\n'));
    toast({ icon: 'copy', title: t('copied'), text: t('copied.ids', { n: ids.length }) });
  };
  const showNew = async () => {
    clearFresh();
    await client.invalidateQueries({ queryKey: ['events'] });
    table.current?.querySelector<HTMLElement>('tbody tr')?.focus();
  };
  const save = async (chosen: EventSummary[] | null) => {
    setSaving(t('export'));
    try {
      await exportEvents(filter, chosen);
    } catch (error) {
      toast({ icon: 'alert', title: t('export.failed'), text: exportProblem(error) });
    }
    setSaving(null);
  };
  const redrive = () => setWizard(everything ? { filter } : { eventIds: selected });
  usePageKeys({
    n: () => void showNew(),
    r: () => selected.length > 0 && !operator && redrive(),
    Escape: () => (search.sel ? change({ sel: undefined }, true) : setSelected([])),
  });

  const presets = (Object.keys(PRESETS) as Preset[]).map((value) => ({
    value,
    label: <PresetLabel preset={value} search={plain} />,
  }));
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.events')}</h1>
        {total.data && (
          <span className="meta">
            {t('events.match', { n: counted(total.data.total) })}
            {whole.data && chipsOf(search).length > 0 && t('events.of', { n: words(whole.data.total.value) })}
          </span>
        )}
        <div className="tools only-wide">
          <Button
            kind="quiet"
            icon="download"
            refused={operator}
            busy={saving !== null}
            onClick={() => void save(null)}
          >
            {saving ?? t('export')}
          </Button>
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
            {page === 1 && selected.length === 0 && <NewPill search={search} onShow={() => void showNew()} />}
          </span>
          <RangeMenu value={search.range} onChange={(range) => go({ range })} />
          <span className="only-wide">
            <ColumnMenu />
          </span>
        </div>
      </div>
      <div className={`events ${search.sel ? 'with-panel' : ''}`}>
        <Facets
          counts={total.data}
          statuses={base.data?.byStatus}
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
                scanned={list.data.scanned}
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
                peeked={search.sel}
                onPeek={peek}
                onOpen={open}
                onCopy={copyIds}
              />
            )}
          </div>
          {selected.length > 0 && (
            <div className="selection" role="toolbar" aria-label={t('selection')}>
              <span className="selection-box">
                <Icon name="tick" size={12} />
              </span>
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
              <Button
                icon="download"
                className="ghost"
                refused={operator}
                busy={saving !== null}
                onClick={() => void save(everything ? null : rows.filter((each) => selected.includes(each.eventId)))}
              >
                {saving ?? t('export')}
              </Button>
              <Button icon="copy" className="ghost" onClick={() => copyIds(selected)}>
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
            <Cli line={listCommand(filter, apiBase)} />
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
        {search.sel && <EventPanel id={search.sel} onClose={() => change({ sel: undefined }, true)} />}
      </div>
      {wizard && <RedriveWizard what={wizard} onClose={() => setWizard(null)} />}
      {publish && <PublishDialog onClose={() => setPublish(false)} />}
    </div>
  );
}

/** How many events wait to be shown. It alone is drawn again when more come. */
function NewPill({ search, onShow }: { search: Search; onShow: () => void }) {
  const fresh = useLive((live) => live.fresh).filter((each) => fits(each, search)).length;
  if (fresh === 0) return null;
  return (
    <button type="button" className="new-pill" onClick={onShow}>
      <span className="new-mark" aria-hidden>
        ▲
      </span>
      {search.consumer ? t('events.new.some') : t('events.new', { n: fresh >= FRESH_MANY ? `${FRESH_MANY}+` : fresh })}
    </button>
  );
}

/** A preset with how many events it would show; without a figure where the server does not tell. */
function PresetLabel({ preset, search }: { preset: Preset; search: Search }) {
  const count = useQuery({ ...counts(filterOf({ ...search, ...PRESETS[preset] }, storeNow())), retry: false }).data
    ?.total;
  return (
    <>
      {t(`preset.${preset}`)}
      {count && count.value > 0 && <small>{counted(count, preset === 'all' ? short : number)}</small>}
    </>
  );
}
