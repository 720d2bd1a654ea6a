// The event as something to paste elsewhere. It shows what will be copied; a token is never part of it.
import { useRef, useState } from 'react';
import { apiBase } from '../../api/client';
import type { EventDetail } from '../../api/pending';
import { Button } from '../../components/Button';
import { copyText } from '../../components/Copy';
import { Icon, type IconName } from '../../components/Icon';
import { Menu } from '../../components/Menu';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';
import { quote } from '../../lib/cli';
import { usePageKeys } from '../../shell/keys';

type Form = { name: string; icon: IconName; text: string };

export function formsOf(event: EventDetail, server: string, page: string): Form[] {
  const id = event.eventId;
  const shell = quote(id);
  return [
    { name: t('copy.link'), icon: 'link', text: page },
    { name: 'CLI', icon: 'terminal', text: `postrider events show \\\n  ${shell} \\\n  --server ${server}` },
    {
      name: 'cURL',
      icon: 'world',
      text: `curl -H "authorization: Bearer $POSTRIDER_TOKEN" \\\n  ${server}/api/v1/events/${encodeURIComponent(id)}`,
    },
    {
      name: 'SQL',
      icon: 'database',
      text: `SELECT * FROM postrider_event\nWHERE event_id = '${id.replaceAll("'", "''")}';`,
    },
    {
      name: t('copy.redrive'),
      icon: 'repeat',
      text: `postrider events redrive \\\n  ${shell} \\\n  --server ${server}`,
    },
    { name: 'JSON', icon: 'copy', text: event.payloadText ?? '' },
  ];
}

/** `c` opens it, `⇧C` copies the link. */
export function CopyAs({ event, small }: { event: EventDetail; small?: boolean }) {
  const page = `${apiBase}/events/${encodeURIComponent(event.eventId)}`;
  const forms = formsOf(event, apiBase, small ? page : (location.href.split('#')[0] ?? ''));
  const [shown, setShown] = useState(1);
  const button = useRef<HTMLButtonElement>(null);
  const copy = (form: Form) => {
    void copyText(form.text);
    toast({ icon: 'copy', title: t('copied'), text: form.name });
  };
  usePageKeys({
    c: () => {
      button.current?.click();
      // The menu is drawn after this key has been handled.
      requestAnimationFrame(() => document.querySelector<HTMLElement>('.copy-as button')?.focus());
    },
    C: () => copy(forms[0]!),
  });
  return (
    <Menu
      className={`copy-as ${small ? 'up' : ''}`}
      button={(open, toggle) => (
        <Button
          ref={button}
          icon="copy"
          aria-expanded={open}
          aria-label={small ? t('copy.as') : undefined}
          onClick={toggle}
        >
          {!small && (
            <>
              {t('copy.as')} <Icon name="chevronDown" size={12} />
            </>
          )}
        </Button>
      )}
    >
      {(close) => (
        <>
          <div>
            {forms.map((form, index) => (
              <button
                type="button"
                key={form.name}
                className={index === shown ? 'on' : ''}
                onMouseEnter={() => setShown(index)}
                onFocus={() => setShown(index)}
                onClick={() => {
                  copy(form);
                  close();
                }}
              >
                <Icon name={form.icon} size={14} />
                <span className="grow">{form.name}</span>
                {index === 0 && <kbd>⇧C</kbd>}
              </button>
            ))}
          </div>
          <div className="copy-preview">
            <small>{t('copy.what')}</small>
            <pre>{forms[shown]?.text.slice(0, 400)}</pre>
            <small>{t('copy.token')}</small>
          </div>
        </>
      )}
    </Menu>
  );
}
