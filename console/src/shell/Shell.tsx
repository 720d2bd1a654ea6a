// The frame of every page: environment line, rail, top bar, content, bottom tabs on a phone.

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Outlet, useLocation } from '@tanstack/react-router';
import { useEffect } from 'react';
import { startLive } from '../api/live';
import { session } from '../api/queries';
import { Failed } from '../components/Empty';
import { Toasts } from '../components/Toasts';
import { t } from '../i18n';
import { KeysDialog } from './KeysDialog';
import { useKeys } from './keys';
import { overlay, useOverlay } from './overlay';
import { Palette } from './Palette';
import { pageOf } from './pages';
import { Rail, TabBar } from './Rail';
import { StoreDown } from './StoreDown';
import { environmentClass } from './session';
import { attachStore, useStore } from './store';
import { TopBar } from './TopBar';

export function Shell() {
  const client = useQueryClient();
  const query = useQuery(session);
  const path = useLocation({ select: (location) => location.pathname });
  const open = useOverlay();
  const store = useStore();
  useKeys();
  useEffect(() => startLive(client), [client]);
  useEffect(() => attachStore(client), [client]);
  const environment = query.data?.environment.name ?? '';
  const page = pageOf(path);
  useEffect(() => {
    const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]');
    if (icon && environment) icon.href = `./favicon-${environmentClass(environment).slice(4)}.svg`;
    document.title = [environment.toUpperCase(), t(page.word), 'Postrider'].filter(Boolean).join(' · ');
  }, [environment, page]);

  return (
    <div className={`shell ${environmentClass(environment)}`}>
      <button type="button" className="skip" onClick={() => document.getElementById('main')?.focus()}>
        {t('skip')}
      </button>
      <Rail />
      <div>
        <TopBar />
        <main id="main" tabIndex={-1}>
          {store.down ? (
            <StoreDown />
          ) : query.error && !query.data ? (
            <div className="page">
              <Failed error={query.error} what={t('read.failed')} retry={() => query.refetch()} />
            </div>
          ) : (
            <Outlet />
          )}
        </main>
      </div>
      <TabBar />
      <Toasts />
      {open === 'palette' && <Palette onClose={() => overlay(null)} />}
      {open === 'keys' && <KeysDialog onClose={() => overlay(null)} />}
    </div>
  );
}
