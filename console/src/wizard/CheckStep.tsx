import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { DryRun, FailureGroup } from '../api/pending';
import { consumer } from '../api/queries';
import { Failed, Skeleton } from '../components/Empty';
import { Icon } from '../components/Icon';
import type { Meaning } from '../components/Status';
import { has, type MessageKey, t } from '../i18n';
import { storeNow } from '../lib/clock';
import { brief, clock, number } from '../lib/format';
import { useLimits } from '../shell/session';

const TONES: Record<string, Meaning> = { redrive: 'human', consumed: 'ok' };

function Finding(props: { good: boolean; title: string; text?: string; act?: ReactNode }) {
  return (
    <li className={props.good ? 'm-ok' : 'm-warn'}>
      <span className="c">
        <Icon name={props.good ? 'check' : 'alert'} />
      </span>
      <div className="grow">
        <b>{props.title}</b>
        {props.text && <p>{props.text}</p>}
      </div>
      {props.act}
    </li>
  );
}

/** Whether the consumer has taken anything lately. */
function ConsumerFinding({ id }: { id: string }) {
  const about = useQuery(consumer(id)).data;
  const tried = (about?.minutes?.slice(-12) ?? []).filter((each) => each.delivered + each.failed > 0);
  const well = tried.length === 0 || tried.some((each) => each.delivered > each.failed);
  return (
    <Finding
      good={well}
      title={well ? t('check.well', { c: id }) : t('check.unwell', { c: id, n: tried.length })}
      text={
        about?.lastSuccessAt ? t(well ? 'panel.last' : 'check.last', { at: clock(about.lastSuccessAt) }) : undefined
      }
      act={
        <Link className="btn small" to="/consumers" search={{ sel: id } as never}>
          {t('check.see', { c: id })}
        </Link>
      }
    />
  );
}

function HeldFinding({ n, consumers }: { n: number; consumers: string[] }) {
  const keys = useQuery({ ...consumer(consumers[0] ?? ''), enabled: consumers.length === 1 }).data?.heldKeys;
  return (
    <Finding
      good
      title={t('check.held', { n: number(n) })}
      text={
        keys?.length
          ? t('check.held.keys', {
              keys: keys
                .slice(0, 5)
                .map((each) => each.key)
                .join(', '),
            })
          : t('check.held.text')
      }
    />
  );
}

function ruleName(rule: string): string {
  return has(`rule.${rule}`) ? t(`rule.${rule}` as MessageKey) : rule;
}

type Props = { result?: DryRun; error: unknown; consumers: string[]; groups: FailureGroup[] };

/** How many consumers are looked at one by one. */
const SHOWN = 4;

export function CheckStep({ result, error, consumers, groups }: Props) {
  const days = useLimits().inboxDays;
  if (error && !result) return <Failed error={error} what={t('check.failed')} />;
  if (!result) return <Skeleton />;
  const { split } = result;
  const going = split.find((each) => each.rule === 'redrive')?.count ?? 0;
  const held = groups.reduce((sum, each) => sum + (each.held ?? 0), 0);
  const first = groups.map((each) => each.first).sort()[0];
  const harmless =
    days === undefined
      ? t('check.harmless.some')
      : consumers.length === 1 && first
        ? t('check.harmless.text', { c: consumers[0]!, d: days, age: brief((storeNow() - Date.parse(first)) / 1000) })
        : t('check.harmless.all', { d: days });
  return (
    <>
      <p className="wizard-total">
        <b>{number(going)}</b> {t('check.of', { m: `${result.exact ? '' : '≈ '}${number(result.matching)}` })}
      </p>
      <div className="bar-line thick">
        {split.map((each) => (
          <i
            key={each.rule}
            className={`m-${TONES[each.rule] ?? 'idle'}`}
            style={{ width: `${(each.count / Math.max(1, result.lookedAt)) * 100}%` }}
          />
        ))}
      </div>
      <p className="legend-line">
        {split.map((each) => (
          <span key={each.rule} className={`m-${TONES[each.rule] ?? 'idle'}`}>
            <i /> {number(each.count)} {ruleName(each.rule)}
          </span>
        ))}
      </p>
      {!result.exact && <p className="meta">{t('check.looked', { n: number(result.lookedAt) })}</p>}
      <ul className="findings">
        {consumers.slice(0, SHOWN).map((id) => (
          <ConsumerFinding key={id} id={id} />
        ))}
        <Finding good title={t('check.harmless')} text={harmless} />
        <Finding good title={t('check.fixed')} text={t('check.fixed.text')} />
        {held > 0 && <HeldFinding n={held} consumers={consumers} />}
        {(result.alreadySucceeded?.length ?? 0) > 0 && (
          <Finding
            good
            title={t('check.already')}
            text={result.alreadySucceeded?.map((each) => `${each.consumerId} ${number(each.count)}`).join(' · ')}
          />
        )}
      </ul>
      {(result.samples?.length ?? 0) > 0 && (
        <>
          <p className="label">{t('check.samples', { n: result.samples?.length ?? 0 })}</p>
          <p className="samples">
            {result.samples?.map((id) => (
              <Link key={id} to="/events/$id" params={{ id } as never} className="tag mono">
                {id}
              </Link>
            ))}
          </p>
        </>
      )}
    </>
  );
}
