export function Logo({ size = 22 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" aria-hidden>
      <rect width="24" height="24" rx="6" fill="var(--ink)" />
      <path
        d="M8 18V6.5h5.2a3.6 3.6 0 0 1 0 7.2H11"
        fill="none"
        stroke="var(--on-ink)"
        strokeWidth="2.2"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
      <circle cx="16.6" cy="17" r="1.7" fill="#f2b441" />
    </svg>
  );
}
