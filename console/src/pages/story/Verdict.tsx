// The answer first: what is open, and the counts.
import { Icon } from '../../components/Icon';
import { Countdown } from '../../components/Time';
import { t, tx } from '../../i18n';
import { useNow } from '../../lib/clock';
import { number } from '../../lib/format';
import type { Open } from './balance';

export function Verdict({
  open,
  counts,
}: {
  open: Open[];
  counts: readonly (readonly ['events' | 'effects' | 'attempts' | 'stopped' | 'twice', number])[];
}) {
  const first = open[0];
  const now = useNow();
  const due = !!first?.effect.dueAt && Date.parse(first.effect.dueAt) <= now;
  const dead = open.some((each) => each.effect.state === 'dead');
  const twice = counts.find(([name]) => name === 'twice')?.[1] ?? 0;
  const meaning = twice > 0 || dead ? 'bad' : first ? 'warn' : 'ok';
  return (
    <section className={`card edge verdict m-${meaning}`}>
      <span className="status">
        <Icon name={first ? (dead ? 'dead' : 'retry') : 'check'} size={18} />
      </span>
      <div className="grow">
        <h2>
          {first
            ? t(first.event.compensation ? 'verdict.undo' : 'verdict.open', {
                c: [...new Set(open.map((each) => each.effect.consumerId))].join(', '),
                topic: first.event.topic,
              })
            : t('verdict.done')}
        </h2>
        <p className="t2 quoting">
          {first
            ? tx(
                first.effect.dueAt
                  ? due
                    ? 'verdict.due.text'
                    : 'verdict.open.text'
                  : dead
                    ? 'verdict.dead.text'
                    : 'verdict.wait.text',
                {
                  c: first.effect.consumerId,
                  effect: first.effect.effect ?? first.event.topic,
                  t: first.effect.dueAt ? (
                    <span className="m-warn c">
                      <Countdown to={first.effect.dueAt} />
                    </span>
                  ) : (
                    ''
                  ),
                },
              )
            : t('verdict.done.text')}{' '}
          {first && twice === 0 && t('verdict.rest')}
        </p>
      </div>
      {counts.map(([name, value]) => (
        <div key={name} className="verdict-figure">
          <b className={name === 'twice' ? (value === 0 ? 'm-ok c' : 'm-bad c') : ''}>{number(value)}</b>
          <small>{t(`story.${name}`)}</small>
        </div>
      ))}
    </section>
  );
}
