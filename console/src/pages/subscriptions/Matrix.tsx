import { type KeyboardEvent, useRef } from 'react';
import type { Consumer, Topic } from '../../api/pending';
import type { components } from '../../api/schema';
import { Icon } from '../../components/Icon';
import { Sparkline } from '../../components/Sparkline';
import { t } from '../../i18n';
import { number } from '../../lib/format';

type Subscription = components['schemas']['Subscription'];
type Props = {
  topics: string[];
  heard: Topic[];
  names: string[];
  consumers: Consumer[];
  subscriptions: Subscription[];
  topic?: string;
  consumer?: string;
  onEdit: (topic: string, consumer: string) => void;
};
type CellState = 'enabled' | 'paused' | 'disabled' | 'none';

/** Topics by consumers. Arrow keys move, Enter edits. */
export function Matrix({ topics, heard, names, consumers, subscriptions, topic, consumer, onEdit }: Props) {
  const grid = useRef<HTMLTableElement>(null);
  const stateOf = (one: string, other: string): CellState => {
    const found = subscriptions.find((each) => each.topic === one && each.consumerId === other);
    if (!found) return 'none';
    if (!found.enabled) return 'disabled';
    return consumers.find((each) => each.consumerId === other)?.paused ? 'paused' : 'enabled';
  };
  const move = (event: KeyboardEvent, row: number, column: number) => {
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    grid.current?.querySelector<HTMLElement>(`[data-cell="${row + step[0]}-${column + step[1]}"]`)?.focus();
  };
  return (
    <div className="card">
      <div className="scroll-x">
        <table className="matrix" role="grid" ref={grid} aria-label={t('nav.subscriptions')}>
          <thead>
            <tr>
              <th scope="col">{t('col.topic')}</th>
              <th scope="col" className="num" colSpan={2}>
                {t(heard.some((each) => each.hours) ? 'subs.events' : 'nav.events')}
              </th>
              {names.map((name) => (
                <th key={name} scope="col" className={`slant ${name === consumer ? 'on' : ''}`}>
                  <span>{name}</span>
                </th>
              ))}
              <th className="slant-room" aria-hidden />
            </tr>
          </thead>
          <tbody>
            {topics.map((name, row) => {
              const about = heard.find((each) => each.topic === name);
              return (
                <tr key={name} className={name === topic ? 'on' : ''}>
                  <th scope="row">
                    {name} {about && about.unheard > 0 && <span className="tag m-part">{t('subs.unheard')}</span>}
                  </th>
                  <td className="matrix-hours">
                    {about?.hours && <Sparkline values={about.hours} meaning="idle" width={44} height={20} plain />}
                  </td>
                  <td className="num t2">{about ? number(about.events) : '–'}</td>
                  {names.map((other, column) => {
                    const state = stateOf(name, other);
                    const chosen = name === topic && other === consumer;
                    return (
                      <td key={other} className={other === consumer ? 'on' : ''}>
                        <button
                          type="button"
                          className={`cell ${chosen ? 'chosen' : state}`}
                          data-cell={`${row}-${column}`}
                          tabIndex={row === 0 && column === 0 ? 0 : -1}
                          aria-label={`${name}, ${other}: ${t(`subs.${state}`)}`}
                          onKeyDown={(event) => move(event, row, column)}
                          onClick={() => onEdit(name, other)}
                        >
                          {chosen ? (
                            <Icon name={state === 'none' ? 'plus' : 'tick'} size={12} />
                          ) : state === 'paused' ? (
                            <Icon name="pause" size={12} />
                          ) : (
                            <i />
                          )}
                        </button>
                      </td>
                    );
                  })}
                  <td aria-hidden />
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <footer className="matrix-legend">
        {(['enabled', 'paused', 'disabled', 'none'] as const).map((state) => (
          <span key={state} className={`row cell ${state}`}>
            {state === 'paused' ? <Icon name="pause" size={12} /> : <i />}
            {t(`subs.${state}`)}
          </span>
        ))}
        <span className="grow" />
        <span>{t('subs.keys')}</span>
      </footer>
    </div>
  );
}
