// Redrive, the same everywhere: What → How → Check → Reason, ending in an operation.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { dryRun, startOperation } from '../api/actions';
import { ApiError, type Query } from '../api/client';
import type { FailureGroup, NewOperation } from '../api/pending';
import { Button } from '../components/Button';
import { Cli } from '../components/Copy';
import { Modal } from '../components/Dialog';
import { Icon } from '../components/Icon';
import { toast } from '../components/Toasts';
import { t } from '../i18n';
import { number } from '../lib/format';
import { isProduction, useSession } from '../shell/session';
import { CheckStep } from './CheckStep';
import { HowStep } from './HowStep';
import { bodyOf, cliOf, type Plan, type What } from './plan';
import './wizard.css';

export type { What };

const STEPS = ['what', 'how', 'check', 'reason'] as const;
type Step = (typeof STEPS)[number];
/** Above this many events, production asks for its name. */
const MANY = 1_000;

function titleOf(what: What): string {
  if (what.group)
    return [what.group.consumerId, what.group.errorCode, what.group.fingerprint.split(':')[0]]
      .filter(Boolean)
      .join(' · ');
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
  const total = counted.data?.matching ?? what.group?.count ?? what.eventIds?.length ?? null;
  const typed = isProduction(environment) && (total ?? 0) > MANY ? environment : undefined;
  const index = STEPS.indexOf(step);
  const ready = reason.trim() !== '' && (!typed || word === typed);

  async function start() {
    if (!ready || busy) return;
    setBusy(true);
    try {
      const full: NewOperation = { ...body, reason: reason.trim() };
      const { operationId } = await startOperation(full);
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
        {step === 'what' && <WhatStep what={what} total={total} group={what.group} />}
        {step === 'how' && (
          <HowStep
            plan={plan}
            total={total ?? 0}
            consumerId={body.consumerId ?? what.group?.consumerId ?? (what.filter?.consumerId as string | undefined)}
            onChange={setPlan}
          />
        )}
        {step === 'check' && (
          <CheckStep result={counted.data} error={counted.error} consumerId={body.consumerId} group={what.group} />
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

function WhatStep({ what, total, group }: { what: What; total: number | null; group?: FailureGroup }) {
  return (
    <div className="wizard-reason">
      <p className="wizard-total">
        <b>{total === null ? '…' : number(total)}</b> {t('wizard.events')}
      </p>
      <p>{titleOf(what)}</p>
      {group && (
        <p className="meta">
          {t('wizard.group.split', { r: number(group.count - group.dead), d: number(group.dead) })}
        </p>
      )}
      <p className="meta">{t('check.fixed.text')}</p>
    </div>
  );
}

export type { Query };
