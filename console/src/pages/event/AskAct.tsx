// What a person can do to one event, each with its question.
import { useQueryClient } from '@tanstack/react-query';
import { discardDelivery, expireEvent, redriveEvent } from '../../api/actions';
import type { EventDetail } from '../../api/pending';
import { AskDialog } from '../../components/Dialog';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';

export type Ask = { verb: 'redrive' | 'expire' | 'discard'; consumerId?: string };

export function AskAct({ event, ask, onClose }: { event: EventDetail; ask: Ask; onClose: () => void }) {
  const client = useQueryClient();
  const to = ask.consumerId;
  async function act(reason: string) {
    if (ask.verb === 'expire') await expireEvent(event.eventId, reason);
    else if (ask.verb === 'discard') await discardDelivery(event.eventId, to ?? '', reason);
    else await redriveEvent(event.eventId, { consumerId: to, reason });
    toast({
      icon: ask.verb === 'expire' ? 'hourglass' : 'repeat',
      title: t(`toast.${ask.verb}`),
      text: event.eventId,
    });
    await client.invalidateQueries({
      predicate: ({ queryKey: [kind, id] }) => kind === 'audit' || (kind === 'event' && id === event.eventId),
    });
  }
  if (ask.verb === 'expire')
    return (
      <AskDialog
        danger
        title={t('expire.title')}
        text={t('expire.text')}
        verb={t('expire.verb')}
        act={act}
        onClose={onClose}
      />
    );
  if (ask.verb === 'discard') {
    return (
      <AskDialog
        danger
        title={t('discard.title', { c: to ?? '' })}
        text={t('discard.text')}
        verb={t('discard.verb')}
        act={act}
        onClose={onClose}
      />
    );
  }
  return (
    <AskDialog
      title={to ? t('redrive.one.title', { c: to }) : t('redrive.title')}
      text={to ? t('redrive.one.text', { c: to }) : t('redrive.text')}
      verb={t('redrive.verb')}
      act={act}
      onClose={onClose}
    />
  );
}
