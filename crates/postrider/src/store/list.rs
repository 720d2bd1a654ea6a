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
    use crate::store::rollup::Lookup;

    /// How far the order of numbers and that of times may differ: a number is drawn when an event is written, its time is
    /// that of its transaction's beginning.
    const SLACK: time::Duration = time::Duration::minutes(5);
    /// Events that the first look takes, at least: most filters match many. As many of each index tell which is the rarest.
    const FIRST_LOOK: i64 = 200;

    /// An index that events are found by.
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

        /// Which of them are in that index too.
        fn among(&self, lead: Lead, seqs: &[i64]) -> impl Future<Output = Result<Vec<i64>>> + Send;

        /// Which of them have a delivery that stands so; of this consumer, if one is named.
        fn delivering(
            &self,
            seqs: &[i64],
            status: DeliveryStatus,
            consumer: Option<&str>,
        ) -> impl Future<Output = Result<Vec<i64>>> + Send;

        /// Which of them match by their own rows: `filter` as JSON.
        fn matching(&self, seqs: &[i64], filter: &str) -> impl Future<Output = Result<Vec<i64>>> + Send;

        /// Events with their rows.
        fn records(&self, seqs: &[i64]) -> impl Future<Output = Result<Vec<Record>>> + Send;

        /// The first event from this number on, and when it was stored.
        fn first_from(&self, seq: i64) -> impl Future<Output = Result<Option<(i64, OffsetDateTime)>>> + Send;

        /// The last event's number, 0 if there is none.
        fn last(&self) -> impl Future<Output = Result<i64>> + Send;

        /// After which number there may be events that the roll-up has not seen.
        fn unfolded_after(&self) -> impl Future<Output = Result<i64>> + Send;
    }

    /// What an event's own row says, as a statement reads it. Its service stands in no column.
    #[derive(Serialize)]
    struct FilterRow<'a> {
        topic: Option<&'a str>,
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
        /// Every index that has what is asked for.
        fn leads(&self) -> Vec<Lead> {
            let aggregate = self.aggregate_type.as_deref().map(|kind| match self.aggregate_id.as_deref() {
                Some(id) => Lookup::Aggregate(kind, id),
                None => Lookup::AggregateType(kind),
            });
            let lookups = [
                self.parent_event_id.as_deref().map(Lookup::Parent),
                self.trace_id.as_deref().map(Lookup::Trace),
                aggregate,
                self.key.as_deref().map(Lookup::Key),
                self.tenant_id.as_deref().map(Lookup::Tenant),
                self.consumer.as_deref().map(Lookup::Consumer),
                self.topic.as_deref().map(Lookup::Topic),
                self.service.as_deref().map(Lookup::Service),
            ];
            let lookups = lookups.into_iter().flatten().map(|lookup| Lead::Lookup(lookup.hash()));
            lookups.chain(self.status.map(Lead::Status)).collect()
        }

        fn delivery(&self) -> Option<(DeliveryStatus, Option<&str>)> {
            self.delivery_status.map(|status| (status, self.consumer.as_deref()))
        }

        fn json(&self) -> Result<String> {
            let row = FilterRow {
                topic: self.topic.as_deref(),
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

    /// Where to look for what matches, and what is left to ask of what is there.
    struct Source<'a> {
        lead: Lead,
        /// The other indexes that have to have it.
        others: Vec<Lead>,
        /// What its own row has to say, as JSON.
        row: Option<String>,
        /// How a delivery has to stand, and whose.
        delivery: Option<(DeliveryStatus, Option<&'a str>)>,
        above: i64,
    }

    impl<'a> Source<'a> {
        /// What the roll-up has seen, or, where nothing leads, every event.
        async fn seen(store: &impl Scan, filter: &'a Filter, above: i64, below: i64) -> Result<Self> {
            let mut others = filter.leads();
            let lead = match others.len() {
                0 => Lead::Events,
                1 => others.remove(0),
                _ => others.remove(rarest(store, &others, above, below).await?),
            };
            let times = Filter { from: filter.from, to: filter.to, ..Filter::default() };
            let row = (times != Filter::default()).then(|| times.json()).transpose()?;
            Ok(Self { lead, others, row, delivery: filter.delivery(), above })
        }

        /// What it has not seen: in no index yet, and PENDING.
        async fn unseen(store: &impl Scan, filter: &'a Filter, above: i64) -> Result<Self> {
            let above = above.max(store.unfolded_after().await?);
            let (others, row) = (Vec::new(), Some(filter.json()?));
            Ok(Self { lead: Lead::Unfolded, others, row, delivery: filter.delivery(), above })
        }

        /// Which of them match.
        async fn narrow(&self, store: &impl Scan, mut seqs: Vec<i64>) -> Result<Vec<i64>> {
            for lead in &self.others {
                if !seqs.is_empty() {
                    seqs = store.among(*lead, &seqs).await?;
                }
            }
            if let (Some((status, consumer)), false) = (self.delivery, seqs.is_empty()) {
                seqs = store.delivering(&seqs, status, consumer).await?;
            }
            if let (Some(row), false) = (&self.row, seqs.is_empty()) {
                seqs = store.matching(&seqs, row).await?;
            }
            seqs.sort_unstable_by(|a, b| b.cmp(a));
            seqs.dedup();
            Ok(seqs)
        }

        /// Matching events, newest first, and down to where it was looked at if that was not the end.
        async fn gather(&self, store: &impl Scan, mut below: i64, limit: u32) -> Result<(Vec<i64>, Option<i64>)> {
            let limit = limit as usize;
            let (mut found, mut scanned) = (Vec::new(), 0);
            let mut look = FIRST_LOOK.max(limit as i64 + 1);
            while scanned < limits::SCAN_EVENTS {
                look = look.min(limits::SCAN_EVENTS - scanned);
                let seqs = store.scan(self.lead, self.above, below, look).await?;
                let Some(last) = seqs.last().copied() else { return Ok((found, None)) };
                let looked = seqs.len() as i64;
                found.extend(self.narrow(store, seqs).await?);
                if found.len() >= limit {
                    found.truncate(limit);
                    let end = found.last().copied();
                    return Ok((found, end));
                }
                if looked < look {
                    return Ok((found, None));
                }
                scanned += looked;
                below = last;
                look *= 4;
            }
            Ok((found, Some(below)))
        }
    }

    /// Which index brings the fewest: it has few, or its first look reaches down the furthest.
    async fn rarest(store: &impl Scan, leads: &[Lead], above: i64, below: i64) -> Result<usize> {
        let mut rarest = (i64::MAX, 0);
        for (at, lead) in leads.iter().enumerate() {
            let seqs = store.scan(*lead, above, below, FIRST_LOOK).await?;
            let reach = match seqs.last() {
                Some(last) if seqs.len() as i64 == FIRST_LOOK => *last,
                _ => seqs.len() as i64 - FIRST_LOOK,
            };
            rarest = rarest.min((reach, at));
            if seqs.is_empty() {
                break;
            }
        }
        Ok(rarest.1)
    }

    /// A page.
    pub(in crate::store) async fn list(store: &impl Scan, list: &List) -> Result<Page> {
        list.check()?;
        let filter = &list.filter;
        let mut below = list.after.map_or(i64::MAX, |cursor| cursor.0);
        let mut above = 0;
        if let Some(to) = filter.to {
            below = below.min(seek(store, to.saturating_add(SLACK)).await?);
        }
        if let Some(from) = filter.from {
            above = seek(store, from.saturating_sub(SLACK)).await? - 1;
        }
        let (mut found, mut end) = (Vec::new(), None);
        // First what the roll-up has not seen: what it sees meanwhile is in the indexes by the time they are walked.
        if !filter.leads().is_empty() && filter.status.is_none_or(|status| status == EventStatus::Pending) {
            (found, end) = Source::unseen(store, filter, above).await?.gather(store, below, list.limit).await?;
        }
        let (seen, more) = Source::seen(store, filter, above, below).await?.gather(store, below, list.limit).await?;
        found.extend(seen);
        end = end.max(more);
        // Up to where both have been looked at.
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

    /// The first event that was stored at this time or later, by halving: numbers and times grow together.
    async fn seek(store: &impl Scan, at: OffsetDateTime) -> Result<i64> {
        let (mut low, mut high) = (1, store.last().await? + 1);
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
