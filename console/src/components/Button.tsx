import type { ButtonHTMLAttributes, ReactNode, Ref } from 'react';
import { useId } from 'react';
import { Icon, type IconName } from './Icon';

type Props = ButtonHTMLAttributes<HTMLButtonElement> & {
  kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  icon?: IconName;
  small?: boolean;
  busy?: boolean;
  /** Why it cannot be pressed now. It is shown, locked, and says so. */
  refused?: string | null;
  children?: ReactNode;
  ref?: Ref<HTMLButtonElement>;
};

export function Button({
  kind = 'plain',
  icon,
  small,
  busy,
  refused,
  children,
  className = '',
  onClick,
  ...rest
}: Props) {
  const tip = useId();
  const name = refused ? 'lock' : icon;
  const button = (
    <button
      type="button"
      {...rest}
      className={`btn ${kind} ${small ? 'small' : ''} ${children ? '' : 'icon'} ${className}`}
      aria-disabled={refused || busy || rest.disabled ? true : undefined}
      aria-describedby={refused ? tip : undefined}
      onClick={(event) => {
        if (!refused && !busy && !rest.disabled) onClick?.(event);
        event.stopPropagation();
      }}
    >
      {busy ? <Icon name="retry" className="spin" size={14} /> : name && <Icon name={name} size={small ? 14 : 15} />}
      {children}
    </button>
  );
  if (!refused) return button;
  return (
    <span className="refused">
      {button}
      <span className="tip" role="tooltip" id={tip}>
        {refused}
      </span>
    </span>
  );
}
