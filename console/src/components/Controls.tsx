import type { ReactNode } from 'react';
import { t } from '../i18n';
import { Icon } from './Icon';

type Option<T extends string> = { value: T; label: ReactNode };

/** A choice of a few, side by side. */
export function Segments<T extends string>(props: {
  label: string;
  value: T;
  options: Option<T>[];
  onChange: (value: T) => void;
}) {
  return (
    <fieldset className="segments" aria-label={props.label}>
      {props.options.map((option) => (
        <button
          type="button"
          key={option.value}
          aria-pressed={option.value === props.value}
          onClick={() => props.onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </fieldset>
  );
}

export function Switch({ on, label, onChange }: { on: boolean; label: string; onChange: (on: boolean) => void }) {
  return (
    <button type="button" role="switch" aria-checked={on} className="switch" onClick={() => onChange(!on)}>
      <i aria-hidden />
      {label}
    </button>
  );
}

export function FilterChip({
  name,
  value,
  invalid,
  onRemove,
}: {
  name: string;
  value: string;
  invalid?: string;
  onRemove: () => void;
}) {
  return (
    <span className={`chip ${invalid ? 'invalid' : ''}`} title={invalid}>
      <span>
        <span className="t2">{name}</span>
        <b>{value}</b>
      </span>
      <button type="button" aria-label={t('filter.remove', { name, value })} onClick={onRemove}>
        <Icon name="x" size={12} />
      </button>
    </span>
  );
}

/** A check box with a target that is large enough. */
export function Box({
  checked,
  label,
  onChange,
}: {
  checked: boolean;
  label: string;
  onChange: (shift: boolean) => void;
}) {
  return (
    <label className="hit">
      <input
        type="checkbox"
        checked={checked}
        aria-label={label}
        onChange={() => undefined}
        onClick={(event) => {
          event.stopPropagation();
          onChange(event.shiftKey);
        }}
      />
    </label>
  );
}
