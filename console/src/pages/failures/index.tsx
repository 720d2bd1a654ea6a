// What is broken, since when, is it safe to redrive?
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { FailureGroup, MendedGroup } from '../../api/pending';
import { failures } from '../../api/queries';
import { Button } from '../../components/Button';
import { Box, Segments } from '../../components/Controls';
import { Cli } from '../../components/Copy';
import { Empty, Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { Menu } from '../../components/Menu';
import { HourBars } from '../../components/Sparkline';
import { Age } from '../../components/Time';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { brief, day, number } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { usePageKeys, useRowKeys } from '../../shell/keys';
import { useRefusal } from '../../shell/session';
import { RedriveWizard, type What } from '../../wizard';
import { GroupPanel } from './GroupPanel';
import { Fingerprint, idOf, isRising } from './group';
import './failures.css';

const BY = ['error', 'consumer', 'topic'] as const;
type By = (typeof BY)[number];

/** The title of the section a group belongs to. */
function sectionOf(group: FailureGroup, by: By): string {
  if (by === 'consumer') return group.consumerId;
  return by === 'topic' ? (group.topics?.[0]?.topic ?? '–') : '';
}

export function Failures() {
  const [search, change] = useUrl();
  const query = useQuery(failures);
  const [wizard, setWizard] = useState<What | null>(null);
  const [selected, setSelected] = useState<string[]>([]);
  const operator = useRefusal('operator');
  const by: By = BY.includes(search.by as By) ? (search.by as By) : 'error';
  const groups = (query.data?.groups ?? []).filter((each) => !search.consumer || each.consumerId === search.consumer);
  const names = [...new Set((query.data?.groups ?? []).map((each) => each.consumerId))];
  const chosen = groups.find((each) => idOf(each) === search.sel) ?? (search.sel ? undefined : groups[0]);
  const picked = groups.filter((each) => selected.includes(idOf(each)));
  const close = () => change({ sel: 'none' });
  usePageKeys({
    Escape: close,
    r: () => {
      const wanted = picked.length > 0 ? picked : chosen ? [chosen] : [];
      if (wanted.length > 0 && !operator) setWizard({ groups: wanted });
    },
  });
  useRowKeys();
  const open = groups.reduce((sum, each) => sum + each.count, 0);
  const dead = groups.reduce((sum, each) => sum + each.dead, 0);
  const toggle = (id: string) =>
    setSelected(selected.includes(id) ? selected.filter((each) => each !== id) : [...selected, id]);
  const hourly = groups.some((each) => each.hours);
  const sections = by === 'error' ? [''] : [...new Set(groups.map((each) => sectionOf(each, by)))];
  return (
    <div className="page">
      <div className="page-head">
        <h1>{t('nav.failures')}</h1>
        {query.data && (
          <span className="meta">
            {t('failures.sum', { n: groups.length, open: number(open), dead: number(dead) })}
          </span>
        )}
        <div className="tools">
          <Segments
            label={t('failures.by')}
            value={by}
            onChange={(value) => change({ by: value === 'error' ? undefined : value })}
            options={BY.map((value) => ({ value, label: t(`failures.by.${value}`) }))}
          />
          <Menu
            button={(shown, press) => (
              <Button small aria-expanded={shown} onClick={press}>
                {search.consumer ?? t('consumers.every')} <Icon name="chevronDown" size={12} />
              </Button>
            )}
          >
            {(close) =>
              [undefined, ...names].map((name) => (
                <button
                  type="button"
                  key={name ?? ''}
                  onClick={() => {
                    change({ consumer: name, sel: undefined });
                    close();
                  }}
                >
                  {name ?? t('consumers.every')}
                </button>
              ))
            }
          </Menu>
        </div>
      </div>
      <Loaded query={query}>
        {(data) => (
          <div className="split wide-side">
            <div>
              {groups.length === 0 ? (
                <div className="card">
                  <Empty icon="check" title={t('attention.none')} text={t('failures.none')} />
                </div>
              ) : (
                <div className="card scroll-x">
                  <table className="table failures">
                    <thead>
                      <tr>
                        <th className="box">
                          <Box
                            checked={selected.length === groups.length}
                            label={t('select.page')}
                            onChange={() => setSelected(selected.length === groups.length ? [] : groups.map(idOf))}
                          />
                        </th>
                        <th>{t('failures.kind')}</th>
                        {hourly && <th className="only-wide">{t('failures.24h')}</th>}
                        <th className="num" aria-sort="descending">
                          {t('nav.events')} <Icon name="arrowDown" size={12} className="inline" />
                        </th>
                        <th className="num">{t('col.dead')}</th>
                        <th className="roomy">{t('col.first')}</th>
                        <th className="only-wide">{t('col.last')}</th>
                      </tr>
                    </thead>
                    {sections.map((section) => (
                      <tbody key={section}>
                        {section && (
                          <tr className="section">
                            <td colSpan={7}>{section}</td>
                          </tr>
                        )}
                        {groups
                          .filter((each) => sectionOf(each, by) === section)
                          .map((group) => (
                            <Row
                              key={idOf(group)}
                              group={group}
                              hourly={hourly}
                              chosen={group === chosen}
                              selected={selected.includes(idOf(group))}
                              onSelect={() => toggle(idOf(group))}
                              onOpen={() => change({ sel: idOf(group) })}
                            />
                          ))}
                      </tbody>
                    ))}
                  </table>
                </div>
              )}
              <p className="under">{t('failures.note')}</p>
              {selected.length > 0 && (
                <div className="row under">
                  <Button icon="repeat" kind="primary" refused={operator} onClick={() => setWizard({ groups: picked })}>
                    {t('failures.redrive', { n: number(picked.reduce((sum, each) => sum + each.count, 0)) })}
                  </Button>
                  <span className="meta">{t('failures.picked', { n: picked.length })}</span>
                </div>
              )}
              {(data.mended?.length ?? 0) > 0 && <Mended list={data.mended ?? []} />}
              <div className="under">
                <Cli line="postrider failures" />
              </div>
            </div>
            {chosen && (
              <GroupPanel
                asked={search.sel !== undefined}
                group={chosen}
                onClose={close}
                onRedrive={() => setWizard({ groups: [chosen] })}
              />
            )}
          </div>
        )}
      </Loaded>
      {wizard && <RedriveWizard what={wizard} onClose={() => setWizard(null)} />}
    </div>
  );
}

type RowProps = {
  group: FailureGroup;
  hourly: boolean;
  chosen: boolean;
  selected: boolean;
  onSelect: () => void;
  onOpen: () => void;
};

function Row({ group, hourly, chosen, selected, onSelect, onOpen }: RowProps) {
  return (
    <tr className={`open ${chosen ? 'chosen' : ''}`} onClick={onOpen}>
      <td className="box" onClick={(event) => event.stopPropagation()}>
        <Box
          checked={selected}
          label={t('select.row', { id: `${group.consumerId} ${group.errorCode ?? ''}` })}
          onChange={onSelect}
        />
      </td>
      <td className="kind">
        <div className="row">
          <button type="button" className="strong" onClick={onOpen}>
            {group.consumerId}
          </button>
          {group.errorCode && <span className="tag mono">{group.errorCode}</span>}
          {isRising(group) && (
            <span className="rising m-bad c">
              <Icon name="arrowUp" size={12} />
              {t('failures.rising')}
            </span>
          )}
        </div>
        <Fingerprint text={group.fingerprint} />
      </td>
      {hourly && (
        <td className="only-wide">{group.hours && <HourBars values={group.hours} label={t('failures.24h')} />}</td>
      )}
      <td className="num strong">{number(group.count)}</td>
      <td className={`num ${group.dead > 0 ? 'm-bad c' : 't2'}`}>{number(group.dead)}</td>
      <td className="t2 nowrap roomy">{day(group.first, storeNow())}</td>
      <td className="t2 nowrap only-wide">
        <Age at={group.last} form={brief} />
      </td>
    </tr>
  );
}

function Mended({ list }: { list: MendedGroup[] }) {
  return (
    <>
      <h2 className="mended-title">{t('failures.mended')}</h2>
      <div className="card scroll-x">
        <table className="table mended stack">
          <tbody>
            {list.map((each) => (
              <tr key={each.consumerId + each.mendedAt}>
                <td className="first">{each.consumerId}</td>
                <td className="mono cut whole">{each.fingerprint}</td>
                <td className="t2 nowrap">{day(each.mendedAt, storeNow())}</td>
                <td className="t2 nowrap">
                  {each.operation
                    ? t('failures.redriven', { n: each.operation, who: each.by ?? '' })
                    : t('failures.itself')}
                </td>
                <td className="num nowrap end">
                  <span className={`status ${each.mended === each.count ? 'm-ok' : 'm-part'}`}>
                    <Icon name={each.mended === each.count ? 'check' : 'half'} size={14} />
                    <span className="t2">
                      {number(each.mended)} / {number(each.count)}
                    </span>
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
