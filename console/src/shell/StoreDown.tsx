// The card while the store is away. It heals itself.
import { useLive } from '../api/live';
import { Button } from '../components/Button';
import { Code, copyText } from '../components/Copy';
import { Icon } from '../components/Icon';
import { has, type MessageKey, t } from '../i18n';
import { useNow } from '../lib/clock';
import { clock, number } from '../lib/format';
import { useSession } from './session';
import { lookAgain, useStore } from './store';
import './store-down.css';

export function StoreDown() {
  const store = useStore();
  const session = useSession();
  const stats = useLive((live) => live.stats);
  useNow();
  const left = Math.max(0, Math.ceil((store.nextAt - Date.now()) / 1000));
  const code = store.error?.code ?? 'storeAway';
  const title: MessageKey = has(`down.${code}`) ? (`down.${code}` as MessageKey) : 'down.storeAway';
  const detail = store.error?.detail ?? '';
  return (
    <>
      <div className="banner" role="alert">
        <span className="m-bad c row">
          <Icon name="alert" />
          <b className="c">{t('down.banner')}</b>
        </span>
        <span className="grow">{t('down.since', { at: clock(store.since) })}</span>
        <span className="nowrap">{t('down.next', { n: left })}</span>
      </div>
      <div className="page down">
        <section className="card">
          <header>
            <span className="down-icon">
              <Icon name="database" size={20} />
            </span>
            <div className="grow">
              <h1>{t(title)}</h1>
              <span className="mono t2">{session?.store}</span>
            </div>
            <Button icon="retry" onClick={() => void lookAgain()}>
              {t('down.now')}
            </Button>
          </header>
          {detail && <Code text={detail} />}
          <ul>
            <li>
              <Icon name="cross" className="bad" />
              <div>
                {t('down.check')}
                <p>{t('down.check.text')}</p>
              </div>
            </li>
            <li>
              <Icon name="check" className="ok" />
              <div>
                {t('down.safe')}
                <p>{t('down.safe.text')}</p>
              </div>
            </li>
            <li>
              <Icon name="clock" />
              <div>
                {t('down.looks', { n: store.looks })}
                <p>{t('down.looks.text')}</p>
              </div>
            </li>
          </ul>
          <footer>
            <span className="meta">
              {store.error?.requestId && (
                <>
                  {t('request')} <code>{store.error.requestId}</code> ·{' '}
                </>
              )}
              503 {code}
            </span>
            <Button
              small
              icon="copy"
              onClick={() => void copyText(`503 ${code}\n${detail}\n${store.error?.requestId ?? ''}`)}
            >
              {t('copy.details')}
            </Button>
            <Button small icon="terminal" onClick={() => void copyText('postrider doctor')}>
              postrider doctor
            </Button>
          </footer>
        </section>
        {stats && (
          <p className="meta">
            {t('down.last', {
              at: clock(stats.at),
              backlog: number(stats.backlog),
              retrying: number(stats.retrying),
              dead: number(stats.dead),
            })}
          </p>
        )}
      </div>
    </>
  );
}
