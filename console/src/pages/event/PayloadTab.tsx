import { useMemo, useState } from 'react';
import { url } from '../../api/client';
import { type JsonNode, losesDigits, parseJson } from '../../api/json';
import type { EventDetail } from '../../api/pending';
import { Segments } from '../../components/Controls';
import { Copy } from '../../components/Copy';
import { Empty } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { t } from '../../i18n';
import { bytes, clock, zoneName } from '../../lib/format';
import { useRefusal } from '../../shell/session';
import { firstClosed, type Line, linesOf } from './jsonLines';

/** Longer payloads are shown as a preview and can be downloaded. */
const PREVIEW = 65_536;

function parsed(text: string): JsonNode | null {
  try {
    return text.length <= PREVIEW ? parseJson(text) : null;
  } catch {
    return null;
  }
}

/** The payload as text. A cut one comes as a string, because a piece of JSON is no JSON. */
function rawOf(event: EventDetail): string | null {
  const text = event.payloadText;
  return event.payloadTruncated && text?.startsWith('"') ? (JSON.parse(text) as string) : text;
}

export function PayloadTab({ event }: { event: EventDetail }) {
  const [mode, setMode] = useState<'tree' | 'raw'>('tree');
  const refused = useRefusal('operator');
  const text = rawOf(event);
  const size = event.payloadBytes ?? text?.length ?? 0;
  const node = useMemo(() => (text ? parsed(text) : null), [text]);
  if (event.masked || text === null) {
    return (
      <div className="card">
        <Empty icon="lock" title={t('payload.masked')} text={refused} />
      </div>
    );
  }
  const cut = event.payloadTruncated || text.length > PREVIEW;
  return (
    <div className="card payload">
      <header>
        <Segments
          label={t('payload.view')}
          value={mode}
          onChange={setMode}
          options={[
            { value: 'tree', label: t('payload.tree') },
            { value: 'raw', label: t('payload.raw') },
          ]}
        />
        <span className="meta">
          {event.payloadType} · {bytes(size)}
        </span>
        <span className="grow" />
        <span className="meta row only-wide">
          <Icon name="lock" size={13} />
          {t('payload.viewers')}
        </span>
        <Copy text={text} />
        <a className="btn small" href={url(`/events/${encodeURIComponent(event.eventId)}/payload`)} download>
          <Icon name="download" size={14} />
          {t('download')}
        </a>
      </header>
      {cut && <p className="payload-cut m-warn">{t('payload.cut', { n: bytes(PREVIEW) })}</p>}
      {mode === 'tree' && node ? <Tree node={node} /> : <pre tabIndex={0}>{text.slice(0, PREVIEW)}</pre>}
    </div>
  );
}

function Tree({ node }: { node: JsonNode }) {
  const [closed, setClosed] = useState<Set<string>>(() => firstClosed(node));
  const lines = linesOf(node, closed);
  const toggle = (path: string) => {
    const next = new Set(closed);
    if (!next.delete(path)) next.add(path);
    setClosed(next);
  };
  return (
    <div className="json" tabIndex={0} role="region" aria-label={t('tab.payload')}>
      {lines.map((line, index) => (
        <div key={line.path + line.kind} className="json-line">
          <span className="json-n">{index + 1}</span>
          <span className="json-fold">
            {line.foldable && (
              <button
                type="button"
                className="hit"
                aria-expanded={!closed.has(line.path)}
                aria-label={t('json.fold', { name: line.name ?? line.path })}
                onClick={() => toggle(line.path)}
              >
                <Icon name={closed.has(line.path) ? 'chevronRight' : 'chevronDown'} size={12} />
              </button>
            )}
          </span>
          <code style={{ paddingLeft: line.depth * 14 }}>
            <Content line={line} />
          </code>
        </div>
      ))}
    </div>
  );
}

const TOKEN = /("(?:[^"\\]|\\.)*"(?:\s*:)?|-?\d[\d.eE+-]*|\b(?:true|false|null)\b)/;

/** A closed value on its line, in the colours of an open one. */
function Closed({ text }: { text: string }) {
  return text.split(TOKEN).map((piece, index) => {
    if (index % 2 === 0) return piece;
    const kind = piece.startsWith('"')
      ? piece.endsWith(':')
        ? 'key'
        : 'string'
      : /\d/.test(piece)
        ? 'number'
        : 'word';
    return (
      <span key={index} className={`json-${kind}`}>
        {piece}
      </span>
    );
  });
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

function Content({ line }: { line: Line }) {
  return (
    <>
      {line.name !== null && (
        <>
          <span className="json-key">{JSON.stringify(line.name)}</span>
          {': '}
        </>
      )}
      {line.foldable && line.kind === 'one' ? (
        <Closed text={line.text} />
      ) : (
        <span className={`json-${line.type}`}>{line.text}</span>
      )}
      {line.comma && ','}
      {line.count !== null && <span className="tag">{line.count}</span>}
      {line.type === 'number' && losesDigits(line.text) && <span className="tag m-info">{t('json.exact')}</span>}
      {line.type === 'string' && TIME.test(line.raw) && (
        <span className="tag">
          {clock(line.raw)} {zoneName()}
        </span>
      )}
    </>
  );
}
