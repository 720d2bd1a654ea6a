import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useEffect, useState } from 'react';
import { login } from '../../api/actions';
import { ApiError, apiBase } from '../../api/client';
import type { Ready } from '../../api/pending';
import { Button } from '../../components/Button';
import { Code } from '../../components/Copy';
import { Icon } from '../../components/Icon';
import { changeLanguage, t, tx } from '../../i18n';
import { settings } from '../../lib/settings';
import { useUrl } from '../../lib/url';
import { Logo } from '../../shell/Logo';
import { environmentClass, SESSION_HOURS, SESSION_IDLE_MINUTES, takeRefusedLogin } from '../../shell/session';
import { FanOut } from './FanOut';
import './login.css';

const LOOK_MS = 3_000;

/** Only an address of the console itself is gone back to. */
function safeBack(back: string | undefined): string {
  return back?.startsWith('/') && !back.startsWith('//') ? back : '/';
}

/** Whether the server can work, asked without a session and again until it can. */
function useReady(): Ready | undefined {
  return useQuery({
    queryKey: ['ready'],
    queryFn: async (): Promise<Ready> => {
      const answer = await fetch(`${apiBase}/readyz`, { headers: { accept: 'application/json' } }).catch(() => null);
      const body = (await answer?.json().catch(() => null)) as Partial<Ready> | null;
      return { ...body, ready: answer?.ok ?? false };
    },
    refetchInterval: (query) => (query.state.data?.ready ? false : LOOK_MS),
  }).data;
}

export function Login() {
  const [search] = useUrl();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [token, setToken] = useState('');
  const [shown, setShown] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(takeRefusedLogin);
  const ready = useReady();
  const environment = ready?.environment?.name;
  useEffect(() => {
    document.title = 'Postrider';
  }, []);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    try {
      await login(token.trim());
      client.clear();
      await navigate({ href: safeBack(search.back), replace: true } as never);
    } catch (failure) {
      setError(failure instanceof ApiError ? failure : null);
      setBusy(false);
    }
  }

  return (
    <div className={`login ${environmentClass(environment)}`}>
      <div className="login-form">
        <header className="row login-brand">
          <Logo size={26} />
          <b>Postrider</b>
          {environment && <span className="env">{environment.toUpperCase()}</span>}
        </header>
        <main>
          <form onSubmit={submit}>
            <h1>{t('login.title', { env: environment ?? location.hostname })}</h1>
            <p className="t2">{location.host}</p>
            <label className="field" htmlFor="token">
              <span>{t('login.token')}</span>
            </label>
            <div className="secret">
              <input
                id="token"
                autoFocus
                className={`input mono ${error ? 'invalid' : ''}`}
                type={shown ? 'text' : 'password'}
                autoComplete="off"
                spellCheck={false}
                value={token}
                onChange={(event) => setToken(event.target.value)}
                aria-describedby={error ? 'login-error' : undefined}
              />
              <button
                type="button"
                className="copy"
                onClick={() => setShown(!shown)}
                aria-label={shown ? t('login.hide') : t('login.show')}
              >
                <Icon name={shown ? 'eyeOff' : 'eye'} />
              </button>
            </div>
            {error && (
              <p id="login-error" role="alert" className="m-bad c">
                {error.status === 401 ? t('login.failed') : error.detail || error.title}{' '}
                {error.requestId && <code>{error.requestId}</code>}
              </p>
            )}
            <Button type="submit" kind="primary" busy={busy} disabled={!token.trim()}>
              {t('login.go')}
            </Button>
            <p className="login-note">
              {t('login.note')}{' '}
              {t('login.ends', {
                idle: ready?.session?.idleMinutes ?? SESSION_IDLE_MINUTES,
                hours: ready?.session?.hours ?? SESSION_HOURS,
              })}
            </p>
          </form>
          <section>
            <h2>{t('login.none')}</h2>
            <p className="login-note">{tx('login.first', { line: <code>admin token: prt_…</code> })}</p>
            <Code text="postrider tokens create NAME --role operator" />
          </section>
        </main>
        <footer className="between t2">
          <span className="row">
            {ready?.version && <span>postrider {ready.version}</span>}
            {ready && (
              <>
                <span className={`dot ${ready.ready ? 'm-ok' : 'm-bad'}`} />
                {ready.ready ? t('login.ready') : t('login.notready')}
              </>
            )}
          </span>
          <button
            type="button"
            className="hit row"
            aria-label={t('language.toggle')}
            onClick={() => void changeLanguage(settings().language === 'zh' ? 'en' : 'zh')}
          >
            <span>
              <span lang="zh" className={settings().language === 'zh' ? 'strong' : ''}>
                中
              </span>{' '}
              / <span className={settings().language === 'en' ? 'strong' : ''}>EN</span>
            </span>
          </button>
        </footer>
      </div>
      <aside className="login-art">
        <FanOut />
        <div>
          <h2>{t('login.claim')}</h2>
          <p className="t2">{t('login.claim2')}</p>
        </div>
      </aside>
    </div>
  );
}
