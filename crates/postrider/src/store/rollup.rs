//! What the roll-up writes, made of what it read: the same for every SQL store.

use serde::Serialize;

use super::batch::unix_ms;
use super::figure;
use crate::error::{Error, Result};
use crate::limits;
use crate::shard;
use crate::status::Record;

/// How many events before the last that was looked at are looked at again: an event's number is drawn before its
/// transaction commits, so that an earlier one may appear later. It has its row once a newer event comes, and one that is
/// later still from its first mark; lists look as far back.
pub(super) const LOOK_BACK: i64 = 5_000;
/// How many events a look for new ones walks over: most have their row by then.
pub(super) const STRETCH: i64 = 20_000;

/// By what an event is found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lookup<'a> {
    Topic(&'a str),
    Service(&'a str),
    Tenant(&'a str),
    Trace(&'a str),
    Parent(&'a str),
    Aggregate(&'a str, &'a str),
    AggregateType(&'a str),
    Key(&'a str),
    Consumer(&'a str),
}

impl Lookup<'_> {
    /// Its hash. Two may share one: whoever looks up looks at the event too.
    pub(super) fn hash(self) -> i64 {
        let hash = match self {
            Self::Topic(value) => shard::hash(&["topic", value]),
            Self::Service(value) => shard::hash(&["service", value]),
            Self::Tenant(value) => shard::hash(&["tenant", value]),
            Self::Trace(value) => shard::hash(&["trace", value]),
            Self::Parent(value) => shard::hash(&["parent", value]),
            Self::Aggregate(kind, id) => shard::hash(&["aggregate", kind, id]),
            Self::AggregateType(kind) => shard::hash(&["aggregateType", kind]),
            Self::Key(value) => shard::hash(&["key", value]),
            Self::Consumer(value) => shard::hash(&["consumer", value]),
        };
        i64::from_ne_bytes(hash.to_ne_bytes())
    }
}

/// Everything by which an event is found.
pub(super) fn lookups(record: &Record) -> Vec<(i64, i64)> {
    let event = &record.envelope;
    let mut all = vec![Lookup::Topic(&event.topic)];
    all.extend(event.initiator.service.as_deref().map(Lookup::Service));
    all.extend(event.tenant_id.as_deref().map(Lookup::Tenant));
    all.extend(event.trace_id.as_deref().map(Lookup::Trace));
    all.extend(event.parent_event_id.as_ref().map(|id| Lookup::Parent(id.as_str())));
    all.extend(event.key.as_deref().map(Lookup::Key));
    if let Some(aggregate) = &event.aggregate {
        all.extend([Lookup::Aggregate(&aggregate.kind, &aggregate.id), Lookup::AggregateType(&aggregate.kind)]);
    }
    let consumers = consumer_lookups(record);
    all.into_iter().map(|lookup| (lookup.hash(), record.sequence)).chain(consumers).collect()
}

/// The part of it that may grow.
fn consumer_lookups(record: &Record) -> Vec<(i64, i64)> {
    record.consumers().into_keys().map(|consumer| (Lookup::Consumer(consumer).hash(), record.sequence)).collect()
}

#[derive(Serialize)]
struct StatusRow<'a> {
    seq: i64,
    status: &'static str,
    expected: u32,
    consumed: u32,
    failed: u32,
    sent_ms: Option<i64>,
    last_sent_ms: Option<i64>,
    topic: &'a str,
    service: Option<String>,
    tenant_id: Option<&'a str>,
    created_ms: i64,
    expires_ms: Option<i64>,
    updated_ms: i64,
    last_error: Option<String>,
}

/// What a fold writes.
pub(super) struct Fold {
    /// The parameter of `fold_write.sql`.
    pub(super) rows: String,
    /// Hashes and event seqs, in the order in which everybody writes them.
    pub(super) lookups: Vec<(i64, i64)>,
    /// The parameter of `fold_figures.sql`; None: nothing to count.
    pub(super) figures: Option<String>,
}

impl Fold {
    pub(super) fn of(records: &[Record]) -> Result<Self> {
        let mut rows = Vec::with_capacity(records.len());
        let mut found_by = Vec::new();
        let standings: Vec<_> = records.iter().map(Record::standing).collect();
        let changes = figure::changes(records.iter().zip(&standings));
        for (record, standing) in records.iter().zip(standings) {
            found_by.extend(match record.listed {
                None => lookups(record),
                Some(_) => consumer_lookups(record),
            });
            let service = record.envelope.initiator.service.as_deref();
            rows.push(StatusRow {
                seq: record.sequence,
                status: standing.status.as_str(),
                expected: standing.expected,
                consumed: standing.consumed,
                failed: standing.failed,
                sent_ms: standing.sent_at.map(unix_ms),
                last_sent_ms: standing.last_sent_at.map(unix_ms),
                topic: &record.envelope.topic,
                service: service.map(|service| service.chars().take(limits::LABEL_CHARS).collect()),
                tenant_id: record.envelope.tenant_id.as_deref(),
                created_ms: unix_ms(record.created_at),
                // Once it has expired there is nothing to wait for, whatever the status has become.
                expires_ms: record
                    .envelope
                    .expire_at
                    .filter(|_| !standing.status.is_final() && !record.expired)
                    .map(unix_ms),
                updated_ms: unix_ms(standing.updated_at),
                last_error: standing.last_error,
            });
        }
        found_by.sort_unstable();
        let rows = serde_json::to_string(&rows).map_err(Error::Encode)?;
        let figures = match changes.is_empty() {
            true => None,
            false => Some(serde_json::to_string(&changes).map_err(Error::Encode)?),
        };
        Ok(Self { rows, lookups: found_by, figures })
    }
}

/// Event seqs that were taken in several ways, each once and in order.
pub(super) fn distinct(seqs: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let mut seqs: Vec<i64> = seqs.into_iter().collect();
    seqs.sort_unstable();
    seqs.dedup();
    seqs
}
