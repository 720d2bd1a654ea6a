import { useState } from 'react';
import { t } from '../i18n';
import { Icon } from './Icon';

export async function copyText(text: string): Promise<void> {
  await navigator.clipboard.writeText(text).catch(() => undefined);
}

export function Copy({ text, className = '' }: { text: string; className?: string }) {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      className={`copy ${className}`}
      aria-label={done ? t('copied') : t('copy.this', { what: text.slice(0, 80) })}
      onClick={(event) => {
        event.stopPropagation();
        void copyText(text).then(() => setDone(true));
        setTimeout(() => setDone(false), 1500);
      }}
    >
      <Icon name={done ? 'tick' : 'copy'} size={13} />
    </button>
  );
}

/** Text in a box, with copy. */
export function Code({ text, lead }: { text: string; lead?: string }) {
  return (
    <div className="code">
      {lead && <span className="m-bad c">{lead}</span>}
      {text}
      <Copy text={(lead ?? '') + text} />
    </div>
  );
}

/** The same screen as a command. */
export function Cli({ line }: { line: string }) {
  return (
    <div className="cli">
      <Icon name="terminal" size={14} />
      <code>{line}</code>
      <Copy text={line} />
    </div>
  );
}
