import { type IconName, paths } from './icons';

type Props = { name: IconName; size?: number; label?: string; className?: string };

/** An icon stands beside a word, or has a label of its own. */
export function Icon({ name, size = 16, label, className }: Props) {
  const role = label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true };
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.75}
      strokeLinecap="round"
      strokeLinejoin="round"
      className={className}
      {...role}
    >
      <path d={paths[name]} />
      {name === 'half' && <path d="M12 3a9 9 0 0 1 0 18z" fill="currentColor" />}
    </svg>
  );
}

export type { IconName };
