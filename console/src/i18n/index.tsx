// `t` gives text, `tx` gives text with elements in it. Messages of one language are loaded at a time.
import { Fragment, type ReactNode } from 'react';
import { changeSettings, type Settings, settings } from '../lib/settings';
import type { en } from './messages-en';
import { fill, pieces, type Values } from './translate';

export type MessageKey = keyof typeof en;
export type Messages = Record<MessageKey, string>;

let messages = {} as Messages;

export async function loadMessages(language: Settings['language'] = settings().language): Promise<void> {
  messages = language === 'zh' ? (await import('./messages-zh')).zh : (await import('./messages-en')).en;
}

export async function changeLanguage(language: Settings['language']): Promise<void> {
  await loadMessages(language);
  changeSettings({ language });
}

export function t(key: MessageKey, values?: Values): string {
  return fill(messages[key] ?? key, values);
}

/** Whether there is a message of this name, for names that come from the server. */
export function has(key: string): key is MessageKey {
  return key in messages;
}

export function tx(key: MessageKey, values: Record<string, ReactNode>): ReactNode {
  return pieces(messages[key] ?? key).map((piece, index) => {
    if (typeof piece === 'string') return piece;
    const value = values[piece.name];
    if (piece.one !== undefined) return String(value) === '1' ? piece.one : piece.many;
    return <Fragment key={index}>{value}</Fragment>;
  });
}
