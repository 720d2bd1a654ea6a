import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { login } from './api/actions';
import { ApiError, whenUnauthorized } from './api/client';
import { loadMessages } from './i18n';
import { applySettings, useSettings } from './lib/settings';
import { router } from './router';
import { noteLogin } from './shell/session';
import { noteError } from './shell/store';
import './styles/tokens.css';
import './styles/base.css';
import './styles/components.css';
import './styles/shell.css';
import './styles/forced.css';

const client = new QueryClient({
  queryCache: new QueryCache({ onError: noteError }),
  mutationCache: new MutationCache({ onError: noteError }),
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      refetchOnWindowFocus: false,
      // A refusal does not change by asking again.
      retry: (count, error) => count < 1 && !(error instanceof ApiError && error.status >= 400 && error.status < 600),
    },
  },
});

/** `#token=` is exchanged for a session and removed from the address before anything is drawn. */
async function exchangeToken(): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (!token) return;
  history.replaceState(null, '', location.pathname + location.search);
  await login(token).catch(noteLogin);
}

/** The session has ended: log in, then come back to the same address. */
whenUnauthorized(() => {
  const here = router.state.location;
  if (here.pathname === '/login') return;
  void router.navigate({ to: '/login', search: { back: here.href } as never, replace: true });
});

/** Language, theme and zone change what every component prints, so all of it is drawn again. */
function App() {
  const { theme, zone, language } = useSettings();
  return <RouterProvider key={`${theme}${zone}${language}`} router={router} />;
}

async function start(): Promise<void> {
  applySettings();
  // The code of the first page is fetched together with its words.
  await Promise.all([exchangeToken(), loadMessages(), router.load()]);
  createRoot(document.getElementById('root')!).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applySettings);
void start();
