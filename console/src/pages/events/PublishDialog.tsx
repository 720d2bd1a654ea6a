import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { ApiError, url } from '../../api/client';
import { parseJson } from '../../api/json';
import { Button } from '../../components/Button';
import { Modal } from '../../components/Dialog';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';

/** Publishes one event. The payload is sent as it was typed, so that no number is rounded. */
export function PublishDialog({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [topic, setTopic] = useState('');
  const [payload, setPayload] = useState('{}');
  const [problem, setProblem] = useState<string | null>(null);
  async function submit(event: FormEvent) {
    event.preventDefault();
    try {
      parseJson(payload);
      const body = `{"topic":${JSON.stringify(topic)},"payload":${payload}}`;
      const answer = await fetch(url('/events'), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      });
      if (!answer.ok) throw new ApiError(answer.status, '', '', (await answer.json()).detail, null);
      onClose();
      toast({ icon: 'plane', title: t('publish.done', { topic }) });
      await client.invalidateQueries({ queryKey: ['events'] });
    } catch (error) {
      setProblem((error as Error).message);
    }
  }
  return (
    <Modal label={t('publish')} className="dialog" onClose={onClose}>
      <form className="body" onSubmit={submit}>
        <h2>{t('publish')}</h2>
        <label className="field">
          <span>{t('col.topic')}</span>
          <input className="input" value={topic} onChange={(event) => setTopic(event.target.value)} />
        </label>
        <label className="field">
          <span>{t('tab.payload')}</span>
          <textarea
            className="input mono"
            rows={6}
            value={payload}
            onChange={(event) => setPayload(event.target.value)}
          />
        </label>
        {problem && (
          <p role="alert" className="m-bad c">
            {problem}
          </p>
        )}
        <div className="ends">
          <Button onClick={onClose}>{t('cancel')}</Button>
          <Button type="submit" kind="primary" disabled={!topic}>
            {t('publish')}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
