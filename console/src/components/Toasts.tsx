import { useSyncExternalStore } from 'react';
import { Icon, type IconName } from './Icon';

type Toast = { id: number; icon: IconName; title: string; text?: string; act?: { label: string; run: () => void } };

/** Long enough to read two lines and to reach Undo. */
const SHOWN_MS = 6_000;
let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();
const timers = new Map<number, ReturnType<typeof setTimeout>>();

function set(list: Toast[]): void {
  toasts = list;
  for (const listener of listeners) listener();
}

function remove(id: number): void {
  clearTimeout(timers.get(id));
  timers.delete(id);
  set(toasts.filter((each) => each.id !== id));
}

function start(id: number): void {
  timers.set(
    id,
    setTimeout(() => remove(id), SHOWN_MS),
  );
}

export function toast(content: Omit<Toast, 'id'>): void {
  const id = next++;
  set([...toasts, { ...content, id }]);
  start(id);
}

export function Toasts() {
  const list = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status">
      {list.map((each) => (
        <div
          key={each.id}
          className="toast"
          onMouseEnter={() => clearTimeout(timers.get(each.id))}
          onMouseLeave={() => start(each.id)}
        >
          <Icon name={each.icon} />
          <div className="grow">
            <b>{each.title}</b>
            {each.text && <p>{each.text}</p>}
          </div>
          {each.act && (
            <button
              type="button"
              onClick={() => {
                each.act?.run();
                remove(each.id);
              }}
            >
              {each.act.label}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
