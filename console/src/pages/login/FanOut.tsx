import { t } from '../../i18n';

const LANES = ['billing', 'stock', 'loyalty', 'shipping', 'mail-service', 'search-index'];
const DOTS = [
  [388, 436, 485],
  [414, 462, 511],
  [387, 440, 488],
  [412, 464, 512],
  [389, 438, 490],
  [414, 463, 516],
];

/** One commit and six consumers. Decoration only. */
export function FanOut() {
  return (
    <svg className="fan" viewBox="0 0 700 500" aria-hidden>
      {LANES.map((name, index) => {
        const y = 30 + index * 80;
        const retry = name === 'loyalty';
        return (
          <g key={name}>
            <path d={`M110 230 C 260 230 230 ${y} 370 ${y} H 522`} fill="none" stroke="var(--line2)" />
            {DOTS[index]!.map((x, dot) => (
              <circle
                key={x}
                cx={x}
                cy={y}
                r={3}
                fill={retry && dot === 2 ? 'var(--warn-mark)' : 'var(--ok-mark)'}
                opacity={dot === index % 3 ? 1 : 0.6}
              />
            ))}
            <circle
              cx={531}
              cy={y}
              r={9}
              fill="var(--raised)"
              stroke={retry ? 'var(--warn-mark)' : 'var(--ok-mark)'}
              strokeWidth={1.6}
            />
            <path
              d={retry ? `M534 ${y - 3} a4 4 0 1 1 -6 1` : `M527 ${y} l3 3 l5-6`}
              fill="none"
              stroke={retry ? 'var(--warn)' : 'var(--ok)'}
              strokeWidth={1.6}
            />
            <text x={551} y={y + 5}>
              {name}
            </text>
          </g>
        );
      })}
      <rect x={-8} y={200} width={118} height={60} rx={10} fill="var(--raised)" stroke="var(--line2)" />
      <text x={51} y={227} textAnchor="middle" className="strong">
        order.paid
      </text>
      <text x={51} y={245} textAnchor="middle" className="small">
        {t('login.commit')}
      </text>
    </svg>
  );
}
