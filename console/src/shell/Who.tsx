// Who is logged in, what the token reaches, and when the session ends.
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { logout } from '../api/actions';
import type { Session } from '../api/pending';
import { Icon } from '../components/Icon';
import { Menu } from '../components/Menu';
import { changeLanguage, t } from '../i18n';
import { storeNow, useNow } from '../lib/clock';
import { brief, dayMonth, moment } from '../lib/format';
import { changeSettings, darkNow, useSettings } from '../lib/settings';
import { SESSION_HOURS, SESSION_IDLE_MINUTES, scopeOf, useSession } from './session';

const DAY_MS = 86_400_000;

/** What the token reaches, where that is not everything: its figures and lists are only about this. */
function Scope({ session }: { session: Session }) {
  const scope = scopeOf(session);
  if (!scope) return null;
  return (
    <span className="tag m-idle scope" title={t('session.scope', { what: scope })}>
      {scope}
    </span>
  );
}

/** A token that ends within a day says so. */
function EndsSoon({ session }: { session: Session }) {
  const now = useNow();
  if (!session.expiresAt) return null;
  const left = Date.parse(session.expiresAt) - now;
  if (left > DAY_MS) return null;
  return <span className="tag m-warn">{t('session.soon', { t: brief(Math.max(0, left / 1000)) })}</span>;
}

/** The same in sentences, at the top of a menu. */
export function SessionNote() {
  const session = useSession();
  if (!session) return null;
  const scope = scopeOf(session);
  const until = session.expiresAt;
  return (
    <div className="session-note">
      <b>
        {session.name} · {t(`role.${session.role}`)}
      </b>
      <p>{scope ? t('session.scope', { what: scope }) : t('session.all')}</p>
      <p>{t('session.ends', { idle: SESSION_IDLE_MINUTES, hours: SESSION_HOURS })}</p>
      {until && (
        <p>
          {t('session.token', {
            at: Date.parse(until) - storeNow() < DAY_MS ? moment(until, storeNow()) : dayMonth(until),
          })}
        </p>
      )}
    </div>
  );
}

export function LogOut({ onDone }: { onDone: () => void }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  async function leave() {
    onDone();
    await logout().catch(() => undefined);
    client.clear();
    await navigate({ to: '/login' });
  }
  return (
    <button type="button" onClick={() => void leave()}>
      <Icon name="logout" />
      {t('logout')}
    </button>
  );
}

/** Language and theme, for screens whose top bar has no room for them. */
export function Choices() {
  const { language } = useSettings();
  return (
    <>
      <button type="button" onClick={() => void changeLanguage(language === 'zh' ? 'en' : 'zh')}>
        <Icon name="world" />
        {t('language.toggle')}
      </button>
      <button type="button" onClick={() => changeSettings({ theme: darkNow() ? 'light' : 'dark' })}>
        <Icon name={darkNow() ? 'moon' : 'sun'} />
        {t('theme.toggle')}
      </button>
    </>
  );
}

export function Who() {
  const session = useSession();
  const settings = useSettings();
  if (!session) return null;
  const parts = session.name.split(/[.\-_ ]/).filter(Boolean);
  const initials = (parts.length > 1 ? parts.map((part) => part[0]).join('') : session.name).slice(0, 2).toUpperCase();
  return (
    <Menu
      button={(open, toggle) => (
        <button
          type="button"
          aria-expanded={open}
          onClick={toggle}
          aria-label={[session.name, t(`role.${session.role}`), scopeOf(session)].filter(Boolean).join(' ')}
        >
          <span className="avatar">{initials}</span>
          <span className="who">
            {session.name} {t(`role.${session.role}`)}
          </span>
          <Scope session={session} />
          <EndsSoon session={session} />
        </button>
      )}
    >
      {(close) => (
        <>
          <SessionNote />
          <hr />
          <button type="button" onClick={() => changeSettings({ compact: !settings.compact })}>
            <Icon name="list" />
            {settings.compact ? t('density.normal') : t('density.compact')}
          </button>
          <button type="button" onClick={() => changeSettings({ letterKeys: !settings.letterKeys })}>
            <Icon name="key" />
            {settings.letterKeys ? t('keys.off') : t('keys.on')}
          </button>
          <LogOut onDone={close} />
        </>
      )}
    </Menu>
  );
}
