// Pause and resume, the same from every page. Each offers Undo, which is the opposite call.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { pauseConsumer, resumeConsumer } from '../../api/actions';
import type { Consumer } from '../../api/pending';
import { pauses, refreshConsumers } from '../../api/queries';
import { AskDialog } from '../../components/Dialog';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';
import { number } from '../../lib/format';
import { isProduction, useSession } from '../../shell/session';

/** Above this many waiting deliveries, pausing in production asks for the environment's name. */
const MANY = 1_000;

export function useConsumerActs() {
  const client = useQueryClient();
  const session = useSession();
  const [asked, setAsked] = useState<Consumer | null>(null);
  const refresh = () =>
    Promise.all([refreshConsumers(client), client.invalidateQueries({ queryKey: pauses.queryKey })]);

  async function pause(id: string, reason: string) {
    await pauseConsumer(id, reason);
    await refresh();
    toast({
      icon: 'pause',
      title: t('toast.paused', { c: id }),
      act: { label: t('undo'), run: () => void resume(id) },
    });
  }
  async function resume(id: string) {
    await resumeConsumer(id).catch((error: Error) => toast({ icon: 'alert', title: error.message }));
    await refresh();
    toast({
      icon: 'play',
      title: t('toast.resumed', { c: id }),
      act: { label: t('undo'), run: () => void pause(id, t('undo')) },
    });
  }

  const environment = session?.environment.name;
  const dialog = asked && (
    <AskDialog
      title={t('pause.title', { c: asked.consumerId })}
      text={t('pause.text', { n: number(asked.lag ?? 0) })}
      verb={t('pause.verb', { c: asked.consumerId })}
      typed={isProduction(environment) && (asked.lag ?? 0) > MANY ? environment : undefined}
      act={(reason) => pause(asked.consumerId, reason)}
      onClose={() => setAsked(null)}
    />
  );
  return { askPause: setAsked, resume, dialog };
}
