// What happened to one business key, all of it, once?
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import type { Story as StoryData, StoryEffect, StoryEvent } from '../../api/pending';
import { session, story } from '../../api/queries';
import { Button } from '../../components/Button';
import { Cli, copyText } from '../../components/Copy';
import { Empty, Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { Meter } from '../../components/Meter';
import { DELIVERY, EVENT, StatusIcon, StatusWord } from '../../components/Status';
import { Countdown } from '../../components/Time';
import { toast } from '../../components/Toasts';
import { t, tx } from '../../i18n';
import { clock, hourMinute, middle, number } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { useRefusal } from '../../shell/session';
import { RedriveWizard } from '../../wizard';
import { type Asset, assetsOf, isBalanced, type Open, openParts } from './balance';
import './story.css';

export function Story() {
  const { key } = useParams({ strict: false }) as { key: string };
  const [search] = useUrl();
  const refused = useRefusal('operator');
  const query = useQuery({
    ...story(search.type ? { aggregateType: search.type, aggregateId: key } : { key }),
    enabled: !refused,
  });
  return (
    <div className="page">
      {refused ? (
        <div className="card">
          <Empty icon="lock" title={refused} />
        </div>
      ) : (
        <Loaded query={query} what={t('story.failed', { key })}>
          {(data) => <Shown data={data} />}
        </Loaded>
      )}
    </div>
  );
}

function titleOf(data: StoryData): string {
  if (!data.aggregateType) return data.key;
  const type = data.aggregateType.toLowerCase();
  return `${type.charAt(0).toUpperCase()}${type.slice(1)} ${data.aggregateId ?? data.key}`;
}

function textOf(data: StoryData): string {
  const lines = data.events.flatMap((event) => [
    `${event.occurredAt} ${event.topic} ${event.status} ${event.eventId}`,
    ...event.effects.map(
      (each) =>
        `  ${each.consumerId}: ${each.effect ?? each.state}${each.repeatsStopped ? ` (${each.repeatsStopped} repeats stopped)` : ''}`,
    ),
  ]);
  return [titleOf(data), ...lines].join('\n');
}

function Shown({ data }: { data: StoryData }) {
  const [wizard, setWizard] = useState(false);
  const links = useQuery(session).data?.links ?? {};
  const open = openParts(data.events);
  const assets = assetsOf(data.events);
  const template = data.aggregateType ? links[data.aggregateType] : undefined;
  const ids = [...new Set(open.map((each) => each.event.eventId))];
  const { figures } = data;
  const counts = [
    ['events', figures.events],
    ['effects', figures.effects],
    ['attempts', figures.attempts],
    ['stopped', figures.repeatsStopped],
    ['twice', figures.twice],
  ] as const;
  return (
    <>
      <div className="crumbs">
        <Link to="/traces">{t('nav.traces')}</Link>
        <Icon name="chevronRight" size={12} />
        <span>{t('story.crumb')}</span>
      </div>
      <div className="story-head">
        <h1>{titleOf(data)}</h1>
        <span className="tag mono">{[data.aggregateType, data.aggregateId ?? data.key].filter(Boolean).join(' ')}</span>
        <ol className="story-states">
          {data.events
            .filter((event) => event.effects.length > 0 || data.events.length <= 4)
            .slice(0, 4)
            .map((event) => (
              <li key={event.eventId}>
                <StatusIcon
                  look={event.compensation ? { ...EVENT[event.status]!, meaning: 'human' } : EVENT[event.status]!}
                  size={14}
                />
                {event.topic.split('.').at(-1)} <span className="meta">{clock(event.occurredAt)}</span>
              </li>
            ))}
        </ol>
        <span className="grow" />
        {template && (
          <a
            className="btn"
            href={template.replace('{id}', encodeURIComponent(data.aggregateId ?? data.key))}
            target="_blank"
            rel="noreferrer"
          >
            <Icon name="external" size={15} />
            {t('story.page')}
          </a>
        )}
        <Button
          icon="copy"
          onClick={() => {
            void copyText(textOf(data));
            toast({ icon: 'copy', title: t('copied') });
          }}
        >
          {t('story.copy')}
        </Button>
        {open.length > 0 && <Button onClick={() => setWizard(true)}>{t('story.redrive')}</Button>}
      </div>
      <Verdict open={open} counts={counts} />
      <div className="split story-split">
        <div className="card scroll-x">
          <table className="table story">
            <thead>
              <tr>
                <th>{t('chart.time')}</th>
                <th>{t('col.consumer')}</th>
                <th>{t('story.effect')}</th>
                <th>{t('story.idempotency')}</th>
                <th>{t('story.key')}</th>
                <th className="num">{t('story.undone')}</th>
              </tr>
            </thead>
            {data.events.map((event) => (
              <EventPart key={event.eventId} event={event} />
            ))}
          </table>
        </div>
        <aside className="side">
          {assets.length > 0 && <Balance assets={assets} />}
          <Nearby data={data} />
        </aside>
      </div>
      <div className="under">
        <Cli line={`postrider story ${data.key}`} />
      </div>
      {wizard && <RedriveWizard what={{ eventIds: ids }} onClose={() => setWizard(false)} />}
    </>
  );
}

function Verdict({
  open,
  counts,
}: {
  open: Open[];
  counts: readonly (readonly ['events' | 'effects' | 'attempts' | 'stopped' | 'twice', number])[];
}) {
  const first = open[0];
  const dead = open.some((each) => each.effect.state === 'dead');
  const twice = counts.find(([name]) => name === 'twice')?.[1] ?? 0;
  const meaning = twice > 0 || dead ? 'bad' : first ? 'warn' : 'ok';
  return (
    <section className={`card edge verdict m-${meaning}`}>
      <span className="status">
        <Icon name={first ? (dead ? 'dead' : 'retry') : 'check'} size={18} />
      </span>
      <div className="grow">
        <h2>
          {first
            ? t('verdict.open', {
                c: [...new Set(open.map((each) => each.effect.consumerId))].join(', '),
                topic: first.event.topic,
              })
            : t('verdict.done')}
        </h2>
        <p className="t2">
          {first
            ? tx(first.effect.dueAt ? 'verdict.open.text' : dead ? 'verdict.dead.text' : 'verdict.wait.text', {
                c: first.effect.consumerId,
                effect: first.effect.effect ?? first.event.topic,
                t: first.effect.dueAt ? (
                  <span className="m-warn c">
                    <Countdown to={first.effect.dueAt} />
                  </span>
                ) : (
                  ''
                ),
              })
            : t('verdict.done.text')}{' '}
          {first && twice === 0 && t('verdict.rest')}
        </p>
      </div>
      {counts.map(([name, value]) => (
        <div key={name} className="verdict-figure">
          <b className={name === 'twice' ? (value === 0 ? 'm-ok c' : 'm-bad c') : ''}>{number(value)}</b>
          <small>{t(`story.${name}`)}</small>
        </div>
      ))}
    </section>
  );
}

function EventPart({ event }: { event: StoryEvent }) {
  const quiet = event.effects.length === 0;
  return (
    <tbody>
      <tr className="story-event">
        <td className="nowrap t2">
          <span className={`dot ${event.compensation ? 'm-human' : 'm-ok'}`} /> {clock(event.occurredAt)}
        </td>
        <td colSpan={3}>
          <Link to="/events/$id" params={{ id: event.eventId } as never} className="plain strong">
            {event.topic}
          </Link>{' '}
          {event.compensation && (
            <span className="tag m-human">
              <Icon name="undo" size={11} className="inline" /> {t('story.compensation')}
            </span>
          )}
          {quiet && <span className="meta"> {t('story.nothing')}</span>}
        </td>
        <td colSpan={2} className="num nowrap">
          <Meter event={event} /> <StatusWord look={EVENT[event.status]!} />
        </td>
      </tr>
      {event.effects.map((effect, index) => (
        <EffectRow
          key={`${effect.consumerId}${index}`}
          effect={effect}
          again={event.effects[index - 1]?.consumerId === effect.consumerId}
        />
      ))}
    </tbody>
  );
}

function EffectRow({ effect, again }: { effect: StoryEffect; again: boolean }) {
  return (
    <tr>
      <td />
      <td className={again ? 't2' : 'strong'}>{again ? t('story.and') : effect.consumerId}</td>
      <td>
        <span className="row">
          <StatusIcon look={DELIVERY[effect.state]} size={14} />
          {effect.effect ?? t(DELIVERY[effect.state].word)}
        </span>
      </td>
      <td className="mono t2">{effect.idempotencyKey ?? '–'}</td>
      <td className={`key-state ${effect.keyState === 'RELEASED' ? 'm-human c' : effect.keyState ? 'm-ok c' : 't2'}`}>
        {effect.keyState ?? t('story.norow')}
      </td>
      <td className="num nowrap t2">
        {effect.undoneAt && (
          <span className={`undone ${effect.undoneAt === 'waiting' ? 'm-warn' : 'm-human'} c`}>
            <Icon name="undo" size={12} className="inline" />{' '}
            {effect.undoneAt === 'waiting' ? t('side.waits') : hourMinute(effect.undoneAt)}
          </span>
        )}
        {effect.repeatsStopped > 0
          ? t('story.repeats', { n: effect.repeatsStopped })
          : effect.attempts > 1 && t('trace.tries', { n: effect.attempts })}
      </td>
    </tr>
  );
}

function Balance({ assets }: { assets: Asset[] }) {
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

function Nearby({ data }: { data: StoryData }) {
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
