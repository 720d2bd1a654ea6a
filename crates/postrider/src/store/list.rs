//! Lists of events: what may be asked, and how a page is found. One indexed filter leads; the others are asked of what it
//! brings, of no more than a bounded number of events a page.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::entry::DeliveryStatus;
use crate::error::{Error, Result};
use crate::limits;
use crate::status::{EventStatus, Record};

/// What to list. What is not said matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Filter {
    /// Of this topic.
    pub topic: Option<String>,
    /// That stand here.
    pub status: Option<EventStatus>,
    /// With a delivery that stands here.
    pub delivery_status: Option<DeliveryStatus>,
    /// Written by this service.
    pub service: Option<String>,
    /// Of this trace.
    pub trace_id: Option<String>,
    /// Caused by this event.
    pub parent_event_id: Option<String>,
    /// Of aggregates of this type.
    pub aggregate_type: Option<String>,
    /// Of the aggregate with this id; its type has to be said too.
    pub aggregate_id: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// Expected of this consumer.
    #[serde(rename = "consumerId")]
    pub consumer: Option<String>,
    /// Of this tenant.
    pub tenant_id: Option<String>,
    /// Stored at this time or later.
    #[serde(with = "time::serde::rfc3339::option")]
    pub from: Option<OffsetDateTime>,
    /// Stored before this time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub to: Option<OffsetDateTime>,
}

impl Filter {
    /// Refuses what cannot be asked.
    pub fn check(&self) -> Result<()> {
        if self.aggregate_id.is_some() && self.aggregate_type.is_none() {
            return Err(Error::invalid("aggregateType", "is needed with aggregateId".into()));
        }
        Ok(())
    }

    /// Whether an event is one of those.
    pub fn matches(&self, record: &Record) -> bool {
        let event = &record.envelope;
        let is = |wanted: &Option<String>, actual: Option<&str>| wanted.is_none() || wanted.as_deref() == actual;
        is(&self.topic, Some(&event.topic))
            && is(&self.service, event.initiator.service.as_deref())
            && is(&self.trace_id, event.trace_id.as_deref())
            && is(&self.parent_event_id, event.parent_event_id.as_ref().map(|id| id.as_str()))
            && is(&self.aggregate_type, event.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str()))
            && is(&self.aggregate_id, event.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()))
            && is(&self.key, event.key.as_deref())
            && is(&self.tenant_id, event.tenant_id.as_deref())
            && self.from.is_none_or(|from| from <= record.created_at)
            && self.to.is_none_or(|to| record.created_at < to)
            && self.consumer.as_deref().is_none_or(|consumer| record.consumers().contains_key(consumer))
            && self.delivery_status.is_none_or(|status| {
                let of_consumer = |lane: &str, target: &str| {
                    self.consumer.as_deref().is_none_or(|consumer| lane == consumer || target == consumer)
                };
                record.deliveries.iter().any(|one| one.status == status && of_consumer(&one.lane, &one.target))
            })
            && self.status.is_none_or(|status| record.standing().status == status)
    }
}

/// Where a page ends and the next begins: what [`Page::next`] says, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub(crate) i64);

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.parse().ok().filter(|number| *number > 0);
        number.map(Self).ok_or_else(|| Error::invalid("cursor", "must be a nextCursor of this list".into()))
    }
}

/// Which page of which list.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Which events.
    pub filter: Filter,
    /// How many: 1 to [`limits::PAGE_EVENTS`].
    pub limit: u32,
    /// Where the last page ended; None: the newest.
    pub after: Option<Cursor>,
}

impl List {
    /// The first page of what matches.
    pub fn new(filter: Filter, limit: u32) -> Self {
        Self { filter, limit, after: None }
    }

    /// Refuses what cannot be asked.
    pub(crate) fn check(&self) -> Result<()> {
        if self.limit == 0 || self.limit > limits::PAGE_EVENTS {
            return Err(Error::invalid("limit", format!("must be 1 to {}, is {}", limits::PAGE_EVENTS, self.limit)));
        }
        self.filter.check()
    }
}

/// Events, the newest first.
#[derive(Debug, Clone)]
pub struct Page {
    /// Without payload and metadata. May be fewer than asked for, or none, and there may be more all the same.
    pub events: Vec<Record>,
    /// Where to go on; None: that was all.
    pub next: Option<Cursor>,
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) use scan::{Lead, Scan, list};

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod scan {
    use std::future::Future;

    use super::*;
    use crate::store::batch::unix_ms;
    use crate::store::rollup::{LOOK_BACK, Lookup};

    /// How far the order of numbers and that of times may differ: a number is drawn when an event is written, its time is
    /// that of its transaction's beginning.
    const SLACK: time::Duration = time::Duration::minutes(5);
    /// Events that the first look takes, at least: most filters match many.
    const FIRST_LOOK: i64 = 200;

    /// The index that leads.
    #[derive(Debug, Clone, Copy)]
    pub(in crate::store) enum Lead {
        /// Events with this hash.
        Lookup(i64),
        /// Events that are listed as this.
        Status(EventStatus),
        /// Every event.
        Events,
        /// Events that the roll-up has not seen.
        Unfolded,
    }

    /// What a SQL store has to answer.
    pub(in crate::store) trait Scan: Sync {
        /// The next events of an index, newest first, between two numbers.
        fn scan(&self, lead: Lead, above: i64, below: i64, limit: i64)
        -> impl Future<Output = Result<Vec<i64>>> + Send;

        /// Which of them match the rest of a filter, as far as a statement can ask: `filter` as JSON.
        fn matching(&self, seqs: &[i64], filter: &str) -> impl Future<Output = Result<Vec<i64>>> + Send;

        /// Events with their rows.
        fn records(&self, seqs: &[i64]) -> impl Future<Output = Result<Vec<Record>>> + Send;

        /// The first event from this number on, and when it was stored.
        fn first_from(&self, seq: i64) -> impl Future<Output = Result<Option<(i64, OffsetDateTime)>>> + Send;

        /// The last event's number, 0 if there is none, and up to where the roll-up has looked for new ones.
        fn last_and_folded(&self) -> impl Future<Output = Result<(i64, i64)>> + Send;
    }

    /// The rest of a filter as a statement reads it.
    #[derive(Serialize)]
    struct FilterRow<'a> {
        topic: Option<&'a str>,
        status: Option<&'static str>,
        delivery_status: Option<&'static str>,
        service: Option<String>,
        trace_id: Option<&'a str>,
        parent_event_id: Option<&'a str>,
        aggregate_type: Option<&'a str>,
        aggregate_id: Option<&'a str>,
        event_key: Option<&'a str>,
        consumer: Option<&'a str>,
        tenant_id: Option<&'a str>,
        from_ms: Option<i64>,
        to_ms: Option<i64>,
    }

    impl Filter {
        /// The filter that brings the fewest, by what such values usually are.
        fn lead(&self) -> Lead {
            let rare = |status: &EventStatus| !matches!(status, EventStatus::Consumed | EventStatus::Pending);
            let lookup = |lookup: Lookup<'_>| Lead::Lookup(lookup.hash());
            let aggregate = self.aggregate_type.as_deref().zip(self.aggregate_id.as_deref());
            by(&self.parent_event_id, Lookup::Parent)
                .or_else(|| by(&self.trace_id, Lookup::Trace))
                .or_else(|| aggregate.map(|(kind, id)| lookup(Lookup::Aggregate(kind, id))))
                .or_else(|| by(&self.key, Lookup::Key))
                .or_else(|| self.status.filter(rare).map(Lead::Status))
                .or_else(|| by(&self.tenant_id, Lookup::Tenant))
                .or_else(|| by(&self.consumer, Lookup::Consumer))
                .or_else(|| by(&self.topic, Lookup::Topic))
                .or_else(|| by(&self.aggregate_type, Lookup::AggregateType))
                .or_else(|| by(&self.service, Lookup::Service))
                .or_else(|| self.status.map(Lead::Status))
                .unwrap_or(Lead::Events)
        }

        fn json(&self) -> Result<String> {
            let service = self.service.as_deref();
            let row = FilterRow {
                topic: self.topic.as_deref(),
                status: self.status.map(EventStatus::as_str),
                delivery_status: self.delivery_status.map(DeliveryStatus::as_str),
                service: service.map(|service| service.chars().take(limits::LABEL_CHARS).collect()),
                trace_id: self.trace_id.as_deref(),
                parent_event_id: self.parent_event_id.as_deref(),
                aggregate_type: self.aggregate_type.as_deref(),
                aggregate_id: self.aggregate_id.as_deref(),
                event_key: self.key.as_deref(),
                consumer: self.consumer.as_deref(),
                tenant_id: self.tenant_id.as_deref(),
                from_ms: self.from.map(unix_ms),
                to_ms: self.to.map(unix_ms),
            };
            serde_json::to_string(&row).map_err(Error::Encode)
        }
    }

    fn by<'a>(value: &'a Option<String>, of: fn(&'a str) -> Lookup<'a>) -> Option<Lead> {
        value.as_deref().map(|value| Lead::Lookup(of(value).hash()))
    }

    /// A page.
    pub(in crate::store) async fn list(store: &impl Scan, list: &List) -> Result<Page> {
        list.check()?;
        let filter = &list.filter;
        let (last, folded_to) = store.last_and_folded().await?;
        let mut below = list.after.map_or(i64::MAX, |cursor| cursor.0);
        let mut above = 0;
        if let Some(to) = filter.to {
            below = below.min(seek(store, to.saturating_add(SLACK), last).await?);
        }
        if let Some(from) = filter.from {
            above = seek(store, from.saturating_sub(SLACK), last).await? - 1;
        }
        let rest = filter.json()?;
        let lead = filter.lead();
        let mut sources = vec![(lead, above)];
        // What the roll-up has not seen is in no index yet, and is PENDING.
        if !matches!(lead, Lead::Events) && filter.status.is_none_or(|status| status == EventStatus::Pending) {
            sources.push((Lead::Unfolded, above.max(folded_to - LOOK_BACK)));
        }
        let (mut found, mut end) = (Vec::new(), None);
        for (lead, above) in sources {
            let (seqs, more) = gather(store, lead, above, below, list.limit, &rest).await?;
            found.extend(seqs);
            end = end.max(more);
        }
        // Up to where every source has been looked at.
        found.retain(|seq| end.is_none_or(|end| *seq >= end));
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.dedup();
        if found.len() > list.limit as usize {
            found.truncate(list.limit as usize);
            end = found.last().copied();
        }
        let mut events = store.records(&found).await?;
        // A statement asks what is listed, and hashes may be shared: the rows have the last word.
        events.retain(|record| filter.matches(record));
        events.sort_unstable_by_key(|record| std::cmp::Reverse(record.sequence));
        Ok(Page { events, next: end.map(Cursor) })
    }

    /// Matching events of one index, newest first, and down to where it was looked at if that was not the end.
    async fn gather(
        store: &impl Scan,
        lead: Lead,
        above: i64,
        mut below: i64,
        limit: u32,
        rest: &str,
    ) -> Result<(Vec<i64>, Option<i64>)> {
        let limit = limit as usize;
        let (mut found, mut scanned) = (Vec::new(), 0);
        let mut look = FIRST_LOOK.max(limit as i64 + 1);
        while scanned < limits::SCAN_EVENTS {
            look = look.min(limits::SCAN_EVENTS - scanned);
            let seqs = store.scan(lead, above, below, look).await?;
            let Some(last) = seqs.last().copied() else { return Ok((found, None)) };
            scanned += seqs.len() as i64;
            let mut matching = store.matching(&seqs, rest).await?;
            matching.sort_unstable_by(|a, b| b.cmp(a));
            found.extend(matching);
            if found.len() >= limit {
                found.truncate(limit);
                let end = found.last().copied();
                return Ok((found, end));
            }
            if (seqs.len() as i64) < look {
                return Ok((found, None));
            }
            below = last;
            look *= 4;
        }
        Ok((found, Some(below)))
    }

    /// The first event that was stored at this time or later, by halving: numbers and times grow together.
    async fn seek(store: &impl Scan, at: OffsetDateTime, last: i64) -> Result<i64> {
        let (mut low, mut high) = (1, last + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match store.first_from(middle).await? {
                Some((seq, created_at)) if created_at < at => low = seq + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }
}
