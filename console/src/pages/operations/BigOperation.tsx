// One operation large, with its stairs. The picture is the one of the wizard, filled as it goes.
import { useQuery } from '@tanstack/react-query';
import type { Operation, OperationStep } from '../../api/pending';
import { failures } from '../../api/queries';
import { Button } from '../../components/Button';
import { Cli } from '../../components/Copy';
import { Icon } from '../../components/Icon';
import { Ramp } from '../../components/Ramp';
import { Sparkline } from '../../components/Sparkline';
import { t, tx } from '../../i18n';
import { useNow } from '../../lib/clock';
import { clock, duration, number } from '../../lib/format';
import { useRefusal } from '../../shell/session';
import { cliOf, nameOf, stateOf, whatOf } from './operation';

type Props = { operation: Operation; onAct: (verb: 'pause' | 'resume' | 'cancel') => void };

function below(step: OperationStep): string {
  if (step.state === 'todo') return t('ramp.todo');
  if (step.state === 'running') {
    const left = step.ratePerSecond ? (step.size - step.done) / step.ratePerSecond : null;
    return [
      t('ramp.running', { n: number(step.done), m: number(step.size) }),
      step.ratePerSecond && `${step.ratePerSecond}/s`,
      left !== null && t('ramp.left', { t: duration(left) }),
    ]
      .filter(Boolean)
      .join(' · ');
  }
  if (step.state === 'stopped') return t('ramp.stopped', { n: number(step.failedAgain), m: number(step.done) });
  return t('ramp.well', { n: number(step.delivered), m: number(step.size) });
}

export function BigOperation({ operation, onAct }: Props) {
  const operator = useRefusal('operator');
  const groups = useQuery(failures).data?.groups ?? [];
  const now = useNow();
  const state = stateOf(operation);
  const total = operation.total ?? operation.done;
  const live = operation.state === 'RUNNING' || operation.state === 'PAUSED';
  const limit = operation.stopAbovePercent;
  const { steps } = operation;
  const gates = steps.filter((step) => step.state === 'passed' || step.state === 'stopped');
  const gate = gates.at(-1);
  const results = gate ? gate.delivered + gate.failedAgain : 0;
  const share = gate && results > 0 ? (gate.failedAgain / results) * 100 : 0;
  const rows = [
    ['delivered', 'ok', operation.delivered] as const,
    ['again', 'bad', operation.failedAgain] as const,
    ['open', 'info', operation.open] as const,
    ['skipped', 'idle', operation.skipped] as const,
    ['refused', 'idle', operation.failed] as const,
  ];
  const width = (value: number) => `${(value / Math.max(1, total)) * 100}%`;
  const end = operation.finishedAt ? Date.parse(operation.finishedAt) : now;
  return (
    <section className="card big">
      <header>
        <span className={`pill m-${state.meaning}`}>
          <Icon name={state.icon} size={14} />
          {t(state.word)}
        </span>
        <h2>
          {nameOf(operation)} {t('keys.redrive')} {whatOf(operation, groups)}
        </h2>
        {operation.reason && <span className="t2 cut">“{operation.reason}”</span>}
        <span className="meta nowrap">
          {operation.requestedBy} · {clock(operation.createdAt)}
        </span>
        <span className="grow" />
        {operation.state === 'RUNNING' && (
          <Button icon="pause" refused={operator} onClick={() => onAct('pause')}>
            {t('act.pause')}
          </Button>
        )}
        {operation.state === 'PAUSED' && (
          <Button icon="play" refused={operator} onClick={() => onAct('resume')}>
            {t('act.resume')}
          </Button>
        )}
        {live && (
          <Button kind="danger" refused={operator} onClick={() => onAct('cancel')}>
            {t('act.cancel')}
          </Button>
        )}
      </header>
      <div className="big-body">
        <div className="big-ramp">
          {steps.length > 0 ? (
            <Ramp steps={steps} limit={limit ?? undefined} below={below} />
          ) : (
            <div className="bar-line thick">
              <i className="m-human" style={{ width: width(operation.done) }} />
            </div>
          )}
          <div className="big-gate">
            {operation.stoppedBecause ? (
              <span className="status m-part">
                <Icon name="cross" size={14} />
                {t('op.stopped.text', { why: operation.stoppedBecause, limit: limit ?? '–' })}
              </span>
            ) : gate ? (
              <span className="row">
                <span className="status m-ok">
                  <Icon name="check" size={14} />
                </span>
                <span className="t2">
                  {tx('op.gate', {
                    n: gates.length,
                    at: gate.endedAt ? clock(gate.endedAt) : '–',
                    p: <b>{share.toFixed(1)} %</b>,
                    limit: limit ?? '–',
                  })}
                </span>
              </span>
            ) : (
              <span className="t2">{steps.length > 0 ? t('op.nogate') : t('op.one.step')}</span>
            )}
            <span className="t2 nowrap">{duration((end - Date.parse(operation.createdAt)) / 1000)}</span>
          </div>
        </div>
        <div className="big-figures">
          <p>
            <b className="big-done">{number(operation.done)}</b>{' '}
            <span className="t2">
              {t('op.of', { m: number(total), p: Math.round((operation.done / Math.max(1, total)) * 100) })}
            </span>
          </p>
          <div className="bar-line">
            {rows.map(([name, meaning, value]) => (
              <i key={name} className={value > 0 ? `m-${meaning} some` : ''} style={{ width: width(value) }} />
            ))}
          </div>
          {rows.map(([name, meaning, value]) => (
            <div key={name} className={`between m-${meaning}`}>
              <span className="row t2">
                <i className="square" />
                {t(`op.row.${name}`)}
              </span>
              <span className={name === 'again' && value > 0 ? 'm-bad c strong' : ''}>{number(value)}</span>
            </div>
          ))}
          {operation.rates && operation.rates.length > 1 && (
            <div className="row t2">
              {t('op.rate')} <Sparkline values={operation.rates} meaning="human" width={170} height={26} />
              <b>{operation.rates.at(-1)}</b>
            </div>
          )}
        </div>
      </div>
      <footer>
        <Cli line={cliOf(operation)} />
      </footer>
    </section>
  );
}
