//! How a page of a list is found. One index leads; the others are checked on what it returns, of no more than a bounded
//! number of events per page.

use std::future::Future;

use time::OffsetDateTime;

use super::fold::Lookup;
use crate::entry::DeliveryStatus;
use crate::error::Result;
use crate::failures;
use crate::limits;
use crate::status::{EventStatus, Record};
use crate::store::{Counted, Cursor, Filter, List, Page};

/// How much the order of numbers and the order of times may differ: an event's number is drawn when it is written,
/// its time is the beginning of its transaction.
const SLACK: time::Duration = time::Duration::minutes(5);
/// The smallest number of events in the first read. The same number is read from each index, to find the most
/// selective one.
const FIRST_LOOK: i64 = 200;
/// Events whose rows are read for one page, if only the rows tell whether they match.
const ROWS_READ: usize = 2_000;

/// An index that events are found by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lead {
    /// Events with this hash.
    Lookup(i64),
    /// Events with this stored status.
    Status(EventStatus),
    /// Every event.
    Events,
    /// Events that the roll-up has not folded yet.
    Unfolded,
}

/// The queries that a store provides for [`list`].
pub(crate) trait Scan: Sync {
    /// The next events of an index, newest first, between two numbers.
    fn scan(&self, lead: Lead, above: i64, below: i64, limit: i64) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// Which of them are in that index too.
    fn among(&self, lead: Lead, seqs: &[i64]) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// Which of these events have a delivery with this status (of this consumer, if one is given).
    fn delivering(
        &self,
        seqs: &[i64],
        status: DeliveryStatus,
        consumer: Option<&str>,
    ) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// Which of them match by their own rows.
    fn matching(&self, seqs: &[i64], filter: &RowFilter<'_>) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// Events with their rows.
    fn records(&self, seqs: &[i64]) -> impl Future<Output = Result<Vec<Record>>> + Send;

    /// Events whose ids are in a range, by their ids.
    fn search_ids(&self, from: &str, below: &str, limit: i64) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// The events with these ids.
    fn sequences(&self, event_ids: &[String]) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// The first event from this number on, and when it was stored.
    fn first_from(&self, seq: i64) -> impl Future<Output = Result<Option<(i64, OffsetDateTime)>>> + Send;

    /// The last event's number, 0 if there is none.
    fn last(&self) -> impl Future<Output = Result<i64>> + Send;

    /// The number after which there may be events that are not folded yet.
    fn unfolded_after(&self) -> impl Future<Output = Result<i64>> + Send;
}

/// What an event's own row must contain. A field that is `None` matches everything. The service is not a column.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowFilter<'a> {
    /// The topic.
    pub(crate) topic: Option<&'a str>,
    /// The trace.
    pub(crate) trace_id: Option<&'a str>,
    /// The event that caused it.
    pub(crate) parent_event_id: Option<&'a str>,
    /// The type of its aggregate.
    pub(crate) aggregate_type: Option<&'a str>,
    /// The id of its aggregate.
    pub(crate) aggregate_id: Option<&'a str>,
    /// Its key.
    pub(crate) event_key: Option<&'a str>,
    /// An expected consumer.
    pub(crate) consumer: Option<&'a str>,
    /// Its tenant.
    pub(crate) tenant_id: Option<&'a str>,
    /// Whether it must wait for a subscriber.
    pub(crate) unheard: bool,
    /// Stored at this time or later.
    pub(crate) from: Option<OffsetDateTime>,
    /// Stored before this time.
    pub(crate) to: Option<OffsetDateTime>,
}

impl Filter {
    /// Every index that can answer the filter.
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
            self.cloud_event_id.as_deref().map(Lookup::CloudEvent),
            self.wanted_tenant().map(Lookup::Tenant),
            self.wanted_consumer().map(Lookup::Consumer),
            self.wanted_topic().map(Lookup::Topic),
            self.service.as_deref().map(Lookup::Service),
        ];
        let lookups = lookups.into_iter().flatten().map(|lookup| Lead::Lookup(lookup.hash()));
        lookups.chain(self.status.map(Lead::Status)).collect()
    }

    /// The topic that every matching event has; a scope of one topic names it too.
    fn wanted_topic(&self) -> Option<&str> {
        self.topic.as_deref().or(self.scope.only_topic())
    }

    fn wanted_tenant(&self) -> Option<&str> {
        self.tenant_id.as_deref().or(self.scope.only_tenant())
    }

    fn wanted_consumer(&self) -> Option<&str> {
        let of_group = match &*self.failure_groups {
            [one] => failures::consumer_of(one),
            _ => None,
        };
        self.consumer.as_deref().or(self.scope.only_consumer()).or(of_group)
    }

    /// The same filter once for each status that it wants, because an index has one status.
    fn by_status(&self) -> Vec<Self> {
        match self.wanted_statuses() {
            None => vec![self.clone()],
            Some(wanted) => {
                let one = |status| Self { status: Some(status), statuses: Vec::new(), ..self.clone() };
                wanted.into_iter().map(one).collect()
            }
        }
    }

    fn delivery(&self) -> Option<(DeliveryStatus, Option<&str>)> {
        self.delivery_status.map(|status| (status, self.consumer.as_deref()))
    }

    fn row(&self) -> RowFilter<'_> {
        RowFilter {
            topic: self.wanted_topic(),
            trace_id: self.trace_id.as_deref(),
            parent_event_id: self.parent_event_id.as_deref(),
            aggregate_type: self.aggregate_type.as_deref(),
            aggregate_id: self.aggregate_id.as_deref(),
            event_key: self.key.as_deref(),
            consumer: self.wanted_consumer(),
            tenant_id: self.wanted_tenant(),
            unheard: self.unheard,
            from: self.from,
            to: self.to,
        }
    }

    /// Only what no index has.
    fn unindexed(&self) -> Option<RowFilter<'_>> {
        let Self { unheard, from, to, .. } = *self;
        let filter = RowFilter { unheard, from, to, ..RowFilter::default() };
        (from.is_some() || to.is_some() || unheard).then_some(filter)
    }
}

/// An index to read, and the remaining checks.
struct Source<'a> {
    lead: Lead,
    /// The other indexes that must contain the event.
    others: Vec<Lead>,
    row: Option<RowFilter<'a>>,
    /// The required status of a delivery, and its consumer.
    delivery: Option<(DeliveryStatus, Option<&'a str>)>,
    above: i64,
}

impl<'a> Source<'a> {
    /// Folded events; if no index leads, every event.
    async fn seen(store: &impl Scan, filter: &'a Filter, above: i64, below: i64) -> Result<Self> {
        let mut others = filter.leads();
        let lead = match others.len() {
            0 => Lead::Events,
            1 => others.remove(0),
            _ => others.remove(rarest(store, &others, above, below).await?),
        };
        Ok(Self { lead, others, row: filter.unindexed(), delivery: filter.delivery(), above })
    }

    /// Events that are not folded yet: they are in no index, and PENDING.
    async fn unseen(store: &impl Scan, filter: &'a Filter, above: i64) -> Result<Self> {
        let above = above.max(store.unfolded_after().await?);
        let (others, row) = (Vec::new(), Some(filter.row()));
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

    /// Returns matching events, newest first, and the number down to which it has read if that was not the end.
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

/// The most selective index: it has few events, or its first read reaches the smallest number.
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

/// The numbers of matching events, newest first, and the number down to which it has read if that was not the end.
async fn numbers(store: &impl Scan, filter: &Filter, range: Range, limit: u32) -> Result<(Vec<i64>, Option<i64>)> {
    let Range { above, below } = range;
    let (mut found, mut end) = (Vec::new(), None);
    for filter in &filter.by_status() {
        // Unfolded events come first: an event that is folded in the meantime is in the indexes when they are read.
        if !filter.leads().is_empty() && filter.status.is_none_or(|status| status == EventStatus::Pending) {
            let (unseen, more) = Source::unseen(store, filter, above).await?.gather(store, below, limit).await?;
            found.extend(unseen);
            end = end.max(more);
        }
        let (seen, more) = Source::seen(store, filter, above, below).await?.gather(store, below, limit).await?;
        found.extend(seen);
        end = end.max(more);
    }
    // Keeps only the range that all sources have covered.
    found.retain(|seq| end.is_none_or(|end| *seq >= end));
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    if found.len() > limit as usize {
        found.truncate(limit as usize);
        end = found.last().copied();
    }
    Ok((found, end))
}

/// The numbers that a filter's times and a cursor leave.
#[derive(Clone, Copy)]
struct Range {
    above: i64,
    below: i64,
}

impl Range {
    async fn of(store: &impl Scan, filter: &Filter, after: Option<Cursor>) -> Result<Self> {
        let mut below = after.map_or(i64::MAX, |cursor| cursor.0);
        let mut above = 0;
        if let Some(to) = filter.to {
            below = below.min(seek(store, to.saturating_add(SLACK)).await?);
        }
        if let Some(from) = filter.from {
            above = seek(store, from.saturating_sub(SLACK)).await? - 1;
        }
        Ok(Self { above, below })
    }
}

/// Finds a page.
pub(crate) async fn list(store: &impl Scan, list: &List) -> Result<Page> {
    list.check()?;
    let filter = &list.filter;
    if !filter.event_ids.is_empty() {
        return chosen(store, list).await;
    }
    let mut range = Range::of(store, filter, list.after).await?;
    let mut page = Page { events: Vec::new(), next: None };
    let mut read = 0;
    loop {
        let wanted = list.limit - page.events.len() as u32;
        let (found, end) = numbers(store, filter, range, wanted).await?;
        let mut events = store.records(&found).await?;
        read += found.len();
        // The indexes may be stale and hashes may collide, so the rows are checked again.
        events.retain(|record| filter.matches(record));
        events.sort_unstable_by_key(|record| std::cmp::Reverse(record.sequence));
        page.events.extend(events);
        page.next = end.map(Cursor);
        // What only the rows tell may leave few of many, so a page is filled from several reads.
        let is_short = filter.needs_rows() && page.events.len() < list.limit as usize && read < ROWS_READ;
        match end.filter(|_| is_short && !found.is_empty()) {
            Some(end) => range.below = end,
            None => return Ok(page),
        }
    }
}

/// A page of events that are named by their ids.
async fn chosen(store: &impl Scan, list: &List) -> Result<Page> {
    let below = list.after.map_or(i64::MAX, |cursor| cursor.0);
    let mut found = store.sequences(&list.filter.event_ids).await?;
    found.retain(|seq| *seq < below);
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    let is_more = found.len() > list.limit as usize;
    found.truncate(list.limit as usize);
    let mut events = store.records(&found).await?;
    events.retain(|record| list.filter.matches(record));
    events.sort_unstable_by_key(|record| std::cmp::Reverse(record.sequence));
    Ok(Page { events, next: found.last().filter(|_| is_more).copied().map(Cursor) })
}

/// Counts by numbers alone. If there are too many, the part that was read stands for the rest.
pub(crate) async fn count_events(store: &impl Scan, filter: &Filter) -> Result<Counted> {
    filter.check()?;
    if !filter.event_ids.is_empty() {
        let mut found = store.sequences(&filter.event_ids).await?;
        found.sort_unstable();
        found.dedup();
        let value = count_rows(store, filter, &found).await?;
        return Ok(Counted { value, exact: true });
    }
    let range = Range::of(store, filter, None).await?;
    let (found, end) = numbers(store, filter, range, limits::SCAN_EVENTS as u32).await?;
    // No index knows a pattern of topics, several names at once, or the kind of an error.
    let matched = if filter.needs_rows() { count_rows(store, filter, &found).await? } else { found.len() as u64 };
    let Some(end) = end else { return Ok(Counted { value: matched, exact: true }) };
    let newest = store.last().await?.min(range.below - 1);
    let oldest = store.first_from(range.above + 1).await?.map_or(end, |(seq, _)| seq);
    Ok(estimate(matched, newest, end, oldest))
}

/// How many of these events match by their rows.
async fn count_rows(store: &impl Scan, filter: &Filter, seqs: &[i64]) -> Result<u64> {
    let mut matched = 0;
    for chunk in seqs.chunks(limits::PAGE_EVENTS as usize) {
        let matches = |record: &&Record| filter.matches(record);
        matched += store.records(chunk).await?.iter().filter(matches).count() as u64;
    }
    Ok(matched)
}

/// So many matched from the newest number down to `end`: how many do down to the oldest?
fn estimate(matched: u64, newest: i64, end: i64, oldest: i64) -> Counted {
    let numbers = |to: i64| u128::from((newest - to).max(0).unsigned_abs()) + 1;
    let (read, whole) = (numbers(end), numbers(oldest.min(end)));
    let value = u64::try_from(u128::from(matched) * whole / read).unwrap_or(u64::MAX);
    Counted { value, exact: read == whole }
}

/// Finds the first event stored at this time or later by binary search: numbers and times grow together.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_stands_for_the_rest() {
        assert_eq!(estimate(10_000, 1_000_000, 990_001, 1), Counted { value: 1_000_000, exact: false });
        assert_eq!(estimate(50, 1_000_000, 990_001, 500_001), Counted { value: 2_500, exact: false });
        assert_eq!(estimate(7, 100, 1, 1), Counted { value: 7, exact: true });
        // Nothing is left of what was read when the count began.
        assert_eq!(estimate(3, 10, 20, 20), Counted { value: 3, exact: true });
    }
}
