// Icon + word + colour for events, deliveries and consumers. Only what needs an action has a coloured word.
import { type MessageKey, t } from '../i18n';
import { Icon, type IconName } from './Icon';

export type Meaning = 'ok' | 'info' | 'warn' | 'part' | 'bad' | 'human' | 'idle';
export type Look = { icon: IconName; meaning: Meaning; calm?: boolean; word: MessageKey };

export const EVENT: Record<string, Look> = {
  PENDING: { icon: 'clock', meaning: 'idle', calm: true, word: 'status.PENDING' },
  SENT: { icon: 'plane', meaning: 'info', calm: true, word: 'status.SENT' },
  RETRYING: { icon: 'retry', meaning: 'warn', word: 'status.RETRYING' },
  PARTIAL: { icon: 'half', meaning: 'part', word: 'status.PARTIAL' },
  FAILED: { icon: 'cross', meaning: 'bad', word: 'status.FAILED' },
  CONSUMED: { icon: 'check', meaning: 'ok', calm: true, word: 'status.CONSUMED' },
  EXPIRED: { icon: 'hourglass', meaning: 'idle', calm: true, word: 'status.EXPIRED' },
};

export type DeliveryState = 'waiting' | 'delivering' | 'retrying' | 'done' | 'dead' | 'held';
export const DELIVERY: Record<DeliveryState, Look> = {
  waiting: { icon: 'clock', meaning: 'idle', calm: true, word: 'delivery.waiting' },
  delivering: { icon: 'bolt', meaning: 'info', word: 'delivery.delivering' },
  retrying: { icon: 'retry', meaning: 'warn', word: 'delivery.retrying' },
  done: { icon: 'check', meaning: 'ok', calm: true, word: 'delivery.done' },
  dead: { icon: 'dead', meaning: 'bad', word: 'delivery.dead' },
  held: { icon: 'lock', meaning: 'idle', calm: true, word: 'delivery.held' },
};

export type ConsumerState = 'active' | 'silent' | 'paused' | 'disabled';
export const CONSUMER: Record<ConsumerState, Look> = {
  active: { icon: 'pulse', meaning: 'ok', calm: true, word: 'consumer.active' },
  silent: { icon: 'clock', meaning: 'warn', word: 'consumer.silent' },
  paused: { icon: 'pause', meaning: 'human', word: 'consumer.paused' },
  disabled: { icon: 'minus', meaning: 'idle', calm: true, word: 'consumer.disabled' },
};

export const EVENT_ORDER = ['PENDING', 'SENT', 'RETRYING', 'PARTIAL', 'FAILED', 'CONSUMED', 'EXPIRED'];

export function StatusWord({ look, extra, size = 15 }: { look: Look; extra?: string; size?: number }) {
  return (
    <span className={`status m-${look.meaning} ${look.calm ? 'calm' : 'loud'}`}>
      <Icon name={look.icon} size={size} />
      {t(look.word)}
      {extra && ` ${extra}`}
    </span>
  );
}

export function StatusPill({ look, extra }: { look: Look; extra?: string }) {
  return (
    <span className={`pill m-${look.meaning}`}>
      <Icon name={look.icon} size={14} />
      <span>
        {t(look.word)}
        {extra && ` ${extra}`}
      </span>
    </span>
  );
}

export function StatusIcon({ look, size = 15 }: { look: Look; size?: number }) {
  return (
    <span className={`status m-${look.meaning}`}>
      <Icon name={look.icon} size={size} label={t(look.word)} />
    </span>
  );
}
