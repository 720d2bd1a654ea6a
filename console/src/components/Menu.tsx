import { type ReactNode, useEffect, useRef, useState } from 'react';

type Props = {
  button: (open: boolean, toggle: () => void) => ReactNode;
  children: (close: () => void) => ReactNode;
  left?: boolean;
  className?: string;
  role?: 'menu';
};

/** A box that opens under its button. Escape and a click elsewhere close it. */
export function Menu({ button, children, left, className = '', role }: Props) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const onDown = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    const onKey = (event: KeyboardEvent) => {
      const items = [...(box.current?.querySelectorAll<HTMLElement>('.menu button, .menu a') ?? [])];
      const at = items.indexOf(document.activeElement as HTMLElement);
      if (event.key === 'Escape') {
        setOpen(false);
        box.current?.querySelector('button')?.focus();
      } else if (event.key === 'ArrowDown') items[Math.min(items.length - 1, at + 1)]?.focus();
      else if (event.key === 'ArrowUp') items[Math.max(0, at - 1)]?.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    document.addEventListener('pointerdown', onDown);
    document.addEventListener('keydown', onKey, true);
    return () => {
      document.removeEventListener('pointerdown', onDown);
      document.removeEventListener('keydown', onKey, true);
    };
  }, [open]);
  return (
    <div className="menu-box" ref={box}>
      {button(open, () => setOpen(!open))}
      {open && (
        <div role={role} className={`menu ${left ? 'left' : ''} ${className}`}>
          {children(() => setOpen(false))}
        </div>
      )}
    </div>
  );
}
