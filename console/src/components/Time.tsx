import { t } from '../i18n';
import { useNow } from '../lib/clock';
import { countdown, dateTime, duration } from '../lib/format';

/** How old something is; ticks by itself. */
export function Age({ at, form = duration }: { at: string; form?: (seconds: number) => string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={dateTime(at)}>
      {form((now - Date.parse(at)) / 1000)}
    </time>
  );
}

/** Time left. At zero it says "due" until the server says more. */
export function Countdown({ to }: { to: string }) {
  const left = Date.parse(to) - useNow();
  return <span className="countdown">{left > 0 ? countdown(left) : t('due')}</span>;
}
