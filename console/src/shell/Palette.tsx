// ⌘K or /: a bare id, key or trace jumps; the rest are commands.
import { useQuery } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { apiBase } from '../api/client';
import { events, search } from '../api/queries';
import type { SearchHit } from '../api/types';
import { copyText } from '../components/Copy';
import { Modal } from '../components/Dialog';
import { Icon, type IconName } from '../components/Icon';
import { EVENT, StatusIcon } from '../components/Status';
import { changeLanguage, t } from '../i18n';
import { listCommand } from '../lib/cli';
import { storeNow } from '../lib/clock';
import { brief } from '../lib/format';
import { changeSettings, darkNow, settings } from '../lib/settings';
import { MOD } from './keys';
import { PAGES } from './pages';
import { useRefusal } from './session';
import './palette.css';

type Item = {
  /** A key that chooses it at once. */
  hot?: string;
  group: 'jump' | 'do' | 'copy';
  icon: IconName;
  status?: string | null;
  title: string;
  note?: string;
  mono?: boolean;
  more?: string;
  href?: string;
  run?: () => void;
};

/** As many events of a key are looked at to say how many are dead. */
const KEY_EVENTS = 50;

const KIND_ICONS: Record<SearchHit['kind'], IconName> = {
  event: 'list',
  trace: 'tree',
  key: 'key',
  aggregate: 'key',
  topic: 'matrix',
  consumer: 'inbox',
};

function hrefOf(hit: SearchHit): string {
  const id = encodeURIComponent(hit.id);
  switch (hit.kind) {
    case 'event':
      return `/events/${id}`;
    case 'trace':
      return `/traces/${id}`;
    case 'topic':
      return `/events?topic=${id}`;
    case 'consumer':
      return `/consumers?sel=${id}`;
    case 'aggregate':
      // The label is the type and the id.
      return `/stories/${id}?type=${encodeURIComponent(hit.label.slice(0, -hit.id.length).trim())}`;
    default:
      return `/stories/${id}`;
  }
}

/** How far an event is, and how old: 3/4 · 24 m. */
function moreOf(hit: SearchHit): string | undefined {
  if (hit.expected === undefined || !hit.createdAt) return undefined;
  return ` · ${hit.consumed ?? 0}/${hit.expected} · ${brief((storeNow() - Date.parse(hit.createdAt)) / 1000)}`;
}

/** What the events of a key say: 4 events, 1 dead, 1 held. */
function useAbout(key: SearchHit | undefined) {
  const all = useQuery({ ...events({ key: key?.id, limit: KEY_EVENTS }), enabled: key?.kind === 'key' }).data;
  if (!all || key?.kind !== 'key') return null;
  const dead = all.events.reduce((sum, each) => sum + each.failedConsumers, 0);
  const held = all.events.filter((each) => each.held).length;
  const parts = [
    t('palette.events', { n: `${all.nextCursor ? '≥ ' : ''}${all.events.length}` }),
    dead > 0 && t('palette.dead', { n: dead }),
    held > 0 && t('palette.held', { n: held }),
  ];
  return { dead, text: parts.filter(Boolean).join(', ') };
}

function hitItem(hit: SearchHit): Item {
  const story = hit.kind === 'key' || hit.kind === 'aggregate';
  return {
    group: 'jump',
    icon: KIND_ICONS[hit.kind],
    status: hit.status,
    title: hit.label,
    note: story ? t('palette.story') : hit.kind === 'event' || hit.kind === 'trace' ? hit.id : t(`kind.${hit.kind}`),
    more: moreOf(hit),
    mono: !story && hit.kind !== 'consumer' && hit.kind !== 'topic',
    href: hrefOf(hit),
  };
}

function commands(text: string): Item[] {
  const items: Item[] = PAGES.flat().map((page) => ({
    group: 'do',
    icon: page.icon,
    title: t('palette.go', { p: t(page.word) }),
    href: page.to,
  }));
  items.push({
    group: 'do',
    icon: 'sun',
    title: t('palette.theme'),
    run: () => changeSettings({ theme: darkNow() ? 'light' : 'dark' }),
  });
  items.push({
    group: 'do',
    icon: 'world',
    title: t('palette.language'),
    run: () => void changeLanguage(settings().language === 'zh' ? 'en' : 'zh'),
  });
  items.push({
    group: 'do',
    icon: 'clock',
    title: t('palette.zone'),
    run: () => changeSettings({ zone: settings().zone === 'utc' ? 'local' : 'utc' }),
  });
  return items.filter((item) => item.title.toLowerCase().includes(text.toLowerCase()));
}

/** What was asked for, marked in a text. */
function Marked({ text, part }: { text: string; part: string }) {
  const at = part ? text.indexOf(part) : -1;
  if (at < 0) return <>{text}</>;
  return (
    <>
      {text.slice(0, at)}
      <mark>{part}</mark>
      {text.slice(at + part.length)}
    </>
  );
}

export function Palette({ onClose }: { onClose: () => void }) {
  const router = useRouter();
  const [text, setText] = useState('');
  const [asked, setAsked] = useState('');
  const [at, setAt] = useState(0);
  const [took, setTook] = useState<number | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const only = text.startsWith('>');
  const words = only ? text.slice(1).trim() : text.trim();
  useEffect(() => {
    // A short pause, so that a fast typist asks once.
    const timer = setTimeout(() => setAsked(only ? '' : words), 60);
    return () => clearTimeout(timer);
  }, [words, only]);
  const started = useRef(0);
  const query = useQuery({
    ...search(asked),
    queryFn: async (context) => {
      started.current = performance.now();
      const answer = await (search(asked).queryFn as (context: unknown) => Promise<{ hits: SearchHit[] }>)(context);
      setTook(Math.round(performance.now() - started.current));
      return answer;
    },
  });
  const hits = only || !asked ? [] : (query.data?.hits ?? []);
  const operator = useRefusal('operator');
  const key = hits.find((hit) => hit.kind === 'key' || hit.kind === 'aggregate');
  const about = useAbout(key);
  const items: Item[] = hits.map((hit) =>
    hit === key && about ? { ...hitItem(hit), more: ` · ${about.text}` } : hitItem(hit),
  );
  if (key) {
    items.push({
      group: 'do',
      icon: 'repeat',
      title: t('palette.redrive', { q: key.label }),
      note: about ? t('palette.deliveries', { n: about.dead }) : undefined,
      href: `/events?key=${encodeURIComponent(key.id)}&delivery=DEAD`,
    });
    items.push({
      group: 'do',
      icon: 'filter',
      hot: '⇧ ↵',
      title: t('palette.filter', { q: key.id }),
      href: `/events?key=${encodeURIComponent(key.id)}`,
    });
    items.push({
      group: 'copy',
      icon: 'terminal',
      title: 'CLI',
      note: listCommand({ key: key.id }, apiBase),
      mono: true,
      run: () => void copyText(listCommand({ key: key.id }, apiBase)),
    });
  }
  const consumer = hits.find((hit) => hit.kind === 'consumer');
  if (consumer) {
    items.push({
      group: 'do',
      icon: 'alert',
      title: t('palette.failures', { c: consumer.id }),
      href: `/failures?consumer=${encodeURIComponent(consumer.id)}`,
    });
    if (!operator)
      items.push({
        group: 'do',
        icon: 'pause',
        title: t('palette.pause', { c: consumer.id }),
        href: `/consumers?sel=${encodeURIComponent(consumer.id)}&ask=pause`,
      });
  }
  if (only || words === '' || hits.length === 0) items.push(...commands(words));
  const current = Math.min(at, items.length - 1);

  function choose(item: Item | undefined, newTab = false) {
    if (!item) return;
    if (newTab && item.href) {
      window.open(router.buildLocation({ href: item.href } as never).href ?? item.href, '_blank', 'noopener');
      return;
    }
    onClose();
    item.run?.();
    if (item.href) router.history.push(`${router.basepath === '/' ? '' : router.basepath}${item.href}`);
  }
  function onKey(event: KeyboardEvent) {
    if (event.key === 'ArrowDown') setAt(Math.min(items.length - 1, current + 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(0, current - 1));
    else if (event.key === 'Enter' && event.shiftKey) choose(items.find((item) => item.hot) ?? items[current]);
    else if (event.key === 'Enter') choose(items[current], event.metaKey || event.ctrlKey);
    else return;
    event.preventDefault();
  }
  useEffect(() => {
    list.current?.querySelector(`#palette-${current}`)?.scrollIntoView({ block: 'nearest' });
  }, [current]);

  return (
    <Modal label={t('palette.label')} className="palette" onClose={onClose}>
      <div className="palette-input">
        <Icon name="search" />
        <input
          autoFocus
          value={text}
          role="combobox"
          aria-expanded
          aria-controls="palette-list"
          aria-activedescendant={items.length > 0 ? `palette-${current}` : undefined}
          aria-label={t('palette.label')}
          placeholder={t('search.hint')}
          spellCheck={false}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKey}
        />
        <span className="meta only-wide">{t('palette.hint')}</span>
        <kbd>Esc</kbd>
      </div>
      <div className="palette-list" id="palette-list" role="listbox" aria-label={t('palette.label')} ref={list}>
        {items.length === 0 && <p className="meta palette-none">{t('palette.none', { q: words })}</p>}
        {items.map((item, index) => (
          <div key={`${item.group}${item.title}${item.note ?? ''}`} role="presentation">
            {items[index - 1]?.group !== item.group && <p className="palette-group">{t(`palette.${item.group}`)}</p>}
            <div
              id={`palette-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === current}
              className="palette-item"
              onMouseMove={() => setAt(index)}
              onClick={(event) => choose(item, event.metaKey || event.ctrlKey)}
            >
              {item.status ? <StatusIcon look={EVENT[item.status]!} /> : <Icon name={item.icon} />}
              <b>
                <Marked text={item.title} part={words} />
              </b>
              {item.note && (
                <span className={item.mono ? 'mono t2 cut' : 't2 cut'}>
                  <Marked text={item.note} part={words} />
                </span>
              )}
              {item.more && <span className="t2 nowrap">{item.more}</span>}
              <span className="grow" />
              {item.hot && index !== current && item.hot.split(' ').map((each) => <kbd key={each}>{each}</kbd>)}
              {index === current && (
                <kbd>
                  <Icon name="enter" size={12} />
                </kbd>
              )}
            </div>
          </div>
        ))}
      </div>
      <footer className="palette-foot only-wide">
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> {t('palette.choose')}
        </span>
        <span>
          <kbd>↵</kbd> {t('palette.open')}
        </span>
        <span>
          <kbd>{MOD}</kbd> <kbd>↵</kbd> {t('palette.newtab')}
        </span>
        <span>
          <kbd>&gt;</kbd> {t('palette.commands')}
        </span>
        <span className="grow" />
        {took !== null && asked && <span>{t('palette.ms', { n: took })}</span>}
      </footer>
    </Modal>
  );
}
