// How a consumer fares, as bars and in a sentence.
import { useQuery } from '@tanstack/react-query';
import type { ConsumerMinute } from '../../api/pending';
import { attempts } from '../../api/queries';
import { t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { brief } from '../../lib/format';
import { type Health, healthOf, type Try } from '../../lib/health';

export function useHealthOf(
  id: string,
  about: { minutes?: ConsumerMinute[]; lastSuccessAt?: string | null } | undefined,
) {
  const counted = about?.minutes;
  const list = useQuery({ ...attempts(id), enabled: about !== undefined && !counted, retry: false }).data;
  return healthOf(counted, about?.lastSuccessAt, list);
}

export function Bars({ tries, label }: { tries: Try[]; label: string }) {
  return (
    <span className="wellness" role="img" aria-label={label}>
      {tries.map((each, index) => (
        <i key={`${each.at} ${index}`} className={each.good ? 'm-ok' : 'm-bad'} />
      ))}
    </span>
  );
}

const SHOWN = 24;

/** Whether it is well enough for a redrive, in a sentence. */
export function Wellness({ health }: { health: Health }) {
  const tries = health.tries.slice(-SHOWN);
  const well = tries.slice(-3).some((each) => each.good);
  const silent = health.lastSuccessAt ? (storeNow() - Date.parse(health.lastSuccessAt)) / 1000 : null;
  return (
    <>
      <div className="row">
        <Bars tries={tries} label={well ? t('well.yes') : t('well.no')} />
        {!well && silent !== null && <span className="m-bad c fine">{t('well.none', { t: brief(silent) })}</span>}
      </div>
      <p className="meta well-note">
        {!well ? t('well.no') : health.of === 'minutes' ? t('well.yes') : t('well.tries', wellOf(tries))}
      </p>
    </>
  );
}

function wellOf(tries: Try[]): { n: number; m: number } {
  return { n: tries.filter((each) => each.good).length, m: tries.length };
}
