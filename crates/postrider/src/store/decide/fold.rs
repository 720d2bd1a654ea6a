//! What the roll-up writes: the status that lists show, the lookups of events, and the figures per minute.

use time::OffsetDateTime;

use crate::limits;
use crate::shard;
use crate::status::{Record, Standing};
use crate::store::figure::{self, Counted};

/// How many events before the last folded one are read again. An event's number is drawn before its transaction
/// commits, so a smaller number may become visible later. An event that becomes visible even later is folded at its
/// first mark, which [`mark_missed`](crate::store::Upkeep::mark_missed) sets if nothing else does.
pub(in crate::store) const LOOK_BACK: i64 = 5_000;
/// How many events one search for new ones reads; most are folded already.
pub(in crate::store) const STRETCH: i64 = 20_000;

/// One attribute that an event is looked up by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lookup<'a> {
    /// The topic.
    Topic(&'a str),
    /// The service that published it.
    Service(&'a str),
    /// The tenant.
    Tenant(&'a str),
    /// The trace.
    Trace(&'a str),
    /// The event that caused it.
    Parent(&'a str),
    /// The type and the id of its aggregate.
    Aggregate(&'a str, &'a str),
    /// The type of its aggregate.
    AggregateType(&'a str),
    /// The id of its aggregate, of any type.
    AggregateId(&'a str),
    /// The first characters of its trace, as `beginning` cuts them.
    TracePrefix(&'a str),
    /// The key that orders it.
    Key(&'a str),
    /// The first characters of its key or of its aggregate's id, as `beginnings` cuts them.
    IdPrefix(&'a str),
    /// The id of the CloudEvent that it came as.
    CloudEvent(&'a str),
    /// An expected consumer.
    Consumer(&'a str),
}

impl Lookup<'_> {
    /// Its hash. Two attributes may share a hash, so a search checks the event too.
    pub(crate) fn hash(self) -> i64 {
        let hash = match self {
            Self::Topic(value) => shard::hash(&["topic", value]),
            Self::Service(value) => shard::hash(&["service", value]),
            Self::Tenant(value) => shard::hash(&["tenant", value]),
            Self::Trace(value) => shard::hash(&["trace", value]),
            Self::Parent(value) => shard::hash(&["parent", value]),
            Self::Aggregate(kind, id) => shard::hash(&["aggregate", kind, id]),
            Self::AggregateType(kind) => shard::hash(&["aggregateType", kind]),
            Self::AggregateId(id) => shard::hash(&["aggregateId", id]),
            Self::TracePrefix(value) => shard::hash(&["tracePrefix", value]),
            Self::Key(value) => shard::hash(&["key", value]),
            Self::IdPrefix(value) => shard::hash(&["idPrefix", value]),
            Self::CloudEvent(value) => shard::hash(&["cloudEvent", value]),
            Self::Consumer(value) => shard::hash(&["consumer", value]),
        };
        i64::from_ne_bytes(hash.to_ne_bytes())
    }
}

/// The first characters of an id that a search may begin with; `None` if it is shorter.
pub(in crate::store) fn beginning(id: &str) -> Option<&str> {
    let (last, end) = id.char_indices().nth(limits::PREFIX_CHARS - 1)?;
    Some(&id[..last + end.len_utf8()])
}

/// The beginnings by which keys and aggregates' ids are looked up. Many begin alike: a longer text finds them by the longer one.
pub(in crate::store) fn beginnings(id: &str) -> impl Iterator<Item = &str> {
    let cut = move |chars: usize| {
        let (end, _) = id.char_indices().nth(chars)?;
        Some(&id[..end])
    };
    [limits::PREFIX_CHARS, 2 * limits::PREFIX_CHARS].into_iter().filter_map(cut)
}

/// All hashes that an event is looked up by, each with the event's number.
pub(crate) fn lookups(record: &Record) -> Vec<(i64, i64)> {
    let event = &record.envelope;
    let mut all = vec![Lookup::Topic(&event.topic)];
    all.extend(event.initiator.service.as_deref().map(Lookup::Service));
    all.extend(event.tenant_id.as_deref().map(Lookup::Tenant));
    all.extend(event.trace_id.as_deref().map(Lookup::Trace));
    all.extend(event.trace_id.as_deref().and_then(beginning).map(Lookup::TracePrefix));
    all.extend(event.parent_event_id.as_ref().map(|id| Lookup::Parent(id.as_str())));
    all.extend(event.key.as_deref().map(Lookup::Key));
    all.extend(event.key.as_deref().into_iter().flat_map(beginnings).map(Lookup::IdPrefix));
    all.extend(event.cloud_event_id.as_deref().map(Lookup::CloudEvent));
    if let Some(aggregate) = &event.aggregate {
        let (kind, id) = (&aggregate.kind, &aggregate.id);
        all.extend([Lookup::Aggregate(kind, id), Lookup::AggregateType(kind), Lookup::AggregateId(id)]);
        // Often the aggregate's id is the key.
        let is_key = event.key.as_ref() == Some(id);
        all.extend(beginnings(id).filter(|_| !is_key).map(Lookup::IdPrefix));
    }
    let consumers = consumer_lookups(record);
    all.into_iter().map(|lookup| (lookup.hash(), record.sequence)).chain(consumers).collect()
}

/// The lookups that may be added after the first fold.
fn consumer_lookups(record: &Record) -> Vec<(i64, i64)> {
    record.consumers().into_keys().map(|consumer| (Lookup::Consumer(consumer).hash(), record.sequence)).collect()
}

/// The status row of one event.
#[derive(Debug)]
pub(crate) struct FoldedStatus<'r> {
    /// The event with its rows.
    pub(crate) record: &'r Record,
    /// Its status and the figures beside it.
    pub(crate) standing: Standing,
    /// The publishing service, cut to the length of its column.
    pub(crate) service: Option<String>,
    /// When the status must be computed again because the event expires.
    pub(crate) expires_at: Option<OffsetDateTime>,
}

/// What one fold writes.
#[derive(Debug)]
pub(crate) struct Fold<'r> {
    /// A status row for each event.
    pub(crate) statuses: Vec<FoldedStatus<'r>>,
    /// Hashes with event numbers, sorted, so that concurrent writers take them in one order.
    pub(crate) lookups: Vec<(i64, i64)>,
    /// What to add to the figures: minute, created, sent, consumed, failed, dead.
    pub(crate) figures: Vec<Counted>,
}

impl<'r> Fold<'r> {
    /// Decides on the rows of events that were read after their marks were removed.
    pub(crate) fn of(records: &'r [Record]) -> Self {
        let statuses: Vec<_> = records.iter().map(FoldedStatus::of).collect();
        let figures = figure::changes(statuses.iter().map(|status| (status.record, &status.standing)));
        let new = |record: &Record| match record.listed {
            None => lookups(record),
            Some(_) => consumer_lookups(record),
        };
        let mut lookups: Vec<_> = records.iter().flat_map(new).collect();
        lookups.sort_unstable();
        // A key and an aggregate's id may begin alike.
        lookups.dedup();
        Self { statuses, lookups, figures }
    }
}

impl<'r> FoldedStatus<'r> {
    fn of(record: &'r Record) -> Self {
        let standing = record.standing();
        let service = record.envelope.initiator.service.as_deref();
        Self {
            service: service.map(|service| service.chars().take(limits::LABEL_CHARS).collect()),
            // After the expiry has passed there is no later moment to look at it.
            expires_at: record.envelope.expire_at.filter(|_| !standing.status.is_final() && !record.expired),
            record,
            standing,
        }
    }
}
