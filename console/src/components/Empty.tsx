import type { ReactNode } from 'react';
import { ApiError } from '../api/client';
import { t } from '../i18n';
import { Button } from './Button';
import { copyText } from './Copy';
import { Icon, type IconName } from './Icon';

export function Empty(props: { icon: IconName; title: string; text?: ReactNode; children?: ReactNode }) {
  return (
    <div className="empty">
      <Icon name={props.icon} size={18} />
      <h3>{props.title}</h3>
      {props.text && <p>{props.text}</p>}
      {props.children && <div className="row">{props.children}</div>}
    </div>
  );
}

/** Cause, code, request id, another try. */
export function Failed({ error, what, retry }: { error: unknown; what: string; retry?: () => void }) {
  const known = error instanceof ApiError ? error : null;
  const line = known ? [known.status || '', known.code].join(' ') : String(error);
  return (
    <div className="empty failed" role="alert">
      <Icon name="alert" size={18} />
      <h3>{what}</h3>
      {known?.detail && <p>{known.detail}</p>}
      <p>
        {line} {known?.requestId && <code>· {known.requestId}</code>}
      </p>
      <div className="row">
        {retry && (
          <Button small onClick={retry}>
            {t('try.again')}
          </Button>
        )}
        <Button
          small
          kind="quiet"
          onClick={() => void copyText(`${what}\n${line} ${known?.detail ?? ''} ${known?.requestId ?? ''}`)}
        >
          {t('copy.details')}
        </Button>
      </div>
    </div>
  );
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div className="empty" aria-busy="true">
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} className="skeleton" style={{ width: `${60 + ((index * 17) % 35)}%` }} />
      ))}
    </div>
  );
}

type Read<T> = { data: T | undefined; error: unknown; isPending: boolean; refetch: () => unknown };

/** Old data stays while new data comes; an error shows only where there is nothing to show. */
export function Loaded<T>({
  query,
  what,
  children,
}: {
  query: Read<T>;
  what?: string;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return children(query.data);
  if (query.error) return <Failed error={query.error} what={what ?? t('read.failed')} retry={() => query.refetch()} />;
  return <Skeleton />;
}
