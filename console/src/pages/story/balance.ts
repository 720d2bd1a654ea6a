// What moved, and came back: the moves of each asset beside its net, which the server adds up.
import type { components } from '../../api/schema';

type Schemas = components['schemas'];
export type StoryData = Schemas['Story'];
export type StoryEvent = Schemas['StoryEvent'];
export type StoryEffect = Schemas['StoryEffect'];

export type Move = { delta: string; at: string | null; dueAt: string | null; open: boolean; undo: boolean };
export type Asset = { name: string; moves: Move[]; net: string; balanced: boolean };
export type Open = { event: StoryEvent; effect: StoryEffect };

const minus = (text: string) => text.replace(/^-/, '−');

/** Every asset with its moves in the order of the story. What another consumer did again moved nothing. */
export function assetsOf(story: Pick<StoryData, 'events' | 'assets'>): Asset[] {
  const effects = story.events.flatMap((event) => event.effects).filter((effect) => !effect.again);
  return story.assets.map(({ asset, net, balanced }) => ({
    name: asset,
    net: net ? minus(net) : '?',
    balanced,
    moves: effects
      .filter((effect) => effect.asset === asset && effect.delta)
      .map((effect) => ({
        delta: minus(effect.delta ?? ''),
        at: effect.at ?? null,
        dueAt: effect.dueAt ?? null,
        open: effect.state !== 'done',
        undo: (effect.undoes ?? []).length > 0,
      })),
  }));
}

/** What has still to happen. */
export function openParts(events: StoryEvent[]): Open[] {
  return events.flatMap((event) =>
    event.effects.filter((effect) => effect.state !== 'done').map((effect) => ({ event, effect })),
  );
}
