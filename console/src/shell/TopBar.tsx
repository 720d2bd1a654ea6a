import { Link, useLocation } from '@tanstack/react-router';
import { togglePause, useLive } from '../api/live';
import { Icon } from '../components/Icon';
import { changeLanguage, t } from '../i18n';
import { useNow } from '../lib/clock';
import { zoneName } from '../lib/format';
import { changeSettings, darkNow, useSettings } from '../lib/settings';
import { Logo } from './Logo';
import { overlay } from './overlay';
import { pageOf } from './pages';
import { useSession } from './session';
import { useStore } from './store';
import { Who } from './Who';

function LiveWord() {
  const mode = useLive((live) => live.mode);
  const retryAt = useLive((live) => live.retryAt);
  const rate = useLive((live) => live.rate);
  const { down, nextAt } = useStore();
  const now = useNow();
  if (down || mode === 'reconnecting') {
    const left = Math.max(0, Math.ceil(((down ? nextAt : retryAt) - now) / 1000));
    return (
      <span className="status m-warn">
        <Icon name="retry" size={14} />
        {t('live.reconnecting', { n: left })}
      </span>
    );
  }
  if (mode === 'paused') {
    return (
      <span className="status m-human">
        <Icon name="pause" size={14} />
        {t('live.paused')}
      </span>
    );
  }
  if (mode === 'polling') {
    return (
      <span className="status calm">
        <Icon name="clock" size={14} />
        {t('live.polling')}
      </span>
    );
  }
  return (
    <>
      <i className="live-dot" />
      <span className="only-wide">{t('live.live')}</span>
      {rate !== null && <span className="t3 only-wide">{rate}/s</span>}
    </>
  );
}

export function TopBar() {
  const settings = useSettings();
  const session = useSession();
  const path = useLocation({ select: (location) => location.pathname });
  const page = pageOf(path);
  const deep = path.split('/').filter(Boolean).length > 1;
  return (
    <header className="top">
      <div className="only-mobile row">
        {deep ? (
          <Link to={page.to} className="row strong" aria-label={t(page.word)}>
            <Icon name="chevronLeft" size={18} />
            {t(page.word)}
          </Link>
        ) : (
          <span className="row strong">
            <Logo />
            Postrider
          </span>
        )}
      </div>
      <button type="button" className="search only-wide" onClick={() => overlay('palette')}>
        <Icon name="search" size={14} />
        <span>{t('search.hint')}</span>
        <kbd>/</kbd>
      </button>
      <div className="tools">
        {session && <span className="env only-mobile">{session.environment.name.toUpperCase()}</span>}
        <button type="button" onClick={togglePause} aria-label={t('live.toggle')}>
          <LiveWord />
        </button>
        <button
          type="button"
          className="only-wide"
          onClick={() => changeSettings({ zone: settings.zone === 'utc' ? 'local' : 'utc' })}
          aria-label={t('zone.toggle', { z: zoneName() })}
        >
          <Icon name="clock" size={14} />
          {zoneName()}
        </button>
        <button
          type="button"
          className="only-wide"
          onClick={() => void changeLanguage(settings.language === 'zh' ? 'en' : 'zh')}
          aria-label={t('language.toggle')}
        >
          <span className={settings.language === 'zh' ? 'strong' : ''} lang="zh">
            中
          </span>
          /<span className={settings.language === 'en' ? 'strong' : ''}>EN</span>
        </button>
        <button
          type="button"
          className="only-wide"
          onClick={() => changeSettings({ theme: darkNow() ? 'light' : 'dark' })}
          aria-label={t('theme.toggle')}
        >
          <Icon name={darkNow() ? 'moon' : 'sun'} size={15} />
        </button>
        <span className="only-wide">
          <Who />
        </span>
        <button
          type="button"
          className="search only-mobile"
          onClick={() => overlay('palette')}
          aria-label={t('search.hint')}
        >
          <Icon name="search" size={18} />
        </button>
      </div>
    </header>
  );
}
