import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { DryRun, FailureGroup } from '../api/pending';
import { config, consumer } from '../api/queries';
import { Failed, Skeleton } from '../components/Empty';
import { Icon } from '../components/Icon';
import type { Meaning } from '../components/Status';
import { has, type MessageKey, t } from '../i18n';
import { storeNow } from '../lib/clock';
import { clock, duration, number } from '../lib/format';

const TONES: Record<string, Meaning> = { redrive: 'human', succeeded: 'ok' };

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

function ruleName(rule: string): string {
  return has(`rule.${rule}`) ? t(`rule.${rule}` as MessageKey) : rule;
}

type Props = { result?: DryRun; error: unknown; consumerId?: string; group?: FailureGroup };

export function CheckStep({ result, error, consumerId, group }: Props) {
  const about = useQuery({ ...consumer(consumerId ?? ''), enabled: !!consumerId }).data;
  const days =
    useQuery({ ...config, retry: false }).data?.find((each) => each.key === 'retention.inbox-days')?.value ?? '14';
  if (error && !result) return <Failed error={error} what={t('check.failed')} />;
  if (!result) return <Skeleton />;
  const split = result.split ?? [{ rule: 'redrive', count: result.matching }];
  const going = split.find((each) => each.rule === 'redrive')?.count ?? 0;
  const recent = about?.minutes?.slice(-12) ?? [];
  const tried = recent.filter((each) => each.delivered + each.failed > 0);
  const well = tried.length === 0 || tried.some((each) => each.delivered > each.failed);
  return (
    <>
      <p className="wizard-total">
        <b>{number(going)}</b> {t('check.of', { m: `${result.exact ? '' : '≥ '}${number(result.matching)}` })}
      </p>
      <div className="bar-line thick">
        {split.map((each) => (
          <i
            key={each.rule}
            className={`m-${TONES[each.rule] ?? 'idle'}`}
            style={{ width: `${(each.count / Math.max(1, result.matching)) * 100}%` }}
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
      <ul className="findings">
        {consumerId && (
          <Finding
            good={well}
            title={well ? t('check.well', { c: consumerId }) : t('check.unwell', { c: consumerId, n: tried.length })}
            text={about?.lastSuccessAt ? t('check.last', { at: clock(about.lastSuccessAt) }) : undefined}
            act={
              <Link className="btn small" to="/consumers" search={{ sel: consumerId } as never}>
                {t('check.see', { c: consumerId })}
              </Link>
            }
          />
        )}
        <Finding
          good
          title={t('check.harmless')}
          text={
            consumerId
              ? t('check.harmless.text', {
                  c: consumerId,
                  d: days,
                  age: group ? duration((storeNow() - Date.parse(group.first)) / 1000) : '–',
                })
              : t('check.harmless.all', { d: days })
          }
        />
        <Finding good title={t('check.fixed')} text={t('check.fixed.text')} />
        {(group?.held ?? 0) > 0 && (
          <Finding good title={t('check.held', { n: number(group?.held ?? 0) })} text={t('check.held.text')} />
        )}
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
