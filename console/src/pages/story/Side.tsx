// What moved and came back, and what is near.
import { Link } from '@tanstack/react-router';
import { Icon } from '../../components/Icon';
import { Countdown } from '../../components/Time';
import { t, tx } from '../../i18n';
import { hourMinute, middle } from '../../lib/format';
import type { Asset, StoryData } from './balance';

function NextTry({ to }: { to: string }) {
  return <>{tx('story.next', { t: <Countdown to={to} /> })}</>;
}

export function Balance({ assets }: { assets: Asset[] }) {
  return (
    <section className="card">
      <header>
        <h2>{t('story.balance')}</h2>
        <span className="grow" />
        <Icon name="scale" />
      </header>
      {assets.map((asset) => (
        <div key={asset.name} className="asset">
          <div className="between">
            <span className="row">
              <Icon name="cube" />
              <b className="wrap">{asset.name}</b>
            </span>
            <span className={`status ${asset.balanced ? 'm-ok' : 'm-warn'}`}>
              <span className={asset.balanced ? 'strong balance-net' : 'strong'}>{asset.net}</span>
              <Icon name={asset.balanced ? 'check' : 'retry'} size={14} />
            </span>
          </div>
          <div className="moves">
            {asset.moves.map((move, index) => (
              <span
                key={index}
                className={`m-${move.open ? 'warn' : move.undo ? 'human' : index === 0 ? 'idle' : 'info'}`}
              >
                <i />
                <small className={move.open ? 'c' : ''}>{move.delta}</small>
                <small>
                  {move.at ? hourMinute(move.at) : move.dueAt ? <NextTry to={move.dueAt} /> : t('delivery.waiting')}
                </small>
              </span>
            ))}
          </div>
        </div>
      ))}
      <footer className="meta">{t('story.balance.note')}</footer>
    </section>
  );
}

export function Nearby({ data }: { data: StoryData }) {
  const traces = [...new Set(data.events.map((each) => each.traceId).filter((id): id is string => !!id))];
  const requests = [...new Set(data.events.map((each) => each.initiator.clientRequestId).filter(Boolean))];
  const redriven = data.events.reduce((sum, each) => sum + each.retryCount, 0);
  return (
    <section className="card">
      <header>
        <h2>{t('story.nearby')}</h2>
      </header>
      <dl className="kv nearby">
        <dt>{t('nav.traces')}</dt>
        <dd>
          {traces.map((id) => (
            <Link key={id} to="/traces/$id" params={{ id } as never} className="mono">
              {middle(id)}{' '}
            </Link>
          ))}
        </dd>
        {requests.length > 0 && (
          <>
            <dt>{t('story.requests')}</dt>
            <dd className="mono">{requests.join(' · ')}</dd>
          </>
        )}
        <dt>{t('story.operators')}</dt>
        <dd>{redriven > 0 ? t('story.redriven', { n: redriven }) : t('story.untouched')}</dd>
      </dl>
    </section>
  );
}
