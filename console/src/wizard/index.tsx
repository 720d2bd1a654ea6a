// Redrive, the same everywhere: What → How → Check → Reason, ending in an operation.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { dryRun, startOperation } from '../api/actions';
import { ApiError, type Query } from '../api/client';
import type { NewOperation } from '../api/pending';
import { Button } from '../components/Button';
import { Cli } from '../components/Copy';
import { Modal } from '../components/Dialog';
import { Icon } from '../components/Icon';
import { toast } from '../components/Toasts';
import { t } from '../i18n';
import { number } from '../lib/format';
import { newIdempotencyKey } from '../lib/key';
import { isProduction, useSession } from '../shell/session';
import { CheckStep } from './CheckStep';
import { HowStep } from './HowStep';
import { bodyOf, cliOf, failedConsumers, type Plan, type What } from './plan';
import './wizard.css';

export type { What };

const STEPS = ['what', 'how', 'check', 'reason'] as const;
type Step = (typeof STEPS)[number];
/** Above this many events, production asks for its name. */
const MANY = 1_000;

function titleOf(what: What): string {
  const [group] = what.groups ?? [];
  if (group && what.groups!.length === 1)
    return [group.consumerId, group.errorCode, group.fingerprint.split(':')[0]].filter(Boolean).join(' · ');
  if (what.groups)
    return what.groups.map((each) => [each.consumerId, each.errorCode].filter(Boolean).join(' ')).join(' · ');
  if (what.eventIds) return what.eventIds.slice(0, 3).join(', ') + (what.eventIds.length > 3 ? ' …' : '');
  return (
    Object.entries(what.filter ?? {})
      .map(([name, value]) => `${name} ${value}`)
      .join(' · ') || t('wizard.everything')
  );
}

export function RedriveWizard({ what, onClose }: { what: What; onClose: () => void }) {
  const [step, setStep] = useState<Step>('how');
  const [plan, setPlan] = useState<Plan>({
    onlyFailed: true,
    speed: 'ramp',
    rate: 50,
    ramp: [1, 10, 100],
    stopAbove: 5,
    gateSeconds: 60,
    keepOrder: true,
  });
  const [reason, setReason] = useState('');
  const [word, setWord] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const navigate = useNavigate();
  const client = useQueryClient();
  const environment = useSession()?.environment.name;
  const body = bodyOf(what, plan);
  const counted = useQuery({
    queryKey: ['dry-run', body],
    queryFn: () => dryRun(body),
    staleTime: 10_000,
    placeholderData: (old) => old,
  });
  const open = what.groups?.reduce((sum, each) => sum + each.count, 0);
  const total = counted.data?.matching ?? open ?? what.eventIds?.length ?? null;
  const typed = isProduction(environment) && (total ?? 0) > MANY ? environment : undefined;
  const index = STEPS.indexOf(step);
  const ready = reason.trim() !== '' && (!typed || word === typed);

  const full: NewOperation = { ...body, reason: reason.trim() };
  const text = JSON.stringify(full);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a changed plan is another operation and needs another key
  const key = useMemo(newIdempotencyKey, [text]);

  async function start() {
    if (!ready || busy) return;
    setBusy(true);
    setProblem(null);
    try {
      const { operationId } = await startOperation(full, key);
      await client.invalidateQueries({ queryKey: ['operations'] });
      onClose();
      toast({ icon: 'repeat', title: t('wizard.begun'), text: t('wizard.begun.text', { n: number(total ?? 0) }) });
      await navigate({ to: '/operations', search: { sel: operationId } as never });
    } catch (error) {
      setProblem(error instanceof ApiError ? `${error.detail || error.title} (${error.code})` : String(error));
      setBusy(false);
    }
  }

  const heading = t('wizard.title', { n: total === null ? '…' : number(total) });
  return (
    <Modal label={heading} className="dialog wide wizard" onClose={onClose}>
      <header>
        <div className="grow">
          <h2>{heading}</h2>
          <p className="meta cut">{titleOf(what)}</p>
        </div>
        <ol className="steps">
          {STEPS.map((name, at) => (
            <li key={name}>
              <button
                type="button"
                disabled={at >= index}
                className={at < index ? 'past' : at === index ? 'now' : ''}
                aria-current={at === index ? 'step' : undefined}
                onClick={() => setStep(name)}
              >
                <i>{at < index ? <Icon name="tick" size={12} /> : at + 1}</i>
                {t(`wizard.${name}`)}
              </button>
            </li>
          ))}
        </ol>
      </header>
      <div className="wizard-body">
        {step === 'what' && <WhatStep what={what} total={total} />}
        {step === 'how' && (
          <HowStep
            plan={plan}
            total={total ?? 0}
            consumers={failedConsumers(what)}
            had={counted.data?.alreadySucceeded?.length ?? 0}
            planned={counted.data?.steps}
            onChange={setPlan}
          />
        )}
        {step === 'check' && (
          <CheckStep
            result={counted.data}
            error={counted.error}
            consumers={plan.onlyFailed ? failedConsumers(what) : []}
            groups={what.groups ?? []}
          />
        )}
        {step === 'reason' && (
          <div className="wizard-reason">
            <label className="field">
              <span>{t('reason')}</span>
              <input
                autoFocus
                className="input"
                value={reason}
                onChange={(event) => setReason(event.target.value)}
                placeholder={t('wizard.reason.hint')}
              />
            </label>
            {typed && (
              <label className="field">
                <span>{t('dialog.type', { word: typed })}</span>
                <input
                  className="input"
                  autoComplete="off"
                  value={word}
                  onChange={(event) => setWord(event.target.value)}
                />
              </label>
            )}
            <p className="meta">{t('wizard.reason.text')}</p>
            {problem && (
              <p role="alert" className="m-bad c">
                {problem}
              </p>
            )}
          </div>
        )}
      </div>
      <footer>
        <Cli line={cliOf(what, plan, reason)} />
        <div className="row">
          <Button onClick={() => (index === 0 ? onClose() : setStep(STEPS[index - 1]!))}>
            {index === 0 ? t('cancel') : t('back')}
          </Button>
          {step === 'reason' ? (
            <Button kind="primary" icon="repeat" disabled={!ready} busy={busy} onClick={() => void start()}>
              {t('wizard.start')}
            </Button>
          ) : (
            <Button kind="primary" onClick={() => setStep(STEPS[index + 1]!)}>
              {step === 'what' ? t('wizard.how') : step === 'how' ? t('wizard.check') : t('wizard.to.reason')}
              <Icon name="arrowRight" size={14} />
            </Button>
          )}
        </div>
      </footer>
    </Modal>
  );
}

function WhatStep({ what, total }: { what: What; total: number | null }) {
  return (
    <div className="wizard-reason">
      <p className="wizard-total">
        <b>{total === null ? '…' : number(total)}</b> {t('wizard.events')}
      </p>
      {what.groups ? (
        <ul className="wizard-groups">
          {what.groups.map((each) => (
            <li key={`${each.consumerId} ${each.fingerprint}`}>
              <b>{[each.consumerId, each.errorCode].filter(Boolean).join(' · ')}</b>
              <span className="meta">
                {t('wizard.group.split', { r: number(each.count - each.dead), d: number(each.dead) })}
              </span>
            </li>
          ))}
        </ul>
      ) : (
        <p className="wrap">{titleOf(what)}</p>
      )}
      <p className="meta">{t('check.fixed.text')}</p>
    </div>
  );
}

export type { Query };
