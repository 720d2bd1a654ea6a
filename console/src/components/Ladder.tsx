// The tries of one delivery on an even scale: failed, now, the next with a glow, later ones hollow, given up.
import { t } from '../i18n';
import { storeNow } from '../lib/clock';
import { clock } from '../lib/format';

type Props = { attempts: number; max: number; dueAt: string; capSeconds?: number };
/** Where the longest wait is not known, no wait is cut. */
const NO_CAP = Number.POSITIVE_INFINITY;

/** The wait after failure n. */
export function waitAfter(n: number, capSeconds = NO_CAP): number {
  return Math.min(2 ** n, capSeconds);
}

/** When the delivery is given up, if every remaining try fails. */
export function givenUpAt(dueAt: string, attempts: number, max: number, capSeconds = NO_CAP): number {
  let at = Date.parse(dueAt);
  for (let n = attempts + 1; n < max; n += 1) at += waitAfter(n, capSeconds) * 1000;
  return at;
}

export function Ladder({ attempts, max, dueAt, capSeconds = NO_CAP }: Props) {
  const width = 800;
  const step = 700 / Math.max(1, max - 1);
  const x = (n: number) => 28 + (n - 1) * step;
  const wait = waitAfter(attempts, capSeconds) * 1000;
  const share = Math.min(1, Math.max(0, 1 - (Date.parse(dueAt) - storeNow()) / wait));
  const nowX = attempts < 1 ? x(1) - 16 : x(attempts) + (step - 20) * share + 6;
  const end = givenUpAt(dueAt, attempts, max, capSeconds);
  return (
    <svg
      className="ladder"
      viewBox={`0 0 ${width} 66`}
      role="img"
      aria-label={t('ladder.label', { n: attempts, max, at: clock(end) })}
    >
      <line x1={x(1) - 10} x2={nowX} y1={38} y2={38} stroke="var(--warn-mark)" strokeWidth={2} />
      <line x1={nowX} x2={x(max)} y1={38} y2={38} stroke="var(--line2)" strokeWidth={1.5} strokeDasharray="3 3" />
      {Array.from({ length: max - 1 }, (_, index) => (
        <text
          key={index}
          x={(x(index + 1) + x(index + 2)) / 2 - (index + 1 === attempts ? 14 : 0)}
          y={28}
          textAnchor="middle"
          className="ladder-wait"
        >
          {waitAfter(index + 1, capSeconds)} s
        </text>
      ))}
      <line x1={nowX} x2={nowX} y1={17} y2={50} stroke="var(--text)" strokeWidth={1.75} />
      <text x={nowX} y={12} textAnchor="middle" className="ladder-now">
        {t('now')}
      </text>
      {Array.from({ length: max }, (_, index) => index + 1).map((n) => (
        <g key={n} transform={`translate(${x(n)} 38)`}>
          <Try n={n} attempts={attempts} max={max} />
          <text y={24} textAnchor="middle" className={n === attempts + 1 ? 'ladder-next' : 'ladder-n'}>
            {n}
          </text>
        </g>
      ))}
      <text x={x(max) + 16} y={36} className="ladder-n">
        {clock(end)}
      </text>
      <text x={x(max) + 16} y={49} className="ladder-wait">
        {t('given.up')}
      </text>
    </svg>
  );
}

function Try({ n, attempts, max }: { n: number; attempts: number; max: number }) {
  if (n <= attempts) {
    return (
      <g stroke="var(--bad)" strokeWidth={1.5} fill="var(--bad-tint)">
        <circle r={7} />
        <path d="M-2.5-2.5l5 5m0-5l-5 5" />
      </g>
    );
  }
  if (n === attempts + 1) {
    return (
      <g>
        <circle r={11} fill="var(--warn-tint)" />
        <circle r={6} fill="var(--raised)" stroke="var(--warn-mark)" strokeWidth={2} />
      </g>
    );
  }
  if (n === max)
    return <circle r={9} fill="var(--raised)" stroke="var(--bad-mark)" strokeWidth={1.5} strokeDasharray="2 2" />;
  return <circle r={5} fill="var(--raised)" stroke="var(--idle-mark)" strokeWidth={1.3} />;
}
