import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { deleteSubscription, putSubscription, startOperation } from '../../api/actions';
import { ApiError } from '../../api/client';
import type { Consumer, Topic } from '../../api/pending';
import { counts, events } from '../../api/queries';
import type { components } from '../../api/schema';
import { Button } from '../../components/Button';
import { Segments, Switch } from '../../components/Controls';
import { AskDialog } from '../../components/Dialog';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';
import { counted, number } from '../../lib/format';
import { newIdempotencyKey } from '../../lib/key';

type Subscription = components['schemas']['Subscription'];
type Via = Subscription['via'];
type Props = {
  topic: string;
  consumerId: string;
  known?: Subscription;
  consumer?: Consumer;
  heard: Topic[];
  /** The endpoint of this consumer's other subscriptions. */
  endpoint?: string | null;
  names: string[];
  topics: string[];
  refused: string | null;
  onClose: () => void;
};

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** The window starts at a whole hour, so that it is the same question while the form is filled. */
const dayAgo = () => new Date(Math.floor(Date.now() / HOUR_MS) * HOUR_MS - DAY_MS).toISOString();

export function Editor(props: Props) {
  const { topic, consumerId, known, consumer, heard, names, topics, refused, onClose } = props;
  const client = useQueryClient();
  const [form, setForm] = useState({
    topic,
    consumerId,
    via: known?.via ?? (consumer?.via as Via | undefined) ?? 'pull',
    endpoint: known?.endpoint ?? props.endpoint ?? '',
    description: known?.description ?? '',
    enabled: known?.enabled ?? true,
  });
  const [also, setAlso] = useState(false);
  const [from] = useState(dayAgo);
  const [key] = useState(newIdempotencyKey);
  const [remove, setRemove] = useState(false);
  const [problems, setProblems] = useState<{ field: string; message: string }[]>([]);
  const error = (field: string) =>
    problems.find(
      (each) => each.field === field || (field === '' && !['endpoint', 'description', 'via'].includes(each.field)),
    )?.message;
  const set = (part: Partial<typeof form>) => setForm({ ...form, ...part });

  async function save(enabled = form.enabled) {
    // PUT replaces the row, so everything known is sent again.
    await putSubscription(form.topic, form.consumerId, {
      via: form.via,
      enabled,
      sortOrder: known?.sortOrder ?? 0,
      description: form.description || null,
      endpoint: form.via === 'webhook' ? form.endpoint : null,
      exchange: known?.exchange ?? null,
      routingKey: known?.routingKey ?? null,
    });
    if (also && !known)
      await startOperation(
        {
          kind: 'redrive',
          filter: { topic: form.topic, from },
          consumerId: form.consumerId,
          dryRun: false,
          reason: t('subs.also.reason', { c: form.consumerId }),
        },
        key,
      );
  }
  const refresh = () =>
    Promise.all([
      client.invalidateQueries({ queryKey: ['subscriptions'] }),
      client.invalidateQueries({ queryKey: ['consumers'] }),
      client.invalidateQueries({ queryKey: ['topics'] }),
    ]);
  async function submit(event: FormEvent) {
    event.preventDefault();
    try {
      await save();
      // Closed before the lists come, so that a cell that is opened meanwhile stays open.
      onClose();
      toast({ icon: 'matrix', title: t('subs.saved', { t: form.topic, c: form.consumerId }) });
      await refresh();
    } catch (failure) {
      setProblems(
        failure instanceof ApiError && failure.errors.length > 0
          ? failure.errors
          : [{ field: 'all', message: (failure as Error).message }],
      );
    }
  }
  async function toggle() {
    const enabled = !form.enabled;
    set({ enabled });
    if (!known) return;
    await save(enabled)
      .then(refresh)
      .catch((failure: Error) => setProblems([{ field: 'all', message: failure.message }]));
    toast({
      icon: 'matrix',
      title: enabled
        ? t('subs.on', { t: form.topic, c: form.consumerId })
        : t('subs.off', { t: form.topic, c: form.consumerId }),
      act: { label: t('undo'), run: () => void save(!enabled).then(refresh) },
    });
  }

  const local = form.via === 'local';
  const day = useQuery({ ...counts({ topic: form.topic, from }), enabled: form.topic !== '' && !known }).data?.total;
  return (
    <>
      <form className="card panel editor asked" aria-label={known ? t('subs.edit') : t('subs.new')} onSubmit={submit}>
        <section className="between">
          <div>
            <h2>{known ? t('subs.edit') : t('subs.new')}</h2>
            <p className="meta">
              {form.topic || '…'} → {form.consumerId || '…'}
            </p>
          </div>
          <Button kind="quiet" icon="x" aria-label={t('close')} onClick={onClose} />
        </section>
        <div className="editor-body">
          {!known && (topic === '' || consumerId === '') && (
            <>
              <label className="field">
                <span>{t('col.topic')}</span>
                <input
                  className="input"
                  list="topics"
                  value={form.topic}
                  onChange={(event) => set({ topic: event.target.value })}
                />
              </label>
              <label className="field">
                <span>{t('col.consumer')}</span>
                <input
                  className="input"
                  list="consumers"
                  value={form.consumerId}
                  onChange={(event) => set({ consumerId: event.target.value })}
                />
              </label>
              <datalist id="topics">
                {topics.map((each) => (
                  <option key={each} value={each} />
                ))}
              </datalist>
              <datalist id="consumers">
                {names.map((each) => (
                  <option key={each} value={each} />
                ))}
              </datalist>
            </>
          )}
          <div className="field">
            <span>{t('col.via')}</span>
            {local ? (
              <span className="tag">local</span>
            ) : (
              <Segments
                label={t('col.via')}
                value={form.via}
                onChange={(via) => set({ via })}
                options={(['pull', 'webhook', 'rabbitmq', 'external'] as const).map((value) => ({
                  value,
                  label: value,
                }))}
              />
            )}
          </div>
          {form.via === 'webhook' && (
            <label className="field">
              <span>
                {t('subs.endpoint')} <small className="t3">{t('subs.endpoint.text')}</small>
              </span>
              <input
                className={`input mono ${error('endpoint') ? 'invalid' : ''}`}
                value={form.endpoint}
                onChange={(event) => set({ endpoint: event.target.value })}
              />
              {error('endpoint') && (
                <small role="alert" className="m-bad c">
                  {error('endpoint')}
                </small>
              )}
            </label>
          )}
          <label className="field">
            <span>{t('subs.for')}</span>
            <input
              className="input"
              value={form.description}
              onChange={(event) => set({ description: event.target.value })}
            />
          </label>
          {known && (
            <Switch
              on={form.enabled}
              label={form.enabled ? t('subs.enabled') : t('subs.disabled')}
              onChange={() => !refused && void toggle()}
            />
          )}
          {form.topic && !known && <Preview topic={form.topic} from={from} heard={heard} consumer={consumer} />}
          {!known && form.topic && (
            <label className="check also">
              <input type="checkbox" checked={also} onChange={() => setAlso(!also)} />
              <span>
                {t('subs.also')}
                <small>{t('subs.also.text', { n: day ? counted(day) : '…' })}</small>
              </span>
            </label>
          )}
          {error('') && (
            <p role="alert" className="m-bad c">
              {error('')}
            </p>
          )}
        </div>
        <footer className="row">
          <span className="meta grow">{t('subs.counts')}</span>
          {known ? (
            <Button kind="danger" refused={refused} onClick={() => setRemove(true)}>
              {t('subs.remove')}
            </Button>
          ) : (
            <Button onClick={onClose}>{t('cancel')}</Button>
          )}
          <Button type="submit" kind="primary" refused={refused} disabled={!form.topic || !form.consumerId}>
            {known ? t('subs.save') : t('act.subscribe')}
          </Button>
        </footer>
      </form>
      {remove && (
        <AskDialog
          danger
          reason="none"
          title={t('subs.remove.title', { t: topic, c: consumerId })}
          text={t('subs.remove.text', { n: number(consumer?.lag ?? 0) })}
          verb={t('subs.remove.verb')}
          act={async () => {
            await deleteSubscription(topic, consumerId, 'deliver');
            await client.invalidateQueries({ queryKey: ['subscriptions'] });
            onClose();
          }}
          onClose={() => setRemove(false)}
        />
      )}
    </>
  );
}

/** What it would have matched in the last 24 h. */
function Preview({
  topic,
  from,
  heard,
  consumer,
}: {
  topic: string;
  from: string;
  heard: Topic[];
  consumer?: Consumer;
}) {
  const about = heard.find((each) => each.topic === topic);
  const now = heard.filter((each) => consumer?.topics.includes(each.topic)).reduce((sum, each) => sum + each.events, 0);
  const total = useQuery({ ...counts({ topic, from }), retry: false }).data?.total;
  const samples = useQuery(events({ topic, limit: 3 })).data?.events ?? [];
  const hours = about?.hours ?? [];
  const top = Math.max(1, ...hours);
  const shown = total ? counted(total) : '…';
  return (
    <div className="preview">
      <p className="t2">{t('subs.preview')}</p>
      <p>
        <b>{shown}</b>{' '}
        <span className="t2">{hours.length > 0 ? t('subs.most', { n: number(top / 60) }) : t('wizard.events')}</span>
      </p>
      {hours.length > 0 && (
        <div className="preview-bars" role="img" aria-label={t('failures.24h')}>
          {hours.map((value, index) => (
            <i key={index} style={{ height: `${(value / top) * 100}%` }} />
          ))}
        </div>
      )}
      {consumer && total && now > 0 && (
        <p className="t2">
          {t('subs.more', { c: consumer.consumerId, p: Math.ceil((total.value / now) * 100) })}{' '}
          {consumer.paused && t('subs.paused.note')}
        </p>
      )}
      {samples.map((each) => (
        <p key={each.eventId} className="between mono">
          <span className="cut">{each.eventId}</span>
          <Link to="/events/$id" params={{ id: each.eventId } as never}>
            {t('show')}
          </Link>
        </p>
      ))}
    </div>
  );
}
