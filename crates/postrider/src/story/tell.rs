//! Rows become a story. Pure, so that every store tells the same.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::sum::assets;
use super::{Figures, Story, StoryEffect, StoryEvent, Subject, Undone};
use crate::effect::Effect;
use crate::entry::DeliveryStatus;
use crate::event::Aggregate;
use crate::promises;
use crate::status::{ConsumerState, Record};
use crate::store::{ReceivedEvent, Repeat, StoredKey};

/// What the stores have read.
pub(super) struct Rows {
    /// In the order of the story.
    pub(super) records: Vec<Record>,
    pub(super) received: Vec<ReceivedEvent>,
    pub(super) repeats: Vec<Repeat>,
    pub(super) keys: Vec<StoredKey>,
}

/// An effect by its place: its event, and its place among the effects of that.
type Place = (usize, usize);

pub(super) fn tell(subject: &Subject, rows: Rows, cut: bool) -> Story {
    let Rows { records, received, repeats, keys } = rows;
    let mut figures = Figures { events: records.len() as u64, ..Figures::default() };
    figures.repeats_stopped = repeats.iter().map(|repeat| u64::from(repeat.repeats)).sum();
    figures.attempts =
        records.iter().flat_map(|record| &record.consumptions).filter(|one| one.attempt > 0).count() as u64;
    figures.twice = records.iter().map(|record| promises::twice(record, &repeats)).sum::<u64>() + doubled(&received);
    let known = Known::of(&received, &repeats, &keys);
    let aggregate = aggregate(subject, &records);
    let mut events: Vec<_> = records.into_iter().map(|record| known.event(record)).collect();
    mark_repeated(&mut events);
    connect(&mut events);
    let happened = |effect: &&StoryEffect| effect.state == ConsumerState::Ok && !effect.again;
    figures.effects = events.iter().flat_map(|event| &event.effects).filter(happened).count() as u64;
    Story { aggregate, assets: assets(&events), events, keys, figures, cut }
}

/// Business keys that one consumer has stored for two events: each is an effect too many.
fn doubled(received: &[ReceivedEvent]) -> u64 {
    let mut seen = HashSet::new();
    let keyed = received.iter().filter_map(|row| Some((row.consumer.as_str(), row.idempotency_key.as_deref()?)));
    keyed.filter(|key| !seen.insert(*key)).count() as u64
}

/// The aggregate of a story by key is the one that has the key as its id.
fn aggregate(subject: &Subject, records: &[Record]) -> Option<Aggregate> {
    match subject {
        Subject::Aggregate(aggregate) => Some(aggregate.clone()),
        Subject::Key(key) => {
            records.iter().filter_map(|record| record.envelope.aggregate.clone()).find(|one| one.id == *key)
        }
    }
}

/// The rows by what they are looked up by.
struct Known<'r> {
    received: HashMap<(&'r str, &'r str), &'r ReceivedEvent>,
    /// By event, then by consumer.
    received_by_event: HashMap<&'r str, Vec<&'r str>>,
    repeats: HashMap<(&'r str, &'r str), u32>,
    /// Of several rows with one key the newest.
    key_states: HashMap<&'r str, &'r StoredKey>,
}

impl<'r> Known<'r> {
    fn of(received: &'r [ReceivedEvent], repeats: &'r [Repeat], keys: &'r [StoredKey]) -> Self {
        let mut known = Self {
            received: received.iter().map(|row| ((row.consumer.as_str(), row.event_id.as_str()), row)).collect(),
            received_by_event: HashMap::new(),
            repeats: repeats.iter().map(|row| ((row.consumer.as_str(), row.event_id.as_str()), row.repeats)).collect(),
            key_states: HashMap::new(),
        };
        for row in received {
            known.received_by_event.entry(&row.event_id).or_default().push(&row.consumer);
        }
        for key in keys {
            let newest = known.key_states.entry(&key.key).or_insert(key);
            if newest.updated_at < key.updated_at {
                *newest = key;
            }
        }
        known
    }

    fn event(&self, record: Record) -> StoryEvent {
        let event_id = record.envelope.event_id.as_str();
        let mut states: BTreeMap<&str, ConsumerState> = record.consumers();
        // A lane without history leaves the inbox row alone.
        for consumer in self.received_by_event.get(event_id).into_iter().flatten() {
            states.insert(consumer, ConsumerState::Ok);
        }
        let effects = states.iter().flat_map(|(consumer, state)| self.effects(&record, consumer, *state)).collect();
        let consumers = states.into_keys().map(str::to_owned).collect();
        StoryEvent { effects, compensation: false, consumers, record }
    }

    /// What a consumer tells about an event: its effects, or one without words.
    fn effects(&self, record: &Record, consumer: &str, state: ConsumerState) -> Vec<StoryEffect> {
        let id = (consumer, record.envelope.event_id.as_str());
        let row = self.received.get(&id).filter(|_| state == ConsumerState::Ok);
        let of_consumer = || record.consumptions.iter().filter(|one| one.consumer == consumer && one.attempt > 0);
        let succeeded = of_consumer().filter(|one| one.success == Some(true)).filter_map(|one| one.consumed_at).min();
        let waiting = record.deliveries.iter().find(|one| {
            one.consumer() == Some(consumer)
                && one.status != DeliveryStatus::Dead
                && !one.held
                && state != ConsumerState::Ok
        });
        let result = row.and_then(|row| row.result.as_deref());
        let told = result.map(Effect::of_result).unwrap_or_default();
        let plain = StoryEffect {
            consumer: consumer.into(),
            state,
            effect: None,
            result: result.filter(|_| told.is_empty()).map(str::to_owned),
            idempotency_key: row.map(|row| row.idempotency_key.clone().unwrap_or_else(|| row.event_id.clone())),
            key_state: None,
            attempts: of_consumer().count() as u32,
            repeats_stopped: self.repeats.get(&id).copied().unwrap_or_default(),
            at: row.map(|row| row.received_at).or(succeeded),
            due_at: waiting.map(|delivery| delivery.due_at),
            undoes: Vec::new(),
            again: false,
            undone: None,
        };
        if told.is_empty() {
            return vec![self.with_key_state(plain)];
        }
        let with = |effect: Effect| {
            let idempotency_key = effect.idempotency_key.clone().or_else(|| plain.idempotency_key.clone());
            let undoes = effect.undoes.clone();
            self.with_key_state(StoryEffect { idempotency_key, undoes, effect: Some(effect), ..plain.clone() })
        };
        told.into_iter().map(with).collect()
    }

    fn with_key_state(&self, effect: StoryEffect) -> StoryEffect {
        let stored = effect.idempotency_key.as_deref().and_then(|key| self.key_states.get(key));
        // The inbox row itself is the record of a key that nothing else has stored.
        let of_inbox = || effect.idempotency_key.is_some().then(|| "SUCCESS".to_owned());
        StoryEffect { key_state: stored.map(|key| key.status.clone()).or_else(of_inbox), ..effect }
    }
}

/// An operation under a business key happens once. Consumers that did it again got its first result, and tell the same.
fn mark_repeated(events: &mut [StoryEvent]) {
    let mut keyed: Vec<&mut StoryEffect> = events.iter_mut().flat_map(|event| &mut event.effects).collect();
    keyed.retain(|effect| effect.state == ConsumerState::Ok && own_key(effect).is_some());
    keyed.sort_by_key(|effect| effect.at);
    let mut known = HashSet::new();
    for effect in keyed {
        effect.again = !known.insert(own_key(effect).map(str::to_owned));
    }
}

fn own_key(effect: &StoryEffect) -> Option<&str> {
    effect.effect.as_ref()?.idempotency_key.as_deref()
}

/// Connects compensations with what they undo.
fn connect(events: &mut [StoryEvent]) {
    let mut by_key: HashMap<String, Vec<Place>> = HashMap::new();
    let mut by_event: HashMap<String, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        by_event.insert(event.record.envelope.event_id.to_string(), at);
        for (place, effect) in event.effects.iter().enumerate() {
            if let Some(key) = effect.idempotency_key.as_ref().filter(|_| effect.effect.is_some()) {
                by_key.entry(key.clone()).or_default().push((at, place));
            }
        }
    }
    for at in 0..events.len() {
        let mut touched: Vec<usize> = Vec::new();
        for place in 0..events[at].effects.len() {
            let undoing = events[at].effects[place].clone();
            let mut undone_events = Vec::new();
            for name in &undoing.undoes {
                let targets = targets(events, (at, place), name, &by_key, &by_event);
                if targets.is_empty() {
                    undone_events.push(name.clone());
                }
                for (target, effect) in targets {
                    if !events[target].effects[effect].again {
                        undone_events.push(events[target].record.envelope.event_id.to_string());
                    }
                    touched.push(target);
                    let undone = &mut events[target].effects[effect].undone;
                    if !matches!(undone, Some(Undone::At(at)) if Some(*at) <= undoing.at) {
                        *undone = undoing.at.map(Undone::At);
                    }
                }
            }
            undone_events.dedup();
            events[at].compensation |= !undone_events.is_empty();
            events[at].effects[place].undoes = undone_events;
        }
        wait(events, at, &touched);
    }
}

/// The effects that a name stands for: those with this business key, or those of the same consumer about the event with this id.
fn targets(
    events: &[StoryEvent],
    from: Place,
    name: &str,
    by_key: &HashMap<String, Vec<Place>>,
    by_event: &HashMap<String, usize>,
) -> Vec<Place> {
    let keyed = by_key.get(name).into_iter().flatten().filter(|place| **place != from && place.0 != from.0);
    let keyed: Vec<Place> = keyed.copied().collect();
    if !keyed.is_empty() {
        return keyed;
    }
    let consumer = &events[from.0].effects[from.1].consumer;
    let Some(event) = by_event.get(name).copied().filter(|event| *event != from.0) else { return Vec::new() };
    let of_consumer = events[event].effects.iter().enumerate().filter(|(_, effect)| effect.consumer == *consumer);
    of_consumer.map(|(place, _)| (event, place)).collect()
}

/// A consumer that has not handled a compensation yet will undo its effects about the events that others have undone.
fn wait(events: &mut [StoryEvent], compensation: usize, touched: &[usize]) {
    let open = events[compensation].effects.iter().filter(|effect| effect.state != ConsumerState::Ok);
    let open: HashSet<String> = open.map(|effect| effect.consumer.clone()).collect();
    for event in touched.iter().copied().filter(|event| *event != compensation) {
        for effect in &mut events[event].effects {
            let moved = effect.effect.as_ref().is_some_and(|one| one.asset.is_some());
            if moved && effect.undone.is_none() && open.contains(&effect.consumer) {
                effect.undone = Some(Undone::Waits);
            }
        }
    }
}

#[cfg(test)]
mod tests;
