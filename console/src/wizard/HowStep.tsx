import type { OperationStep } from '../api/pending';
import { Segments } from '../components/Controls';
import { planSteps, Ramp } from '../components/Ramp';
import { t, tx } from '../i18n';
import { duration, number } from '../lib/format';
import type { Plan } from './plan';

type Props = {
  plan: Plan;
  total: number;
  /** The consumers that failed, as far as they are known. */
  consumers: string[];
  /** How many other consumers have had these events. */
  had: number;
  /** The steps as the dry run tells them. */
  planned?: OperationStep[];
  onChange: (plan: Plan) => void;
};

function Choice(props: { checked: boolean; title: string; text: string; onPick: () => void }) {
  return (
    <label className={`choice ${props.checked ? 'picked' : ''}`}>
      <input type="radio" name="whom" checked={props.checked} onChange={props.onPick} />
      <span>
        <b>{props.title}</b>
        <small>{props.text}</small>
      </span>
    </label>
  );
}

export function HowStep({ plan, total, consumers, had, planned, onChange }: Props) {
  const steps = planned ?? planSteps(plan.ramp, total);
  const rest = steps.at(-1);
  const seconds = rest?.ratePerSecond ? Math.ceil(rest.size / rest.ratePerSecond) : null;
  const below = (index: number) =>
    index === 0
      ? t('ramp.first')
      : index === steps.length - 1
        ? seconds === null
          ? t('ramp.rest.plain')
          : t('ramp.rest', { t: duration(seconds) })
        : t('ramp.then');
  const tiny = (value: number, label: string, range: [number, number], set: (value: number) => void) => (
    <input
      className="input tiny"
      type="number"
      min={range[0]}
      max={range[1]}
      value={value}
      aria-label={label}
      onChange={(event) => set(Math.min(range[1], Math.max(range[0], Math.trunc(Number(event.target.value)))))}
    />
  );
  return (
    <>
      <p className="label">{t('how.whom')}</p>
      <div className="choices">
        <Choice
          checked={plan.onlyFailed}
          title={consumers.length === 1 ? t('how.only', { c: consumers[0]! }) : t('how.only.failed')}
          text={
            consumers.length > 1 ? consumers.join(', ') : had > 0 ? t('how.only.had', { n: had }) : t('how.only.text')
          }
          onPick={() => onChange({ ...plan, onlyFailed: true })}
        />
        <Choice
          checked={!plan.onlyFailed}
          title={t('how.every')}
          text={t('how.every.text', { n: number(total) })}
          onPick={() => onChange({ ...plan, onlyFailed: false })}
        />
      </div>
      <div className="between how-fast">
        <p className="label">{t('how.fast')}</p>
        <Segments
          label={t('how.fast')}
          value={plan.speed}
          onChange={(speed) => onChange({ ...plan, speed })}
          options={[
            { value: 'all' as const, label: t('how.all') },
            { value: 'rate' as const, label: t('how.rate') },
            { value: 'ramp' as const, label: t('how.ramp') },
          ]}
        />
      </div>
      {plan.speed === 'ramp' && (
        <div className="ramp-box">
          <Ramp steps={steps} limit={plan.stopAbove} below={(_, index) => below(index)} />
          <p className="ramp-gates">
            <i className="gate-mark" aria-hidden />
            {tx('how.gate', {
              p: tiny(plan.stopAbove, t('how.gate.percent'), [0, 100], (stopAbove) => onChange({ ...plan, stopAbove })),
              s: tiny(plan.gateSeconds, t('how.gate.seconds'), [1, 86_400], (gateSeconds) =>
                onChange({ ...plan, gateSeconds }),
              ),
            })}
          </p>
        </div>
      )}
      {plan.speed === 'rate' && (
        <div className="ramp-box">
          <p className="ramp-gates plain">
            {tx('how.rate.text', {
              n: tiny(plan.rate, t('how.rate'), [1, 100_000], (rate) => onChange({ ...plan, rate })),
              t: duration(Math.ceil(total / Math.max(1, plan.rate))),
            })}
          </p>
        </div>
      )}
      {plan.speed === 'all' && <p className="ramp-box t2">{t('how.all.text')}</p>}
      <label className="check">
        <input
          type="checkbox"
          checked={plan.keepOrder}
          onChange={() => onChange({ ...plan, keepOrder: !plan.keepOrder })}
        />
        {t('how.order')} <span className="meta">{t('how.order.text')}</span>
      </label>
    </>
  );
}
