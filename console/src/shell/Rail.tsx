import { useQuery } from '@tanstack/react-query';
import { Link, useLocation } from '@tanstack/react-router';
import { failures, operations } from '../api/queries';
import { Icon } from '../components/Icon';
import { Menu } from '../components/Menu';
import { t } from '../i18n';
import { Logo } from './Logo';
import { overlay } from './overlay';
import { PAGES, type PageLink, pageOf } from './pages';
import { storeName, useHealth, useSession } from './session';
import { useStore } from './store';
import { Choices, LogOut, SessionNote } from './Who';

function useBadges() {
  const groups = useQuery(failures).data?.groups.length ?? 0;
  const running = useQuery(operations).data?.find((each) => each.state === 'RUNNING');
  const share = running?.total ? Math.round((running.done / running.total) * 100) : null;
  return { groups, share };
}

type ItemProps = { page: PageLink; current: boolean; groups: number; share: number | null };

function Item({ page, current, groups, share }: ItemProps) {
  return (
    <li>
      <Link to={page.to} aria-current={current ? 'page' : undefined} aria-label={t(page.word)}>
        <Icon name={page.icon} />
        <span className="word">{t(page.word)}</span>
        {page.to === '/failures' && groups > 0 && <span className="badge m-bad">{groups}</span>}
        {page.to === '/operations' && share !== null && <span className="share">{share}%</span>}
      </Link>
    </li>
  );
}

export function Rail() {
  const path = useLocation({ select: (location) => location.pathname });
  const session = useSession();
  const { down } = useStore();
  const badges = useBadges();
  const instances = useHealth().data?.instances.length;
  const current = pageOf(path);
  return (
    <div className="rail">
      <div className="brand">
        <Link to="/" aria-label="Postrider">
          <Logo />
          <span className="word">Postrider</span>
        </Link>
        {session && <span className="env">{session.environment.name.toUpperCase()}</span>}
      </div>
      <nav aria-label={t('nav')}>
        {PAGES.map((group, index) => (
          <ul key={index}>
            {group.map((page) => (
              <Item key={page.to} page={page} current={page === current} {...badges} />
            ))}
          </ul>
        ))}
      </nav>
      <footer>
        <div className="row">
          <span className={`dot ${down ? 'm-bad' : 'm-ok'}`} />
          <span className="cut">
            {(down && instances === undefined && t('down.banner')) ||
              [
                instances !== undefined && t('instances.n', { n: instances }),
                storeName(session?.store),
                session?.broker,
              ]
                .filter(Boolean)
                .join(' · ')}
          </span>
        </div>
        <div className="between">
          <span>postrider {session?.version}</span>
          <button type="button" className="hit" aria-label={t('keys.title')} onClick={() => overlay('keys')}>
            <kbd>?</kbd>
          </button>
        </div>
      </footer>
    </div>
  );
}

/** Five tabs for the thumb. The last one holds the rest. */
export function TabBar() {
  const path = useLocation({ select: (location) => location.pathname });
  const { groups } = useBadges();
  const current = pageOf(path);
  const all = PAGES.flat();
  const tabs = ['/', '/events', '/failures', '/operations'].map((to) => all.find((page) => page.to === to)!);
  const rest = all.filter((page) => !tabs.includes(page));
  return (
    <nav className="tabbar" aria-label={t('nav')}>
      {tabs.map((page) => (
        <Link key={page.to} to={page.to} aria-current={page === current ? 'page' : undefined}>
          <Icon name={page.icon} size={20} />
          {t(page.word)}
          {page.to === '/failures' && groups > 0 && <span className="badge m-bad">{groups}</span>}
        </Link>
      ))}
      <Menu
        className="up"
        button={(open, toggle) => (
          <button type="button" className="tab" aria-expanded={open} onClick={toggle}>
            <Icon name="menu" size={20} />
            {t('nav.more')}
          </button>
        )}
      >
        {(close) => (
          <>
            {rest.map((page) => (
              <Link key={page.to} to={page.to} onClick={close}>
                <Icon name={page.icon} />
                {t(page.word)}
              </Link>
            ))}
            <hr />
            <Choices />
            <hr />
            <SessionNote />
            <LogOut onDone={close} />
          </>
        )}
      </Menu>
    </nav>
  );
}
