// The way to the first event. Each step ticks itself.
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { instances } from '../../api/queries';
import { Button } from '../../components/Button';
import { Code, copyText } from '../../components/Copy';
import { Icon } from '../../components/Icon';
import { t } from '../../i18n';
import { hourMinute } from '../../lib/format';
import { storeName, useHealth, useSession, useWhole } from '../../shell/session';

const SNIPPETS = {
  Rust: `let mut tx = pool.begin().await?;
sqlx::query("update orders set status = 'PAID' where id = $1").bind(7).execute(&mut *tx).await?;
outbox.enqueue(&mut tx, &OrderPaid { order_id: 7, amount_cents: 9_900 }).await?;
tx.commit().await?;                    // roll back: no change, no event`,
  SQL: `INSERT INTO postrider_event (event_id, topic, payload)
VALUES ('any-unique-id', 'order.paid', '{"orderId": 123}');`,
  curl: `curl -X POST ${typeof location === 'undefined' ? '' : location.origin}/api/v1/events \\
  -H "authorization: Bearer $POSTRIDER_TOKEN" -H 'content-type: application/json' \\
  -d '{"topic": "order.paid", "payload": {"orderId": 123}}'`,
  CLI: `postrider publish order.paid --data '{"orderId": 123}' --wait`,
};

const PIECES = /("(?:[^"\\]|\\.)*"|'[^']*'|\/\/.*|\b(?:let|mut|await|INSERT INTO|VALUES)\b)/;

/** The line that publishes stands out; words and strings of the language have their colours. */
function Snippet({ text }: { text: string }) {
  return text.split('\n').map((line, at) => (
    <span key={at} className={/enqueue|INSERT|\/events|publish/.test(line) ? 'snippet-line strong' : 'snippet-line'}>
      {line.split(PIECES).map((piece, index) =>
        index % 2 === 0 ? (
          piece
        ) : (
          <span
            key={index}
            className={/^["']/.test(piece) ? 'word-string' : piece.startsWith('//') ? '' : 'word-known'}
          >
            {piece}
          </span>
        ),
      )}
    </span>
  ));
}

type StepProps = {
  n: number;
  state: 'done' | 'now' | 'todo';
  title: string;
  text: ReactNode;
  aside?: ReactNode;
  children?: ReactNode;
};

function Step({ n, state, title, text, aside, children }: StepProps) {
  return (
    <li className={`first-step ${state}`}>
      <span className="first-mark">{state === 'done' ? <Icon name="check" size={20} /> : n}</span>
      <div className="grow">
        <h3>{title}</h3>
        <p className="t2">{text}</p>
        {children}
      </div>
      <span className="meta">{aside}</span>
    </li>
  );
}

export function FirstRun({ listens, wrote, onSkip }: { listens: boolean; wrote: boolean; onSkip: () => void }) {
  const session = useSession();
  const store = useHealth().data;
  const whole = useWhole();
  const relays = useQuery({ ...instances, enabled: whole.may }).data ?? [];
  const [opened] = useState(() => hourMinute(Date.now()));
  const [tab, setTab] = useState<keyof typeof SNIPPETS>('Rust');
  const ticked = t('first.ticked', { at: opened });
  const waiting = (
    <span className="row m-info">
      <span className="dot" />
      {t('first.listening')}
    </span>
  );
  const relay = store?.instances.find((each) => each.loops.includes('router'))?.instanceId ?? relays[0]?.owner;
  const schema = store && t('first.schema', { have: store.store.schema.found, want: store.store.schema.needed });
  return (
    <div className="page first">
      <h1>{t('first.title')}</h1>
      <p className="t2">{t('first.text')}</p>
      <ol className="card">
        <Step
          n={1}
          state="done"
          title={t('first.store')}
          text={[storeName(session?.store), schema].filter(Boolean).join(', ')}
          aside={ticked}
        />
        <Step
          n={2}
          state={relay ? 'done' : 'now'}
          title={t('first.relay')}
          text={[relay, t('first.process'), !session?.broker && t('first.nobroker')].filter(Boolean).join(', ')}
          aside={relay ? ticked : waiting}
        />
        <Step
          n={3}
          state={listens ? 'done' : 'now'}
          title={t('first.listen')}
          text={t('first.listen.text')}
          aside={listens ? t('first.ticked', { at: hourMinute(Date.now()) }) : waiting}
        >
          <Code text="postrider listen order.paid --consumer points --fail-rate 0.3" />
        </Step>
        <Step
          n={4}
          state={wrote ? 'done' : listens ? 'now' : 'todo'}
          title={t('first.write')}
          text={t('first.write.text')}
          aside={listens && !wrote ? waiting : null}
        >
          <div className="card snippet">
            <header>
              <div role="tablist" className="snippet-tabs">
                {(Object.keys(SNIPPETS) as (keyof typeof SNIPPETS)[]).map((name) => (
                  <button
                    type="button"
                    role="tab"
                    key={name}
                    aria-selected={name === tab}
                    className="tab"
                    onClick={() => setTab(name)}
                  >
                    {name}
                  </button>
                ))}
              </div>
              <Button small icon="copy" onClick={() => void copyText(SNIPPETS[tab])}>
                {t('copy')}
              </Button>
            </header>
            <pre tabIndex={0}>
              <Snippet text={SNIPPETS[tab]} />
            </pre>
          </div>
        </Step>
      </ol>
      <div className="between">
        <span className="t2">
          {t('first.only')} <code>make demo</code> {t('first.demo')}
        </span>
        <button type="button" className="link" onClick={onSkip}>
          {t('first.skip')}
        </button>
      </div>
    </div>
  );
}
