// What happened to one business key, all of it, once?
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { session, story } from '../../api/queries';
import { Button } from '../../components/Button';
import { Cli, copyText } from '../../components/Copy';
import { Empty, Loaded } from '../../components/Empty';
import { Icon } from '../../components/Icon';
import { EVENT, StatusIcon } from '../../components/Status';
import { toast } from '../../components/Toasts';
import { t } from '../../i18n';
import { quote } from '../../lib/cli';
import { clock, number } from '../../lib/format';
import { useUrl } from '../../lib/url';
import { useOperators } from '../../shell/session';
import { RedriveWizard } from '../../wizard';
import { assetsOf, openParts, type StoryData } from './balance';
import { EventPart } from './Effects';
import { Balance, Nearby } from './Side';
import { Verdict } from './Verdict';
import './story.css';

export function Story() {
  const { key } = useParams({ strict: false }) as { key: string };
  const [search] = useUrl();
  const { may, refused } = useOperators();
  const query = useQuery({
    ...story(search.type ? { aggregateType: search.type, aggregateId: key } : { key }),
    enabled: may,
  });
  return (
    <div className="page">
      {refused ? (
        <div className="card">
          <Empty icon="lock" title={refused} />
        </div>
      ) : (
        <Loaded query={query} what={t('story.failed', { key })}>
          {(data) => <Shown data={data} aggregate={!!search.type} />}
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

function Shown({ data, aggregate }: { data: StoryData; aggregate: boolean }) {
  const [wizard, setWizard] = useState(false);
  const links = useQuery(session).data?.links ?? {};
  const open = openParts(data.events);
  const assets = assetsOf(data);
  const link = data.aggregateType ? links[data.aggregateType] : undefined;
  const template = /^https?:/.test(link ?? '') ? link : undefined;
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
      {data.cut && <p className="meta">{t('story.cut', { n: number(data.events.length) })}</p>}
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
        <Cli line={`postrider story ${quote(aggregate ? `${data.aggregateType}/${data.key}` : data.key)}`} />
      </div>
      {wizard && <RedriveWizard what={{ eventIds: ids }} onClose={() => setWizard(false)} />}
    </>
  );
}
