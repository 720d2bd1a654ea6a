// What moved and came back, and what is near.
import { Link } from '@tanstack/react-router';
import type { Story as StoryData } from '../../api/pending';
import { Icon } from '../../components/Icon';
import { t } from '../../i18n';
import { hourMinute, middle } from '../../lib/format';
import { type Asset, isBalanced } from './balance';

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
            <b>{asset.name}</b>
            <span className={`status ${isBalanced(asset) ? 'm-ok' : 'm-warn'}`}>
              <span className={isBalanced(asset) ? 'strong balance-net' : 'strong'}>{asset.net}</span>
              <Icon name={isBalanced(asset) ? 'check' : 'retry'} size={14} />
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
                <small>{move.at ? hourMinute(move.at) : t('delivery.waiting')}</small>
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
