// Numbers, durations and moments, in the two languages. Pure: language and zone are arguments with defaults.
import { settings } from './settings';

const zh = () => settings().language === 'zh';

export function number(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** 12,480 → "12 k" or "1.2 万", for places with little room. */
export function short(value: number): string {
  if (value < 10_000) return number(value);
  if (zh()) return value < 1e8 ? `${trimmed(value / 1e4)} 万` : `${trimmed(value / 1e8)} 亿`;
  if (value < 1_000_000) return `${Math.round(value / 1000)} k`;
  return `${(value / 1_000_000).toFixed(1)} M`;
}

/** 1,204,118 → "1.2 million" or "120.4 万", in a sentence. */
export function words(value: number): string {
  return value < 1_000_000 || zh() ? short(value) : `${(value / 1_000_000).toFixed(1)} million`;
}

export function counted(count: { value: number; exact: boolean }, form: (value: number) => string = number): string {
  return count.exact ? form(count.value) : `≈ ${form(count.value)}`;
}

export function percent(fraction: number): string {
  return `${(fraction * 100).toFixed(1)} %`;
}

const UNITS = {
  en: { s: 's', m: 'm', h: 'h', d: 'd' },
  zh: { s: '秒', m: '分', h: '小时', d: '天' },
};

/** A duration in two units at most: 7 s · 3 m 48 s · 2 h 05 m · 3 d 4 h. */
export function duration(seconds: number, lang: 'en' | 'zh' = settings().language): string {
  const unit = UNITS[lang];
  const s = Math.max(0, Math.floor(seconds));
  const two = (value: number) => String(value).padStart(2, '0');
  if (s < 60) return `${s} ${unit.s}`;
  if (s < 3600) return `${Math.floor(s / 60)} ${unit.m} ${two(s % 60)} ${unit.s}`;
  if (s < 86_400) return `${Math.floor(s / 3600)} ${unit.h} ${two(Math.floor((s % 3600) / 60))} ${unit.m}`;
  return `${Math.floor(s / 86_400)} ${unit.d} ${Math.floor((s % 86_400) / 3600)} ${unit.h}`;
}

/** A duration in one unit, for narrow columns. */
export function brief(seconds: number, lang: 'en' | 'zh' = settings().language): string {
  const unit = UNITS[lang];
  if (seconds < 1) return `<1 ${unit.s}`;
  if (seconds < 60) return `${Math.floor(seconds)} ${unit.s}`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} ${unit.m}`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} ${unit.h}`;
  return `${Math.floor(seconds / 86_400)} ${unit.d}`;
}

/** One decimal below 100, none above; no zero after the point. */
function trimmed(value: number): string {
  return value < 100 ? String(Number(value.toFixed(1))) : number(value);
}

/** Milliseconds of work: 24 ms · 1.02 s · 17 m 03 s. */
export function took(ms: number, digits = 0): string {
  if (ms < 1000) return `${ms.toFixed(digits)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return duration(ms / 1000);
}

/** The distance between two moments with its sign: +107 ms · +1.7 s · −71 s. */
export function offset(ms: number): string {
  const sign = ms < 0 ? '−' : '+';
  const size = Math.abs(ms);
  if (size < 1) return '0';
  if (size < 1000) return `${sign}${Math.round(size)} ms`;
  if (size < 10_000) return `${sign}${(size / 1000).toFixed(1)} s`;
  if (size < 120_000) return `${sign}${Math.round(size / 1000)} s`;
  return `${sign}${duration(size / 1000)}`;
}

/** Time left: 00:15 · 1:27:53. */
export function countdown(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const two = (value: number) => String(value).padStart(2, '0');
  const tail = `${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}`;
  return s >= 3600 ? `${Math.floor(s / 3600)}:${tail}` : tail;
}

function zone(): string | undefined {
  return settings().zone === 'utc' ? 'UTC' : undefined;
}

function parts(at: string | number): Record<string, string> {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone(),
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  });
  return Object.fromEntries(format.formatToParts(new Date(at)).map((part) => [part.type, part.value]));
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const WEEKDAYS_ZH: Record<string, string> = {
  Mon: '一',
  Tue: '二',
  Wed: '三',
  Thu: '四',
  Fri: '五',
  Sat: '六',
  Sun: '日',
};

/** 14:31:19, or with milliseconds 14:31:19.204. */
export function clock(at: string | number, digits: 0 | 1 | 3 = 0): string {
  const p = parts(at);
  const ms = String(new Date(at).getMilliseconds()).padStart(3, '0').slice(0, digits);
  return `${p.hour}:${p.minute}:${p.second}${digits ? `.${ms}` : ''}`;
}

/** 14:31 */
export function hourMinute(at: string | number): string {
  const p = parts(at);
  return `${p.hour}:${p.minute}`;
}

/** 16 Nov · 11 月 16 日 */
export function dayMonth(at: string | number): string {
  const p = parts(at);
  return zh() ? `${Number(p.month)} 月 ${Number(p.day)} 日` : `${Number(p.day)} ${MONTHS[Number(p.month) - 1]}`;
}

/** Wed 18 Nov, 14:32:07 · 11 月 18 日 周三 14:32:07 */
export function dateTime(at: string | number): string {
  const p = parts(at);
  return zh()
    ? `${dayMonth(at)} 周${WEEKDAYS_ZH[p.weekday!]} ${clock(at)}`
    : `${p.weekday} ${dayMonth(at)}, ${clock(at)}`;
}

/** 2026-11-18, in the chosen zone. Two moments of one day have the same text. */
export function isoDay(at: string | number): string {
  const p = parts(at);
  return `${p.year}-${p.month}-${p.day}`;
}

/** Order 123, the thing of the business that a key stands for. */
export function subject(type: string | null | undefined, id: string | null | undefined): string {
  const name = type ? type.charAt(0).toUpperCase() + type.slice(1).toLowerCase() : '';
  return [name, id].filter(Boolean).join(' ');
}

const DAY_MS = 86_400_000;
const YESTERDAY = { en: 'yesterday', zh: '昨天' };

/** For columns with little room: 14:18 · yesterday · 16 Nov. */
export function day(at: string | number, now: number): string {
  if (isoDay(at) === isoDay(now)) return hourMinute(at);
  return isoDay(at) === isoDay(now - DAY_MS) ? YESTERDAY[settings().language] : dayMonth(at);
}

/** The time for today, the day and the time for earlier. */
export function moment(at: string | number, now: number): string {
  return isoDay(at) === isoDay(now) ? hourMinute(at) : `${dayMonth(at)}${zh() ? ' ' : ', '}${hourMinute(at)}`;
}

/** UTC, UTC+8, UTC+5:30 */
export function zoneName(): string {
  if (zone()) return 'UTC';
  const minutes = -new Date().getTimezoneOffset();
  if (minutes === 0) return 'UTC+0';
  const size = Math.abs(minutes);
  const rest = size % 60 ? `:${String(size % 60).padStart(2, '0')}` : '';
  return `UTC${minutes < 0 ? '−' : '+'}${Math.floor(size / 60)}${rest}`;
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 ** 2) return `${(size / 1024).toFixed(1)} KiB`;
  if (size < 1024 ** 3) return `${(size / 1024 ** 2).toFixed(1)} MiB`;
  return `${(size / 1024 ** 3).toFixed(1)} GiB`;
}

/** An error up to its code, or its first clause. */
export function shortError(message: string, code: string | null | undefined): string {
  const first = message.split(/[:.;]/)[0]!.trim();
  const at = code ? first.indexOf(code) : -1;
  return code && at > 0 ? first.slice(0, at + code.length) : first;
}

/** The first and last characters of a long id. */
export function middle(id: string, head = 4, tail = 4): string {
  return id.length > head + tail + 3 ? `${id.slice(0, head)}…${id.slice(-tail)}` : id;
}
