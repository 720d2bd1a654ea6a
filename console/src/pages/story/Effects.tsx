// One event of a story, with the effect of each consumer.
import { Link } from '@tanstack/react-router';
import { Icon } from '../../components/Icon';
import { Meter } from '../../components/Meter';
import { DELIVERY, EVENT, StatusIcon, StatusWord } from '../../components/Status';
import { t } from '../../i18n';
import { clock, hourMinute } from '../../lib/format';
import type { StoryEffect, StoryEvent } from './balance';

export function EventPart({ event }: { event: StoryEvent }) {
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
          {quiet && <span className="meta"> {event.consumers.join(', ') || t('story.nothing')}</span>}
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
          {effect.again && <span className="meta">{t('story.again')}</span>}
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
