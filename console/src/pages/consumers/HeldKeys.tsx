import { useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { holdKey, skipKey } from '../../api/actions';
import { refreshConsumers } from '../../api/queries';
import type { components } from '../../api/schema';
import { Button } from '../../components/Button';
import { AskDialog } from '../../components/Dialog';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';
import { number } from '../../lib/format';
import { useRefusal } from '../../shell/session';

type Key = components['schemas']['DeadKey'];

/** Keys of one kind that are shown. */
const SHOWN = 5;

/** Keys behind a dead event. A person may let one go on, and stop it again; Undo does the opposite. */
export function HeldKeys({ consumerId, held, skipped }: { consumerId: string; held: Key[]; skipped: Key[] }) {
  const client = useQueryClient();
  const operator = useRefusal('operator');
  const [asked, setAsked] = useState<Key | null>(null);
  async function change({ key, deadHead }: Key, reason: string) {
    const [act, opposite] = deadHead === 'hold' ? [skipKey, holdKey] : [holdKey, skipKey];
    await act(consumerId, key, reason);
    await refreshConsumers(client);
    const undo = () => void opposite(consumerId, key, t('undo')).then(() => refreshConsumers(client));
    toast({
      icon: deadHead === 'hold' ? 'play' : 'lock',
      title: t(deadHead === 'hold' ? 'key.skipped' : 'key.held', { key }),
      act: { label: t('undo'), run: undo },
    });
  }
  return (
    <>
      {[...held.slice(0, SHOWN), ...skipped.slice(0, SHOWN)].map((each) => (
        <div key={each.key} className="between held-key">
          <span>
            <Link to="/stories/$key" params={{ key: each.key } as never}>
              {each.key}
            </Link>{' '}
            <span className="meta">
              {t(each.deadHead === 'hold' ? 'key.waiting' : 'key.goeson', { n: number(each.waiting) })}
            </span>
          </span>
          <Button small refused={operator} onClick={() => setAsked(each)}>
            {t(each.deadHead === 'hold' ? 'key.skip' : 'key.hold')}
          </Button>
        </div>
      ))}
      {asked && (
        <AskDialog
          title={t(asked.deadHead === 'hold' ? 'key.skip.title' : 'key.hold.title', { key: asked.key })}
          text={t(asked.deadHead === 'hold' ? 'key.skip.text' : 'key.hold.text', { c: consumerId })}
          verb={t(asked.deadHead === 'hold' ? 'key.skip.verb' : 'key.hold.verb')}
          act={(reason) => change(asked, reason)}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}
