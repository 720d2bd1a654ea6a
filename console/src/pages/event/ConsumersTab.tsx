import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Consumption, EventDetail } from '../../api/pending';
import { consumers } from '../../api/queries';
import { Button } from '../../components/Button';
import { Code } from '../../components/Copy';
import { Empty } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { DELIVERY, StatusWord } from '../../components/Status';
import { Countdown } from '../../components/Time';
import { t } from '../../i18n';
import { type ConsumerPart, partsOf } from '../../lib/event';
import { clock, took } from '../../lib/format';
import { usePhone } from '../../lib/media';
import { useLimits, useRefusal } from '../../shell/session';
import type { Ask } from './AskAct';
import { refusalOf } from './Header';
import { WhyCard } from './WhyCard';

type Props = { event: EventDetail; onAsk: (ask: Ask) => void };

export function ConsumersTab({ event, onAsk }: Props) {
  const parts = partsOf(event);
  const list = useQuery(consumers()).data ?? [];
  const refused = useRefusal('operator') ?? refusalOf(event.actions?.redrive);
  return (
    <>
      <WhyCard event={event} onAsk={onAsk} />
      {/* Of an event that waits, the card above says the same. */}
      {parts.length === 0 && event.status !== 'PENDING' && (
        <div className="card">
          <Empty icon="inbox" title={t('why.unheard', { topic: event.topic })} />
        </div>
      )}
      <div className="card parts" hidden={parts.length === 0}>
        {parts.map((part, index) => (
          <Part
            key={part.consumerId}
            part={part}
            first={index === 0 && part.state !== 'done'}
            via={list.find((each) => each.consumerId === part.consumerId)?.via}
            refused={refused}
            onRedrive={() => onAsk({ verb: 'redrive', consumerId: part.consumerId })}
            onDiscard={() => onAsk({ verb: 'discard', consumerId: part.consumerId })}
          />
        ))}
      </div>
      {/* Without a consumer there is nobody to try. */}
      {parts.length > 0 && (
        <div className="only-mobile thumb">
          <Button
            kind="primary"
            icon="bolt"
            refused={refused}
            onClick={() =>
              onAsk({ verb: 'redrive', consumerId: parts.find((part) => part.state !== 'done')?.consumerId })
            }
          >
            {t('try.now', { c: parts.find((part) => part.state !== 'done')?.consumerId ?? '' })}
          </Button>
          <Button refused={refused} onClick={() => onAsk({ verb: 'redrive' })}>
            {t('act.redrive')}
          </Button>
        </div>
      )}
    </>
  );
}

type PartProps = {
  part: ConsumerPart;
  first: boolean;
  via?: string;
  refused: string | null;
  onRedrive: () => void;
  onDiscard: () => void;
};

function Part({ part, first, via, refused, onRedrive, onDiscard }: PartProps) {
  const [open, setOpen] = useState(first);
  const { delivery, attempts } = part;
  const operator = useRefusal('operator');
  const last = attempts.at(-1);
  const failedBefore = part.state === 'done' ? attempts.filter((each) => each.success === false) : [];
  const made = attempts.length;
  const limits = useLimits();
  const max = part.max ?? limits.maxAttempts;
  const note =
    failedBefore.length > 0
      ? t('part.failed.before', {
          n: failedBefore.length,
          why: (failedBefore.at(-1)?.errorMessage ?? '').split(':')[0]!,
        })
      : last?.result
        ? t('part.result')
        : '';
  return (
    <section>
      <div className="part-head">
        <button type="button" className="part-open" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon name={open ? 'chevronDown' : 'chevronRight'} size={14} />
          <b>{part.consumerId}</b>
        </button>
        <span className="part-state">
          <StatusWord look={DELIVERY[part.state]} />
        </span>
        <span className={`part-n ${part.state === 'done' ? 't2' : 'strong'}`}>
          {made === 0
            ? '–'
            : max === undefined
              ? t('part.attempt.n', { n: made })
              : t('part.attempt', { n: made, max })}
        </span>
        {part.state === 'retrying' && delivery ? (
          <>
            <span className="t2 part-at">{t('part.next', { at: clock(delivery.dueAt) })}</span>
            <span className="m-warn c">
              <Countdown to={delivery.dueAt} />
            </span>
          </>
        ) : (
          last && (
            <>
              <span className="t2 part-at">{clock(last.consumedAt ?? last.createdAt, 1)}</span>
              <span className="t2">{last.durationMs != null && took(last.durationMs)}</span>
            </>
          )
        )}
        <span className="part-end">
          <span className="t2 cut">{part.state === 'done' ? note : via}</span>
          {part.state === 'dead' && (
            <Button small kind="quiet" refused={operator} onClick={onDiscard}>
              {t('act.discard')}
            </Button>
          )}
          {part.state !== 'done' && (
            <Button small refused={refused} onClick={onRedrive}>
              {t('redrive.only', { c: part.consumerId })}
            </Button>
          )}
        </span>
      </div>
      {open && <Attempts attempts={[...attempts].reverse()} />}
    </section>
  );
}

/** Older attempts stand behind a button; on a phone more of them do. */
const NEWEST = 5;
const NEWEST_NARROW = 3;

function Attempts({ attempts }: { attempts: Consumption[] }) {
  const [all, setAll] = useState(false);
  const newest = usePhone() ? NEWEST_NARROW : NEWEST;
  const hidden = all ? 0 : Math.max(0, attempts.length - newest);
  const timed = attempts.some((each) => each.durationMs != null);
  const owned = attempts.some((each) => each.owner || byPeople(each));
  if (attempts.length === 0) return <p className="part-none t2">{t('part.none')}</p>;
  return (
    <table className="table attempts">
      <thead>
        <tr>
          <th className="num">#</th>
          <th>{t('col.started')}</th>
          <th>{t('col.outcome')}</th>
          {timed && <th className="num took">{t('col.took')}</th>}
          {owned && <th className="instance">{t('col.instance')}</th>}
          <th>{t('col.error')}</th>
          <th />
        </tr>
      </thead>
      <tbody>
        {attempts.slice(0, attempts.length - hidden).map((attempt, index) => (
          <AttemptRow key={attempt.attemptNo} attempt={attempt} first={index === 0} timed={timed} owned={owned} />
        ))}
        {hidden > 0 && (
          <tr>
            <td colSpan={5 + Number(timed) + Number(owned)}>
              <button type="button" className="link" onClick={() => setAll(true)}>
                {t('part.earlier', { n: hidden })}
              </button>
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

/** The redrive or operation that asked for an attempt. */
function byPeople({ cause }: Consumption): string | null {
  return cause && cause !== 'relay' ? cause : null;
}

type AttemptProps = { attempt: Consumption; first: boolean; timed: boolean; owned: boolean };

function AttemptRow({ attempt, first, timed, owned }: AttemptProps) {
  const error = attempt.errorMessage ?? '';
  const [open, setOpen] = useState(first && error !== '');
  const colon = error.indexOf(':');
  const cause = byPeople(attempt);
  return (
    <>
      <tr className={error ? 'open' : ''} onClick={() => error && setOpen(!open)}>
        <td className="num t2">{attempt.attemptNo}</td>
        <td className="t2">{clock(attempt.startedAt ?? attempt.createdAt, 1)}</td>
        <td>
          {attempt.success ? (
            <StatusWord look={DELIVERY.done} />
          ) : (
            <span className="status m-bad">
              <Icon name="cross" size={14} />
              {attempt.errorCode ?? t('status.FAILED')}
            </span>
          )}
        </td>
        {timed && <td className="num took">{attempt.durationMs != null ? took(attempt.durationMs) : '–'}</td>}
        {owned && (
          <td className="t2 cut instance">
            {attempt.owner}
            {cause && <Cause cause={cause} />}
          </td>
        )}
        <td className="mono cut error">{error}</td>
        <td>
          {error && (
            <button
              type="button"
              className="hit"
              aria-expanded={open}
              aria-label={t('attempt.error', { n: attempt.attemptNo })}
              onClick={(click) => {
                click.stopPropagation();
                setOpen(!open);
              }}
            >
              <Icon name={open ? 'chevronDown' : 'chevronRight'} size={13} />
            </button>
          )}
        </td>
      </tr>
      {open && error && (
        <tr className="attempt-error">
          <td />
          <td colSpan={4 + Number(timed) + Number(owned)}>
            <Code lead={colon > 0 ? error.slice(0, colon) : error} text={colon > 0 ? error.slice(colon) : ''} />
          </td>
        </tr>
      )}
    </>
  );
}

function Cause({ cause }: { cause: string }) {
  if (cause === 'redrive') return <span className="tag m-human">{t('keys.redrive')}</span>;
  return (
    <Link className="tag m-human" to="/operations" search={{ sel: cause } as never}>
      {t('nav.operations')}
    </Link>
  );
}
