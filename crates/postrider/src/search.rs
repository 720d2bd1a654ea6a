//! What a text names: an event, a trace, a key, an aggregate, a topic or a consumer.

use std::collections::{BTreeSet, HashSet};

use crate::error::Result;
use crate::limits;
use crate::scope::Scope;
use crate::status::Record;
use crate::store::Store;
use crate::subscription::EVERY_TOPIC;

/// Events that are read for each way to name one.
const EVENTS: u32 = 20;
/// The shortest part of a topic or a consumer that is looked for.
const PART_CHARS: usize = 2;

/// The kind of a thing that a text names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An event.
    Event,
    /// A trace.
    Trace,
    /// The key of events.
    Key,
    /// An aggregate.
    Aggregate,
    /// A topic.
    Topic,
    /// A consumer.
    Consumer,
}

/// A thing that a text names.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Its kind.
    pub kind: Kind,
    /// Its id.
    pub id: String,
    /// Its name for people: the topic of an event, the type and the id of an aggregate, otherwise the id.
    pub label: String,
    /// The event itself, or the newest event of a trace, a key or an aggregate.
    pub event: Option<Record>,
}

/// Everything inside the scope that a text names, at most `limit`: keys and aggregates first, then events, traces, consumers and topics.
pub async fn search(store: &dyn Store, text: &str, limit: usize, scope: &Scope) -> Result<Vec<Hit>> {
    let mut hits = Vec::new();
    if text.is_empty() || text.chars().count() > limits::KEY_CHARS || text.chars().any(char::is_control) {
        return Ok(hits);
    }
    let mut events = store.search(text, EVENTS).await?;
    events.retain(|record| scope.has_event(record));
    for kind in [Kind::Key, Kind::Aggregate, Kind::Event, Kind::Trace] {
        let mut known = HashSet::new();
        let of_kind = events.iter().filter_map(|record| hit(kind, text, record));
        hits.extend(of_kind.filter(|hit| known.insert((hit.id.clone(), hit.label.clone()))));
    }
    if text.chars().count() >= PART_CHARS {
        let subscriptions = store.subscriptions(None).await?;
        let named = |kind, names: BTreeSet<&str>| {
            let hit = |name: &str| Hit { kind, id: name.into(), label: name.into(), event: None };
            names.into_iter().filter(|name| name.contains(text)).map(hit).collect::<Vec<_>>()
        };
        let all = || subscriptions.iter().map(|one| &one.subscription).filter(|one| scope.has_subscription(one));
        hits.extend(named(Kind::Consumer, all().map(|one| one.consumer.as_str()).collect()));
        let topics = all().map(|one| one.topic.as_str()).filter(|topic| *topic != EVERY_TOPIC);
        hits.extend(named(Kind::Topic, topics.collect()));
    }
    hits.truncate(limit);
    Ok(hits)
}

/// What a text names of an event that it was found by.
fn hit(kind: Kind, text: &str, record: &Record) -> Option<Hit> {
    let event = &record.envelope;
    // A text that is too short to be a beginning names whole ids only.
    let is_beginning = text.chars().count() >= limits::PREFIX_CHARS;
    let begins = |id: &str| id == text || (is_beginning && id.starts_with(text));
    let (id, label) = match kind {
        Kind::Key => {
            let key = event.key.as_deref().filter(|key| begins(key))?;
            (key, key.to_owned())
        }
        Kind::Aggregate => {
            let aggregate = event.aggregate.as_ref().filter(|aggregate| begins(&aggregate.id))?;
            (aggregate.id.as_str(), format!("{} {}", aggregate.kind, aggregate.id))
        }
        Kind::Event => {
            let is_named = |id: &&str| begins(id) || event.cloud_event_id.as_deref() == Some(text);
            (Some(event.event_id.as_str()).filter(is_named)?, event.topic.clone())
        }
        Kind::Trace => (event.trace_id.as_deref().filter(|trace| begins(trace))?, event.topic.clone()),
        Kind::Topic | Kind::Consumer => return None,
    };
    // One trace has events of many topics: it is named once.
    let label = if kind == Kind::Trace { id.to_owned() } else { label };
    Some(Hit { kind, id: id.to_owned(), label, event: Some(record.clone()) })
}
