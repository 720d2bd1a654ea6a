import type { Meaning } from './Status';

type Props = { values: number[]; meaning: Meaning; width?: number; height?: number; plain?: boolean; dot?: boolean };

/** A line with a pale area and a dot at its end. The figure beside it says the same in words. */
export function Sparkline({ values, meaning, width = 84, height = 30, plain, dot = !plain }: Props) {
  if (values.length < 2) return <svg width={width} height={height} aria-hidden />;
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  const x = (index: number) => 1 + (index / (values.length - 1)) * (width - 5);
  const y = (value: number) => 3 + (1 - (value - low) / span) * (height - 9);
  const line = values
    .map((value, index) => `${index ? 'L' : 'M'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`)
    .join('');
  const last = values.length - 1;
  return (
    <svg width={width} height={height} className={`m-${meaning}`} aria-hidden>
      {!plain && <path d={`${line}L${x(last)} ${height}L1 ${height}Z`} fill="var(--tint)" />}
      <path d={line} fill="none" stroke="var(--mark)" strokeWidth={1.3} strokeLinejoin="round" />
      {dot && <circle cx={x(last)} cy={y(values[last]!)} r={2} fill="var(--mark)" />}
    </svg>
  );
}

/** Small bars on a dotted line, for counts by hour. */
export function HourBars({
  values,
  label,
  width = 104,
  height = 26,
}: {
  values: number[];
  label: string;
  width?: number;
  height?: number;
}) {
  const top = Math.max(1, ...values);
  const step = width / Math.max(1, values.length);
  return (
    <svg width={width} height={height} role="img" aria-label={label} className="m-bad">
      <line x1={0} x2={width} y1={height - 0.5} y2={height - 0.5} stroke="var(--line2)" strokeDasharray="2 2" />
      {values.map((value, index) => {
        const size = value ? Math.max(3, (value / top) * (height - 1)) : 0;
        return (
          <rect
            key={index}
            x={index * step + 0.5}
            y={height - size}
            width={step - 1.2}
            height={size}
            fill="var(--mark)"
          />
        );
      })}
    </svg>
  );
}
