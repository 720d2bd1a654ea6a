//! Reads the rows a page at a time, keeps what was found, and writes the results.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use time::OffsetDateTime;
use tokio::time::Instant;

use super::check::{Audience, Finding, Later, Owed, stuck, successes_to_explain, twice};
use super::{BooksCheck, PromiseFinding, PromiseName, PromiseResult, checked};
use crate::alert::{LaneFacts, Stalls, lane_facts, standing_lanes};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::limits;
use crate::status::{EventStatus, Record};
use crate::store::{Cursor, Filter, History, LaneCounts, List, PromiseNote, Store, half_hour_of};

/// Statuses of events that still have something before them.
const OPEN: [EventStatus; 3] = [EventStatus::Pending, EventStatus::Sent, EventStatus::Retrying];
/// How long one look reads pages; the rest waits for the next look.
const READS: Duration = Duration::from_millis(100);
/// How far back business keys are compared. A look happens every few seconds.
const KEYS_WITHIN: Duration = Duration::from_secs(120);
/// What a service's own books cost is not known: they are compared once a minute.
const BOOKS_EVERY: Duration = Duration::from_secs(60);
/// Findings of each promise that are kept, and named.
const KEPT: usize = 100;
const NAMED: usize = 20;
const DAY: Duration = Duration::from_secs(86_400);

/// What a sentence about two effects says before the key.
const UNDER_KEY: &str = " under the key ";

pub(super) type Results = BTreeMap<PromiseName, PromiseResult>;

/// What is remembered from one look to the next.
#[derive(Default)]
pub(super) struct Look {
    /// Where the walk over all events is, and what it has seen.
    walk: Walk,
    /// What the last complete walk has seen.
    walked: Option<Owed>,
    /// Where the walks over open events are.
    open: [Option<Cursor>; OPEN.len()],
    findings: BTreeMap<Finding, OffsetDateTime>,
    /// Business keys with two effects. They are compared while they are young, so what was found stays for a day.
    doubled_keys: BTreeMap<String, PromiseFinding>,
    stalls: Stalls,
    books: Option<(Instant, PromiseResult)>,
    /// The results of a predecessor, until they are replaced.
    before: Option<Results>,
}

#[derive(Default)]
struct Walk {
    next: Option<Cursor>,
    owed: Owed,
    later: Later,
}

/// What all pages of one look are compared with.
struct Context {
    now: OffsetDateTime,
    audience: Audience,
    paused: BTreeSet<String>,
    counts: BTreeMap<String, LaneCounts>,
    lanes: BTreeMap<String, LaneFacts>,
    leases: u64,
}

impl Context {
    async fn read(store: &dyn Store) -> Result<Self> {
        let without_history = store.lanes().await?.into_iter().filter(|(_, is)| is.history == History::Omit);
        let without_history = without_history.map(|(lane, _)| lane).collect();
        let mut subscriptions = store.subscriptions(None).await?;
        subscriptions.extend(store.removed_subscriptions().await?);
        let holdings = store.holdings().await?;
        let counts = store.counts().await?;
        Ok(Self {
            now: store.now().await?,
            audience: Audience::new(subscriptions.into_iter(), &without_history),
            paused: store.paused().await?,
            lanes: lane_facts(store, &counts, &holdings).await?,
            leases: holdings.iter().filter(|one| one.kind == "lane").map(|one| one.count).sum(),
            counts,
        })
    }
}

impl Look {
    /// The newest events, the next of the open ones, and a part of the walk over all: bounded work.
    pub(super) async fn at_some(
        &mut self,
        store: &dyn Store,
        stalled: Duration,
        books: Option<&dyn BooksCheck>,
    ) -> Result<Results> {
        let began = Instant::now();
        let context = Context::read(store).await?;
        self.read_predecessor(store).await?;
        let newest = store.list(&List::new(Filter::default(), limits::PAGE_EVENTS)).await?.events;
        self.compare(store, &context, &newest, &mut Later::default()).await?;
        for (n, status) in OPEN.into_iter().enumerate() {
            let filter = Filter { status: Some(status), ..Filter::default() };
            let page = store.list(&List { filter, limit: limits::PAGE_EVENTS, after: self.open[n] }).await?;
            self.compare(store, &context, &page.events, &mut Later::default()).await?;
            self.open[n] = page.next;
        }
        while !self.walk_on(store, &context).await? && began.elapsed() < READS {}
        self.results(store, &context, stalled, books).await
    }

    /// Every event.
    pub(super) async fn at_everything(
        &mut self,
        store: &dyn Store,
        stalled: Duration,
        books: Option<&dyn BooksCheck>,
    ) -> Result<Results> {
        let context = Context::read(store).await?;
        self.read_predecessor(store).await?;
        while !self.walk_on(store, &context).await? {}
        self.results(store, &context, stalled, books).await
    }

    /// Walks over one page. Returns true at the end of the events.
    async fn walk_on(&mut self, store: &dyn Store, context: &Context) -> Result<bool> {
        let mut walk = std::mem::take(&mut self.walk);
        let list = List { filter: Filter::default(), limit: limits::PAGE_EVENTS, after: walk.next };
        let page = store.list(&list).await?;
        page.events.iter().for_each(|record| walk.owed.add(record, context.now));
        self.compare(store, context, &page.events, &mut walk.later).await?;
        walk.next = page.next;
        if walk.next.is_some() {
            self.walk = walk;
            return Ok(false);
        }
        self.walked = Some(walk.owed);
        Ok(true)
    }

    async fn compare(
        &mut self,
        store: &dyn Store,
        context: &Context,
        records: &[Record],
        later: &mut Later,
    ) -> Result<()> {
        let mut found = Vec::new();
        for record in records {
            found.extend(stuck(record, context.now, &context.paused));
            found.extend(later.compare(record));
        }
        found.extend(doubled(store, records).await?);
        found.extend(lost(store, context, records).await?);
        for finding in found {
            if self.of(finding.promise).count() < KEPT {
                self.findings.entry(finding).or_insert(context.now);
            }
        }
        Ok(())
    }

    /// Reads again what was found before: what is mended by now, and what only looked wrong while rows moved, is dropped.
    async fn confirm(&mut self, store: &dyn Store, context: &Context) -> Result<()> {
        let mut events: BTreeMap<String, Option<Record>> = BTreeMap::new();
        let mut confirmed = BTreeMap::new();
        for (finding, found_at) in self.findings.clone() {
            if !events.contains_key(&finding.event_id) {
                events.insert(finding.event_id.clone(), store.find(&finding.event_id).await?);
            }
            let Some(Some(record)) = events.get(&finding.event_id) else { continue };
            let record = std::slice::from_ref(record);
            let again = match finding.promise {
                PromiseName::Lost => lost(store, context, record).await?,
                PromiseName::Twice => doubled(store, record).await?,
                PromiseName::Stuck => stuck(&record[0], context.now, &context.paused),
                PromiseName::Order => order_of_key(store, &record[0]).await?,
                PromiseName::Books => Vec::new(),
            };
            if let Some(again) = again.into_iter().find(|one| one.consumer == finding.consumer) {
                confirmed.insert(again, found_at);
            }
        }
        self.findings = confirmed;
        Ok(())
    }

    /// Another instance may have worked before: what it found is looked at again, and since when stays as it noted.
    async fn read_predecessor(&mut self, store: &dyn Store) -> Result<()> {
        if self.before.is_some() {
            return Ok(());
        }
        let before: Results = checked(store).await?.into_iter().map(|one| (one.name, one.result)).collect();
        for (promise, result) in &before {
            for one in &result.findings {
                let PromiseFinding { what, event_id: Some(event_id), consumer_id: Some(consumer), found_at } =
                    one.clone()
                else {
                    continue;
                };
                if what.contains(UNDER_KEY) {
                    self.doubled_keys.insert(what, one.clone());
                } else {
                    self.findings.insert(Finding { promise: *promise, event_id, consumer, what }, found_at);
                }
            }
        }
        self.before = Some(before);
        Ok(())
    }

    async fn results(
        &mut self,
        store: &dyn Store,
        context: &Context,
        stalled: Duration,
        books: Option<&dyn BooksCheck>,
    ) -> Result<Results> {
        self.confirm(store, context).await?;
        let mut results = Results::new();
        results.insert(PromiseName::Lost, self.nothing_lost());
        results.insert(PromiseName::Twice, self.nothing_twice(store, context).await?);
        results.insert(PromiseName::Stuck, self.nobody_stuck(store, context, stalled).await?);
        results.insert(PromiseName::Order, self.order_kept(store, context).await?);
        if let Some(books) = books
            && let Some(result) = self.books_balance(books).await
        {
            results.insert(PromiseName::Books, result);
        }
        let before = self.before.take().unwrap_or_default();
        for (promise, result) in &mut results {
            let broken_before = before.get(promise).filter(|one| !one.ok).and_then(|one| one.since);
            result.since = (!result.ok).then(|| broken_before.unwrap_or(context.now));
        }
        self.before = Some(results.clone());
        Ok(results)
    }

    fn result_of(&self, promise: PromiseName, figures: &[(&str, u64)]) -> PromiseResult {
        let found: Vec<_> = self.of(promise).collect();
        let events: BTreeSet<_> = found.iter().map(|(one, _)| one.event_id.clone()).collect();
        PromiseResult {
            ok: found.is_empty(),
            figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            events: events.into_iter().take(NAMED).collect(),
            findings: found.iter().take(NAMED).map(|(one, found_at)| one.shown(**found_at)).collect(),
            ..PromiseResult::default()
        }
    }

    fn of(&self, promise: PromiseName) -> impl Iterator<Item = (&Finding, &OffsetDateTime)> {
        self.findings.iter().filter(move |(one, _)| one.promise == promise)
    }

    fn nothing_lost(&self) -> PromiseResult {
        let missing = self.of(PromiseName::Lost).count() as u64;
        let Owed { events, done, waiting, dead, .. } = self.walked.unwrap_or(self.walk.owed);
        let owed = done + waiting + dead + missing;
        let figures = [
            ("events", events),
            ("owed", owed),
            ("done", done),
            ("waiting", waiting),
            ("dead", dead),
            ("missing", missing),
        ];
        self.result_of(PromiseName::Lost, &figures)
    }

    async fn nothing_twice(&mut self, store: &dyn Store, context: &Context) -> Result<PromiseResult> {
        let repeats = store.count_repeats(DAY).await?;
        for one in store.doubled_keys(KEYS_WITHIN, NAMED as u32).await? {
            let what =
                format!("{} had two effects{UNDER_KEY}{}: {} and {}", one.consumer, one.key, one.first, one.second);
            let finding = PromiseFinding {
                what: what.clone(),
                event_id: Some(one.second),
                consumer_id: Some(one.consumer),
                found_at: context.now,
            };
            self.doubled_keys.entry(what).or_insert(finding);
        }
        self.doubled_keys.retain(|_, one| context.now - one.found_at < DAY);
        let mut result = self.result_of(PromiseName::Twice, &[]);
        result.findings.extend(self.doubled_keys.values().take(NAMED).cloned());
        result.events.extend(self.doubled_keys.values().take(NAMED).filter_map(|one| one.event_id.clone()));
        result.ok = result.findings.is_empty();
        let figures = [("repeats", repeats), ("stopped", repeats), ("twice", result.findings.len() as u64)];
        result.figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(result)
    }

    async fn nobody_stuck(&mut self, store: &dyn Store, context: &Context, stalled: Duration) -> Result<PromiseResult> {
        let mut standing = Vec::new();
        for lane in standing_lanes(&context.lanes, context.now, &mut self.stalls) {
            if lane.stands >= stalled {
                standing.push((lane.name.to_owned(), lane.oldest));
            }
        }
        let overdue = self.of(PromiseName::Stuck).count() as u64;
        let held = self.walked.unwrap_or(self.walk.owed).held_seconds;
        let held = if context.leases == 0 { 0 } else { held };
        let figures = [
            ("leases", context.leases),
            ("oldestSeconds", held),
            ("overdue", overdue),
            ("lanes", standing.len() as u64),
        ];
        let mut result = self.result_of(PromiseName::Stuck, &figures);
        for (lane, oldest) in standing {
            let waiting = context.lanes.get(&lane).map_or(0, |of| of.waiting);
            let seconds = oldest.as_secs();
            let what =
                format!("{waiting} deliveries wait for {lane}, the first for {seconds} s, and no worker takes them");
            let (consumer_id, found_at) = (Some(lane.clone()), context.now);
            result.findings.push(PromiseFinding { what, event_id: None, consumer_id, found_at });
            let filter = Filter { consumer: Some(lane), statuses: OPEN.to_vec(), ..Filter::default() };
            let waiting = store.list(&List::new(filter, 3)).await?.events;
            result.events.extend(waiting.into_iter().map(|record| record.envelope.event_id.to_string()));
        }
        result.events.sort();
        result.events.dedup();
        result.ok = result.findings.is_empty();
        Ok(result)
    }

    async fn order_kept(&self, store: &dyn Store, context: &Context) -> Result<PromiseResult> {
        let held = context.counts.values().map(|of| of.held).sum();
        let mut keys = BTreeSet::new();
        for (lane, _) in context.counts.iter().filter(|(_, of)| of.held > 0) {
            let dead = store.dead_letters(lane, limits::PAGE_EVENTS).await?;
            keys.extend(dead.into_iter().filter(|letter| letter.held > 0).filter_map(|letter| letter.key));
        }
        let out_of_order = self.of(PromiseName::Order).count() as u64;
        let figures = [("outOfOrder", out_of_order), ("heldKeys", keys.len() as u64), ("held", held)];
        let keys = keys.into_iter().take(NAMED).collect();
        Ok(PromiseResult { keys, ..self.result_of(PromiseName::Order, &figures) })
    }

    async fn books_balance(&mut self, books: &dyn BooksCheck) -> Option<PromiseResult> {
        if let Some((at, result)) = &self.books
            && at.elapsed() < BOOKS_EVERY
        {
            return Some(result.clone());
        }
        let balance = match books.check().await {
            Ok(balance) => balance,
            Err(error) => {
                tracing::warn!(source = books.source(), %error, "the books could not be compared");
                return self.books.as_ref().map(|(_, result)| result.clone());
            }
        };
        let discrepancy =
            |what| PromiseFinding { what, event_id: None, consumer_id: None, found_at: SystemClock.now() };
        let mut figures = balance.checked;
        figures.insert("discrepancies".into(), balance.discrepancies.len() as u64);
        let result = PromiseResult {
            ok: balance.discrepancies.is_empty(),
            figures,
            findings: balance.discrepancies.into_iter().take(NAMED).map(discrepancy).collect(),
            source: Some(books.source().into()),
            ..PromiseResult::default()
        };
        self.books = Some((Instant::now(), result.clone()));
        Some(result)
    }
}

/// Events that were expected somewhere and have no row there.
async fn lost(store: &dyn Store, context: &Context, records: &[Record]) -> Result<Vec<Finding>> {
    let mut missing: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for record in records {
        for consumer in context.audience.without_rows(record) {
            missing.entry(consumer).or_default().push(record.sequence);
        }
    }
    let mut found = Vec::new();
    for (consumer, sequences) in missing {
        let expected = store.were_expected(consumer, &sequences).await?;
        let expected = records.iter().filter(|record| expected.contains(&record.sequence));
        found.extend(expected.map(|record| {
            let what =
                format!("the delivery of {} to {consumer} is gone, and nothing says why", record.envelope.event_id);
            Finding::new(PromiseName::Lost, record, consumer, what)
        }));
    }
    Ok(found)
}

/// Events with more successes of a consumer than can be explained.
async fn doubled(store: &dyn Store, records: &[Record]) -> Result<Vec<Finding>> {
    let suspects: Vec<_> = records.iter().filter(|record| !successes_to_explain(record).is_empty()).collect();
    if suspects.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = suspects.iter().map(|record| record.envelope.event_id.as_str()).collect();
    let repeats = store.repeats(&ids).await?;
    Ok(suspects.into_iter().flat_map(|record| twice(record, &repeats)).collect())
}

/// The findings about one event, among the events of its key.
async fn order_of_key(store: &dyn Store, record: &Record) -> Result<Vec<Finding>> {
    let filter = Filter { key: record.envelope.key.clone(), ..Filter::default() };
    let events = store.list(&List::new(filter, limits::PAGE_EVENTS)).await?.events;
    let mut later = Later::default();
    let found: Vec<_> = events.iter().flat_map(|event| later.compare(event)).collect();
    Ok(found.into_iter().filter(|one| one.event_id == record.envelope.event_id.as_str()).collect())
}

pub(super) async fn write(store: &dyn Store, results: &Results) -> Result<()> {
    let half_hour = half_hour_of(store.now().await?);
    for (promise, result) in results {
        let note = PromiseNote {
            promise: promise.as_str().into(),
            half_hour,
            kept: result.ok,
            strained: result.figures.get("held").is_some_and(|held| *held > 0),
            result: serde_json::to_string(result).map_err(Error::Encode)?,
        };
        store.note_promise(&note).await?;
    }
    Ok(())
}
