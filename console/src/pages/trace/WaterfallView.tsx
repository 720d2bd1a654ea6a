// Tree and waterfall are one table: rows aligned, the failed path bold.
import { useQuery } from '@tanstack/react-query';
import type { KeyboardEvent } from 'react';
import { consumers as consumersQuery } from '../../api/queries';
import { Icon } from '../../components/Icon';
import { DELIVERY, EVENT, StatusIcon } from '../../components/Status';
import { t } from '../../i18n';
import { clock, duration, offset, took } from '../../lib/format';
import { isCollapsed, shareOf, type Waterfall, type WaterRow } from '../../lib/waterfall';

type Props = { fall: Waterfall; rows: WaterRow[]; collapse: boolean; chosen?: string; onChoose: (id: string) => void };
const percent = (share: number) => `${(share * 100).toFixed(3)}%`;

export function WaterfallView({ fall, rows, collapse, chosen, onChoose }: Props) {
  const consumers = useQuery(consumersQuery()).data ?? [];
  const via = (id: string) => consumers.find((each) => each.consumerId === id)?.via ?? '';
  const x = (at: number) => shareOf(fall, at, collapse);
  const cut = isCollapsed(fall, collapse);
  const whole = (cut ? fall.cut : fall.end) - fall.start;
  const step = niceStep(whole);
  const ticks = Array.from({ length: Math.floor(whole / step) + 1 }, (_, index) => index * step);
  const key = (event: KeyboardEvent, index: number) => {
    const next = event.key === 'ArrowDown' ? index + 1 : event.key === 'ArrowUp' ? index - 1 : -1;
    if (event.key === 'Enter') onChoose(rows[index]!.id);
    else if (next >= 0 && next < rows.length)
      (event.currentTarget.parentElement?.children[next] as HTMLElement | undefined)?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <div className="card fall">
      <div className="fall-row fall-head">
        <div className="fall-name">{t('trace.tree')}</div>
        <div className="num">{t('trace.starts')}</div>
        <div className="fall-track">
          {ticks.map((ms) => (
            <span key={ms} style={{ left: percent(x(fall.start + ms)) }}>
              {ms === 0 ? clock(fall.start, 3) : tick(ms)}
            </span>
          ))}
          {cut && (
            <>
              <span style={{ left: percent(0.76) }}>{'//'}</span>
              <span style={{ left: percent(0.84) }}>{offset(fall.end - fall.start)}</span>
            </>
          )}
        </div>
      </div>
      <div className="fall-body" role="tree" aria-label={t('trace.tree')}>
        {rows.map((row, index) => (
          <div
            key={row.id}
            role="treeitem"
            aria-level={row.depth + 1}
            aria-selected={row.id === chosen}
            aria-label={[
              row.name,
              row.state ? t(DELIVERY[row.state].word) : row.event ? t(EVENT[row.event.status]!.word) : t('trace.stub'),
            ].join(': ')}
            tabIndex={row.id === chosen || (!chosen && index === 0) ? 0 : -1}
            className={`fall-row ${row.kind} ${row.failed && row.kind === 'consumer' ? 'failed' : ''}`}
            onClick={() => onChoose(row.id)}
            onKeyDown={(event) => key(event, index)}
          >
            <div className="fall-name">
              {row.guides.map(
                (on, level) =>
                  level > 0 && (
                    <i
                      key={level}
                      className={`guide ${on ? 'on' : ''} ${level === row.guides.length - 1 ? 'elbow' : ''}`}
                    />
                  ),
              )}
              <RowIcon row={row} />
              <span className={`name ${row.failed && row.kind === 'consumer' ? 'm-bad c strong' : ''}`}>
                {row.name}
              </span>
              <small>
                {row.kind === 'stub'
                  ? t('trace.stub')
                  : row.kind === 'consumer' && row.attempts.length > 1
                    ? t('trace.tries', { n: row.attempts.length })
                    : row.kind === 'consumer'
                      ? via(row.name)
                      : row.note}
              </small>
            </div>
            <div className="num t2">
              {row.kind !== 'stub' && (row.start === fall.start ? '0' : offset(row.start - fall.start))}
            </div>
            <div className="fall-track">
              {ticks.map((ms) => (
                <i key={ms} className="line" style={{ left: percent(x(fall.start + ms)) }} />
              ))}
              {cut && <i className="fall-cut" style={{ left: percent(0.75) }} />}
              {row.kind !== 'stub' && <Bars row={row} x={x} />}
            </div>
          </div>
        ))}
      </div>
      <footer className="fall-legend">
        {(['wait', 'good', 'bad', 'gap', 'span'] as const).map((kind) => (
          <span key={kind}>
            <i className={`bar ${kind}`} /> {t(`fall.${kind}`)}
          </span>
        ))}
      </footer>
    </div>
  );
}

/** 0.5 s · 2 s · 5 m 00 s, without digits that say nothing. */
function tick(ms: number): string {
  return ms >= 100 && ms < 60_000 ? `${Number((ms / 1000).toFixed(2))} s` : took(ms);
}

function niceStep(ms: number): number {
  const unit = 10 ** Math.floor(Math.log10(ms));
  return [0.1, 0.2, 0.25, 0.5, 1].map((part) => part * unit).find((step) => ms / step <= 5) ?? unit * 2;
}

function RowIcon({ row }: { row: WaterRow }) {
  if (row.kind === 'stub') return <i className="stub-mark" />;
  if (row.kind === 'event') return <StatusIcon look={EVENT[row.event!.status]!} size={15} />;
  return <StatusIcon look={DELIVERY[row.state!]} size={14} />;
}

function Bars({ row, x }: { row: WaterRow; x: (at: number) => number }) {
  const tries = row.attempts.length;
  const label =
    row.state === 'dead' && tries > 2
      ? t('fall.tries', {
          code: row.attempts.at(-1)?.errorCode ?? t('status.FAILED'),
          n: tries - 1,
          t: duration((row.end - row.bars[1]!.to) / 1000),
        })
      : null;
  const last = row.bars.at(-1);
  const worked = last ? last.to - last.from : 0;
  return (
    <>
      {row.bars.map((bar, index) => (
        <i
          key={index}
          className={`bar ${bar.kind}`}
          style={{ left: percent(x(bar.from)), width: percent(x(bar.to) - x(bar.from)) }}
        />
      ))}
      {label && (
        <span className="fall-label m-bad c" style={{ left: percent(x(row.bars[1]!.to) + 0.04) }}>
          {label}
        </span>
      )}
      {row.state === 'dead' ? (
        <span className="fall-end m-bad c" style={{ left: percent(x(row.end)) }}>
          <Icon name="dead" size={16} label={t('delivery.dead')} />
        </span>
      ) : (
        row.bars.length > 0 &&
        // A server that does not tell when an attempt began tells not how long it took either.
        (row.kind === 'event' || worked > 0) && (
          <span className="fall-took" style={{ left: percent(x(row.end)) }}>
            {took(row.kind === 'event' ? row.end - row.start : worked)}
          </span>
        )
      )}
    </>
  );
}
