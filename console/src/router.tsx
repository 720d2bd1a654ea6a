import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet } from '@tanstack/react-router';
import { basePath } from './api/client';
import { parseSearch, stringifySearch } from './lib/url';
import { NotFound } from './shell/NotFound';
import { Shell } from './shell/Shell';

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound });
const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  component: lazyRouteComponent(() => import('./pages/login'), 'Login'),
});
const shell = createRoute({ getParentRoute: () => root, id: 'shell', component: Shell });

// biome-ignore lint/suspicious/noExplicitAny: each page module has one named component
type Load = () => Promise<any>;
const page = (path: string, load: Load, name: string) =>
  createRoute({ getParentRoute: () => shell, path, component: lazyRouteComponent(load, name) });

const pages = [
  page('/', () => import('./pages/overview'), 'Overview'),
  page('/events', () => import('./pages/events'), 'Events'),
  page('/events/$id', () => import('./pages/event'), 'Event'),
  page('/failures', () => import('./pages/failures'), 'Failures'),
  page('/traces', () => import('./pages/traces'), 'Traces'),
  page('/traces/$id', () => import('./pages/trace'), 'Trace'),
  page('/stories/$key', () => import('./pages/story'), 'Story'),
  page('/consumers', () => import('./pages/consumers'), 'Consumers'),
  page('/subscriptions', () => import('./pages/subscriptions'), 'Subscriptions'),
  page('/operations', () => import('./pages/operations'), 'Operations'),
  page('/system', () => import('./pages/system'), 'System'),
  page('/audit', () => import('./pages/audit'), 'Audit'),
];

export const router = createRouter({
  routeTree: root.addChildren([login, shell.addChildren(pages)]),
  basepath: basePath.replace(/\/$/, '') || '/',
  parseSearch,
  stringifySearch,
  defaultPreload: 'intent',
  scrollRestoration: true,
});
