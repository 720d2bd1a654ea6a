import { useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { holdKey, skipKey } from '../../api/actions';
import { refreshConsumers } from '../../api/queries';
import { Button } from '../../components/Button';
import { AskDialog } from '../../components/Dialog';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';
import { useRefusal } from '../../shell/session';

/** Keys that wait behind a dead event. A person may let one go on; Undo holds it again. */
export function HeldKeys({ consumerId, keys }: { consumerId: string; keys: string[] }) {
  const client = useQueryClient();
  const operator = useRefusal('operator');
  const [asked, setAsked] = useState<string | null>(null);
  async function skip(key: string, reason: string) {
    await skipKey(consumerId, key, reason);
    await refreshConsumers(client);
    toast({
      icon: 'play',
      title: t('key.skipped', { key }),
      act: { label: t('undo'), run: () => void holdKey(consumerId, key, t('undo')) },
    });
  }
  return (
    <>
      {keys.slice(0, 5).map((key) => (
        <div key={key} className="between held-key">
          <Link to="/stories/$key" params={{ key } as never}>
            {key}
          </Link>
          <Button small refused={operator} onClick={() => setAsked(key)}>
            {t('key.skip')}
          </Button>
        </div>
      ))}
      {asked && (
        <AskDialog
          title={t('key.skip.title', { key: asked })}
          text={t('key.skip.text', { c: consumerId })}
          verb={t('key.skip.verb')}
          act={(reason) => skip(asked, reason)}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}
