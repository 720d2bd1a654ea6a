// Stairs 1 · 10 · 100 · rest with a gate between. The wizard and the operation draw the same picture.
import type { OperationStep } from '../api/pending';
import { t } from '../i18n';
import { number } from '../lib/format';

type Props = { steps: OperationStep[]; limit?: number; below: (step: OperationStep, index: number) => string };

/** The steps of a ramp over `total` events. How fast each goes is for the server to say. */
export function planSteps(ramp: number[], total: number): OperationStep[] {
  const steps: OperationStep[] = [];
  let left = total;
  for (const size of [...ramp, Number.POSITIVE_INFINITY]) {
    const count = Math.min(size, left);
    if (count <= 0) break;
    steps.push({
      size: count,
      ratePerSecond: null,
      state: 'todo',
      done: 0,
      delivered: 0,
      failedAgain: 0,
    });
    left -= count;
  }
  return steps;
}

const WIDTHS = [54, 84, 118];
const HEIGHTS = [27, 49, 75];
/** The width of the picture, and of a gate between two stairs. */
const WIDTH = 700;
const GAP = 26;
/** A stair of this height has room for its size, not for its rate. */
const LOW = 40;

export function Ramp({ steps, limit, below }: Props) {
  const gap = GAP;
  // Steps that were taken again make more stairs: then all have the same width.
  const even = (WIDTH + gap) / Math.max(1, steps.length) - gap;
  const isEven = steps.length > WIDTHS.length + 1;
  let x = 1;
  const boxes = steps.map((step, index) => {
    const last = index === steps.length - 1 && index > 0;
    const width = isEven ? even : last ? WIDTH - x : (WIDTHS[index] ?? 118);
    const height = last ? 110 : (HEIGHTS[index] ?? 90);
    const box = { step, x, width, height };
    x += width + gap;
    return box;
  });
  return (
    <svg
      className="ramp"
      viewBox="0 0 702 136"
      role="img"
      aria-label={steps.map((step, index) => `${number(step.size)}: ${below(step, index)}`).join('; ')}
    >
      {boxes.map(({ step, x: left, width, height }, index) => {
        const meaning = { todo: 'idle', passed: 'ok', running: 'human', stopped: 'bad' }[step.state];
        const y = 112 - height;
        const share = step.state === 'running' ? step.done / step.size : 0;
        return (
          <g key={index} className={`m-${meaning}`}>
            <rect
              x={left}
              y={y}
              width={width}
              height={height}
              rx={4}
              fill={step.state === 'running' ? 'var(--idle-tint)' : 'var(--tint)'}
            />
            {share > 0 && (
              <rect
                x={left}
                y={y}
                width={width * share}
                height={height}
                rx={4}
                fill="var(--tint)"
                stroke="var(--mark)"
              />
            )}
            <rect
              x={left}
              y={y}
              width={width}
              height={height}
              rx={4}
              fill="none"
              stroke={step.state === 'todo' ? 'var(--line2)' : 'var(--mark)'}
              strokeWidth={1.3}
            />
            <text
              x={left + width / 2}
              y={y + height / 2 + (step.ratePerSecond && height > LOW ? -1 : 5)}
              textAnchor="middle"
              className="ramp-size"
            >
              {number(step.size)}
            </text>
            {step.ratePerSecond && height > LOW && (
              <text x={left + width / 2} y={y + height / 2 + 14} textAnchor="middle" className="ramp-rate">
                {step.ratePerSecond}/s
              </text>
            )}
            <text x={left + width / 2} y={128} textAnchor="middle" className="ramp-rate">
              {below(step, index)}
            </text>
            {index < boxes.length - 1 && <Gate x={left + width + gap / 2} state={step.state} limit={limit} />}
          </g>
        );
      })}
    </svg>
  );
}

function Gate({ x, state, limit }: { x: number; state: OperationStep['state']; limit?: number }) {
  const passed = state === 'passed';
  const stopped = state === 'stopped';
  const color = passed ? 'var(--ok-mark)' : stopped ? 'var(--bad-mark)' : 'var(--idle-mark)';
  const fill = passed ? 'var(--ok-tint)' : stopped ? 'var(--bad-tint)' : 'var(--raised)';
  return (
    <g transform={`translate(${x} 98)`}>
      <path d="M0-10L10 0L0 10L-10 0Z" fill={fill} stroke={color} strokeWidth={1.3} />
      {passed && <path d="M-3.5 0l2.5 2.5l4.5-4.5" fill="none" stroke={color} strokeWidth={1.5} />}
      {stopped && <path d="M-3-3l6 6m0-6l-6 6" stroke={color} strokeWidth={1.5} />}
      {!passed && !stopped && limit !== undefined && (
        <text y={3.5} textAnchor="middle" className="ramp-gate">
          {limit}%
        </text>
      )}
      <title>{passed ? t('gate.open') : stopped ? t('gate.closed') : t('gate.limit', { n: limit ?? '–' })}</title>
    </g>
  );
}
