import type { EventSummary } from '../api/pending';
import type { Meaning } from './Status';

/** Beyond this many consumers, segments would be too narrow to tell apart. */
const SEGMENTS_MAX = 8;

/** One segment a consumer: done, retrying, failed, handed over, not yet. Always with its figure. */
export function segments(event: EventSummary): (Meaning | null)[] {
  const { expectedConsumers: all, consumedConsumers: done, failedConsumers: failed } = event;
  const retrying = event.retryingConsumers ?? (event.status === 'RETRYING' ? Math.max(0, all - done - failed) && 1 : 0);
  const rest = Math.max(0, all - done - failed - retrying);
  const handed = event.status === 'SENT' && !event.held ? rest : 0;
  const list: (Meaning | null)[] = [];
  const push = (count: number, meaning: Meaning | null) => list.push(...Array<Meaning | null>(count).fill(meaning));
  push(done, 'ok');
  push(handed, 'info');
  push(retrying, 'warn');
  push(failed, 'bad');
  push(rest - handed, null);
  return list;
}

export function Meter({ event, figure = true }: { event: EventSummary; figure?: boolean }) {
  const list = segments(event);
  const text = `${event.consumedConsumers}/${event.expectedConsumers}`;
  const part = (meaning: Meaning) => list.filter((each) => each === meaning).length;
  return (
    <span className="meter">
      {list.length > SEGMENTS_MAX ? (
        <span className="bar">
          {(['ok', 'info', 'warn', 'bad'] as const).map((meaning) => (
            <b key={meaning} className={`m-${meaning}`} style={{ width: `${(part(meaning) / list.length) * 100}%` }} />
          ))}
        </span>
      ) : (
        list.map((meaning, index) => <i key={index} className={meaning ? `m-${meaning}` : 'none'} />)
      )}
      {figure && <span className={event.failedConsumers > 0 ? 'm-bad c' : 't2'}>{text}</span>}
    </span>
  );
}
