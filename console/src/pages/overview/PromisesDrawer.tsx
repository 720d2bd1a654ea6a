import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Promise_ } from '../../api/pending';
import { promises } from '../../api/queries';
import { Button } from '../../components/Button';
import { Cli, Code } from '../../components/Copy';
import { Modal } from '../../components/Dialog';
import { Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { clock, duration, number } from '../../lib/format';
import { useRefusal } from '../../shell/session';
import { RedriveWizard } from '../../wizard';
import { figureName, figuresOf, lookOf } from './Promises';

/** owed = done + waiting + dead, drawn as four bars. */
function Equation({ figures }: { figures: Record<string, number> }) {
  const parts = [
    ['owed', 'idle', ''],
    ['done', 'ok', '='],
    ['waiting', 'info', '+'],
    ['dead', 'bad', '+'],
  ] as const;
  return (
    <div className="equation">
      {parts.map(([name, meaning, sign]) => (
        <div key={name} className={`m-${meaning}`}>
          {sign && <span className="sign">{sign}</span>}
          <i />
          <b>{number(figures[name] ?? 0)}</b>
          <small>{figureName(name)}</small>
        </div>
      ))}
    </div>
  );
}

function Figures({ promise }: { promise: Promise_ }) {
  const zeroIsGood = ['twice', 'overdue', 'lanes', 'outOfOrder', 'discrepancies', 'missing'];
  return (
    <div className="figures">
      {figuresOf(promise).map(([name, value]) => {
        const tone = zeroIsGood.includes(name)
          ? value === 0
            ? 'm-ok c'
            : 'm-bad c'
          : ['held', 'heldKeys'].includes(name) && value > 0
            ? 'm-warn c'
            : '';
        return (
          <div key={name}>
            <b className={tone}>{name === 'oldestSeconds' ? duration(value) : number(value)}</b>
            <small>{figureName(name)}</small>
          </div>
        );
      })}
    </div>
  );
}

/** What is wrong, and the events that it concerns. */
function Findings({ promise }: { promise: Promise_ }) {
  const findings = promise.findings ?? [];
  const told = new Set(findings.map((each) => each.eventId));
  const others = promise.events?.filter((id) => !told.has(id)) ?? [];
  return (
    <ul className="findings-list">
      {findings.map((each) => (
        <li key={each.what}>
          <span className="m-bad c">{each.what}</span>
          {each.eventId && (
            <Link to="/events/$id" params={{ id: each.eventId } as never}>
              {t('show')}
            </Link>
          )}
        </li>
      ))}
      {others.length > 0 && (
        <li>
          <span className="m-bad c">{t('promises.broken')}</span>
          {others.map((id) => (
            <Link key={id} to="/events/$id" params={{ id } as never} className="mono">
              {id}
            </Link>
          ))}
        </li>
      )}
    </ul>
  );
}

const HALF_HOUR_MS = 1_800_000;
const DAY_SLOTS = 48;

/** The last day in half hours. One in which nothing was checked stays pale. */
function History({ promise }: { promise: Promise_ }) {
  const known = new Map(promise.history.map((each) => [Math.floor(Date.parse(each.at) / HALF_HOUR_MS), each]));
  const last = Math.floor(storeNow() / HALF_HOUR_MS);
  const lookAt = (slot: number) => {
    const found = known.get(slot);
    if (!found) return 'none';
    return found.ok ? (found.strained ? 'm-warn' : 'm-ok') : 'm-bad';
  };
  return (
    <div className="history" role="img" aria-label={t('range.24h')}>
      {Array.from({ length: DAY_SLOTS }, (_, index) => (
        <i key={index} className={lookAt(last - DAY_SLOTS + 1 + index)} />
      ))}
    </div>
  );
}

type OneProps = { promise: Promise_; checkedAt: string; sql: boolean; onRedrive: (promise: Promise_) => void };

function One({ promise, checkedAt, sql, onRedrive }: OneProps) {
  const look = lookOf(promise);
  const operator = useRefusal('operator');
  return (
    <section className="promise-one">
      <div className="row">
        <span className={`status m-${look.meaning}`}>
          <Icon name={look.icon} />
        </span>
        <h3 className="grow">{t(`promise.${promise.name}`)}</h3>
        <span className="fine t2">
          {promise.since
            ? t('promises.since', { at: clock(promise.since) })
            : promise.source && promise.checkedAt
              ? `${promise.source} ${clock(promise.checkedAt)}`
              : t('promises.at', { at: clock(checkedAt) })}
        </span>
      </div>
      <div className="promise-body">
        {promise.name === 'lost' ? <Equation figures={promise.figures} /> : <Figures promise={promise} />}
        {promise.keys && promise.keys.length > 0 && (
          <div className="row wrap-row">
            <Button small refused={operator} onClick={() => onRedrive(promise)}>
              {t('promises.heads', { n: promise.keys.length })}
            </Button>
            {promise.keys.map((key) => (
              <Link key={key} to="/stories/$key" params={{ key } as never}>
                {key}
              </Link>
            ))}
          </div>
        )}
        {!promise.ok && <Findings promise={promise} />}
        <History promise={promise} />
        {sql && promise.sql && <Code text={promise.sql} />}
      </div>
    </section>
  );
}

export function PromisesDrawer({ onClose }: { onClose: () => void }) {
  const query = useQuery(promises);
  const [sql, setSql] = useState(false);
  const [heads, setHeads] = useState<Promise_ | null>(null);
  return (
    <Modal label={t('promises')} className="drawer" onClose={onClose}>
      <header className="drawer-head">
        <div className="grow">
          <h2>{t('promises')}</h2>
          <p className="meta">{t('promises.text')}</p>
        </div>
        <Button kind="quiet" icon="x" aria-label={t('close')} onClick={onClose} />
      </header>
      <div className="drawer-body">
        <Loaded query={query}>
          {(data) =>
            data.promises.map((each) => (
              <One key={each.name} promise={each} checkedAt={data.checkedAt} sql={sql} onRedrive={setHeads} />
            ))
          }
        </Loaded>
      </div>
      <footer className="drawer-foot">
        <Cli line="postrider promises -o json" />
        <button type="button" className="link" onClick={() => setSql(!sql)}>
          {t('promises.sql')}
        </button>
      </footer>
      {heads && (
        <RedriveWizard
          what={{ filter: { key: heads.keys?.join(','), deliveryStatus: 'DEAD' } }}
          onClose={() => setHeads(null)}
        />
      )}
    </Modal>
  );
}
