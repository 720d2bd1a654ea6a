import type { FailureGroup } from '../../api/pending';

/** The stable id of a group, or what identifies it as long as there is none. */
export function idOf(group: FailureGroup): string {
  return group.groupId ?? `${group.consumerId}:${group.fingerprint}`.slice(0, 200);
}

/** More in the last hour than twice the mean of the hours before. */
export function isRising(group: FailureGroup): boolean {
  const hours = group.hours ?? [];
  const last = hours.at(-1) ?? 0;
  const before = hours.slice(0, -1);
  const mean = before.reduce((sum, each) => sum + each, 0) / Math.max(1, before.length);
  return last >= 10 && last > 2 * mean;
}

/** An error with what varies as a violet #. */
export function Fingerprint({ text }: { text: string }) {
  return (
    <div className="fingerprint mono cut">
      {text.split('#').map((part, index) => (
        <span key={index}>
          {index > 0 && <span className="tag m-human">#</span>}
          {part}
        </span>
      ))}
    </div>
  );
}
