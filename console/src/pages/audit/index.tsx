// Who did what, why?
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import type { AuditRecord } from '../../api/pending';
import { audit } from '../../api/queries';
import { Button } from '../../components/Button';
import { FilterChip } from '../../components/Controls';
import { Cli } from '../../components/Copy';
import { Empty, Loaded } from '../../components/Empty';
import { Icon, type IconName } from '../../components/Icon';
import { Menu } from '../../components/Menu';
import type { Meaning } from '../../components/Status';
import { type MessageKey, t } from '../../i18n';
import { actionOf, detailOf, isRead, targetOf } from '../../lib/audit';
import { quote } from '../../lib/cli';
import { storeNow } from '../../lib/clock';
import { clock, dayMonth, isoDay } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { useOperatorsWhole } from '../../shell/session';
import { RangeMenu } from '../events/AddFilter';
import { RANGES } from '../events/filters';
import './audit.css';

const DAY = 86_400_000;
const ROLES: Record<string, Meaning> = { admin: 'human', operator: 'info', viewer: 'idle' };
const ICONS: [RegExp, IconName][] = [
  [/operation.stopped/, 'cross'],
  [/cancel|revoke|delete|discard/, 'cross'],
  [/pause|hold/, 'pause'],
  [/resume|skip/, 'play'],
  [/expire/, 'hourglass'],
  [/operation|redrive/, 'repeat'],
  [/subscription/, 'matrix'],
  [/token/, 'key'],
  [/log/, 'user'],
  [/read/, 'eye'],
  [/job/, 'clock'],
];
/** What is shown until a person chooses. */
const WEEK = '7d';
const FILTERS = ['actor', 'action', 'target'] as const;

export function Audit() {
  const [search, change] = useUrl();
  const { may, refused } = useOperatorsWhole();
  const range = search.range ?? WEEK;
  const seconds = RANGES[range];
  const query = useQuery({
    ...audit({
      actor: search.actor,
      action: search.action,
      target: search.target,
      outcome: search.refused ? 'refused' : undefined,
      from: seconds ? new Date(Math.floor(storeNow() / 60_000) * 60_000 - seconds * 1000).toISOString() : undefined,
      cursor: search.cursor,
      limit: 100,
    }),
    enabled: may,
  });
  const set = (part: Record<string, string | undefined>) => change({ ...part, cursor: undefined });
  // A server without these filters sends everything; the page filters again, which changes nothing otherwise.
  const matching = (query.data?.records ?? []).filter(
    (each) =>
      (!search.actor || each.actor === search.actor) &&
      (!search.action || actionOf(each.action) === search.action) &&
      (!search.target || each.target === search.target || targetOf(each.target) === search.target) &&
      (!search.refused || each.outcome.startsWith('4')),
  );
  // Reads of payloads are many, and hide the changes.
  const withReads = search.reads === 'yes' || search.action === 'event.read';
  const records = withReads ? matching : matching.filter((each) => !isRead(each));
  const left = matching.length - records.length;
  function exportAll() {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(
      new Blob([records.map((each) => JSON.stringify(each)).join('\n')], { type: 'application/jsonl' }),
    );
    link.download = 'audit.jsonl';
    link.click();
    URL.revokeObjectURL(link.href);
  }
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.audit')}</h1>
        <span className="meta only-wide">{t('audit.text')}</span>
        <div className="tools">
          <Button icon="download" refused={refused} onClick={exportAll}>
            {t('export')}
          </Button>
        </div>
      </div>
      {refused ? (
        <div className="card">
          <Empty icon="lock" title={refused} />
        </div>
      ) : (
        <>
          <div className="audit-filters">
            {FILTERS.map((name) =>
              search[name] ? (
                <FilterChip
                  key={name}
                  name={t(`audit.${name}`)}
                  value={search[name]}
                  onRemove={() => set({ [name]: undefined })}
                />
              ) : (
                <AskFilter
                  key={name}
                  name={name}
                  values={[
                    ...new Set(records.map((each) => fieldOf(each, name)).filter((each): each is string => !!each)),
                  ]}
                  onAdd={(value) => set({ [name]: value })}
                />
              ),
            )}
            {search.refused ? (
              <FilterChip name={t('audit.refused')} value="4xx" onRemove={() => set({ refused: undefined })} />
            ) : (
              <button type="button" className="chip add" onClick={() => set({ refused: 'yes' })}>
                <Icon name="plus" size={12} />
                {t('audit.refused')}
              </button>
            )}
            {search.reads === 'yes' ? (
              <FilterChip name={t('audit.reads')} value="200" onRemove={() => set({ reads: undefined })} />
            ) : (
              <button type="button" className="chip add" onClick={() => set({ reads: 'yes' })}>
                <Icon name="plus" size={12} />
                {t('audit.reads')}
              </button>
            )}
            <span className="grow" />
            <RangeMenu
              value={seconds ? range : undefined}
              onChange={(next) => set({ range: next === WEEK ? undefined : (next ?? 'any') })}
            />
          </div>
          <Loaded query={query}>
            {(page) => (
              <>
                <div className="card scroll-x">
                  {records.length === 0 ? (
                    <Empty
                      icon="shield"
                      title={t('audit.none')}
                      text={left > 0 ? t('audit.reads.left', { n: left }) : undefined}
                    />
                  ) : (
                    <Records records={records} />
                  )}
                </div>
                {left > 0 && records.length > 0 && <p className="under">{t('audit.reads.left', { n: left })}</p>}
                <div className="row under">
                  <span className="grow">
                    <Cli
                      line={`postrider audit${search.actor ? ` --actor ${quote(search.actor)}` : ''}${search.target ? ` --target ${quote(search.target)}` : ''}`}
                    />
                  </span>
                  {page.nextCursor && (
                    <Button small onClick={() => change({ cursor: page.nextCursor ?? undefined })}>
                      {t('older')}
                    </Button>
                  )}
                </div>
              </>
            )}
          </Loaded>
        </>
      )}
    </div>
  );
}

function AskFilter({
  name,
  values,
  onAdd,
}: {
  name: (typeof FILTERS)[number];
  values: string[];
  onAdd: (value: string) => void;
}) {
  const [value, setValue] = useState('');
  return (
    <Menu
      left
      button={(open, toggle) => (
        <button type="button" className="chip add" aria-expanded={open} onClick={toggle}>
          <Icon name="plus" size={12} />
          {t(`audit.${name}`)}
        </button>
      )}
    >
      {(close) => {
        const add = (chosen: string) => {
          if (chosen.trim()) onAdd(chosen.trim());
          close();
        };
        const submit = (event: FormEvent) => {
          event.preventDefault();
          add(value);
        };
        return (
          <form onSubmit={submit} className="filter-form">
            <label className="field">
              <span>{t(`audit.${name}`)}</span>
              <input autoFocus className="input" value={value} onChange={(event) => setValue(event.target.value)} />
            </label>
            {values
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

function dayTitle(at: string): string {
  const now = storeNow();
  if (isoDay(at) === isoDay(now)) return t('audit.today');
  if (isoDay(at) === isoDay(now - DAY)) return t('audit.yesterday', { d: dayMonth(at) });
  return dayMonth(at);
}

function Records({ records }: { records: AuditRecord[] }) {
  const days = [...new Set(records.map((each) => isoDay(each.at)))];
  const heads: MessageKey[] = ['col.when', 'col.who', 'col.action', 'wizard.what', 'audit.target', 'reason'];
  return (
    <table className="table audit stack">
      <thead>
        <tr>
          {heads.map((head) => (
            <th key={head}>{t(head)}</th>
          ))}
          <th className="num roomy">{t('col.answer')}</th>
        </tr>
      </thead>
      {days.map((day) => {
        const list = records.filter((each) => isoDay(each.at) === day);
        return (
          <tbody key={day}>
            <tr className="section">
              <td colSpan={7}>{dayTitle(list[0]!.at)}</td>
            </tr>
            {list.map((record) => (
              <Row key={record.id} record={record} />
            ))}
          </tbody>
        );
      })}
    </table>
  );
}

function fieldOf(record: AuditRecord, name: (typeof FILTERS)[number]): string | null {
  if (name === 'actor') return record.actor;
  return name === 'action' ? actionOf(record.action) : targetOf(record.target);
}

/** What changed, as `field: before → after`. */
function changeOf(record: AuditRecord): string | null {
  const { before, after } = record;
  if (!before || !after || typeof before !== 'object' || typeof after !== 'object') return null;
  const old = before as Record<string, unknown>;
  const text = Object.entries(after as Record<string, unknown>)
    .filter(([name, value]) => old[name] !== value)
    .map(([name, value]) => `${name}: ${String(old[name])} → ${String(value)}`);
  return text.join(', ') || null;
}

function Row({ record }: { record: AuditRecord }) {
  const action = actionOf(record.action);
  const refused = record.outcome.startsWith('4');
  const icon = refused ? 'cross' : (ICONS.find(([pattern]) => pattern.test(action))?.[1] ?? 'info');
  const detail = detailOf(record);
  const what = changeOf(record) ?? detail.what;
  return (
    <tr>
      <td className="t2 nowrap end" title={record.requestId ?? undefined}>
        {clock(record.at)}
      </td>
      <td className="nowrap">
        {record.actor}{' '}
        {record.role ? (
          <span className={`tag m-${ROLES[record.role] ?? 'idle'}`}>{record.role}</span>
        ) : (
          record.actor === 'postrider' && <span className="tag">{t('audit.itself')}</span>
        )}
      </td>
      <td className="first">
        <span className={`status mono ${refused ? 'm-bad' : action === 'operation.stopped' ? 'm-part' : 'm-idle'}`}>
          <Icon name={icon} size={14} />
          <span className="verb">{action}</span>
        </span>
      </td>
      <td className={refused ? 'm-bad c' : ''}>
        {refused ? (what ? t('audit.was.refused', { why: what }) : t('audit.was.refused.plain')) : what}
      </td>
      <td>
        <Target action={action} target={targetOf(record.target)} />
      </td>
      <td className={`t2 whole ${detail.reason ? '' : 'only-wide'}`}>{detail.reason ? `“${detail.reason}”` : '–'}</td>
      <td className={`num roomy ${refused ? 'm-bad c strong' : 't2'}`}>{record.outcome}</td>
    </tr>
  );
}

function Target({ action, target }: { action: string; target: string | null }) {
  if (!target) return null;
  if (action.startsWith('operation')) return <Link to="/operations">{target}</Link>;
  if (action.startsWith('consumer')) {
    return (
      <Link to="/consumers" search={{ sel: target } as never}>
        {target}
      </Link>
    );
  }
  if (action.startsWith('subscription')) {
    const [topic, consumer] = target.split('/');
    return (
      <Link to="/subscriptions" search={{ topic, consumer } as never}>
        {topic} → {consumer}
      </Link>
    );
  }
  if (action.startsWith('event')) {
    return (
      <Link to="/events/$id" params={{ id: target } as never}>
        {target}
      </Link>
    );
  }
  return <span>{target}</span>;
}
