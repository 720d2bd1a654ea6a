//! Whether the promises hold, checked on the rows of the store: nothing is lost, nothing happens twice, nothing is stuck, the order
//! of a key is kept, and the books of a service balance.
//!
//! Any number of instances may run it. One works, under a lease. It walks over the events from the newest to the oldest, again and
//! again, a page at a time, and compares the rows of each event with each other. So the work is bounded however many events there
//! are, and no counter is trusted. A promise that does not hold names events. What each check compares: `docs/promises.md`.

mod check;
mod look;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

use crate::consumer::Failure;
use crate::error::Result;
use crate::presence;
use crate::retry;
use crate::status::Record;
use crate::store::{IntoStore, KeptLease, Repeat, Store};

use look::Look;

/// The lease of the instance that works.
const LEASE_NAME: &str = "postrider.promises";
/// How soon another instance continues after this one has died.
const LEASE: Duration = Duration::from_secs(15);
/// How often it looks, at most.
const LOOK: Duration = Duration::from_secs(2);
/// The pause after a look that took some time, as a multiple of that time.
const PACE: u32 = 10;

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PromiseName {
    /// Every delivery that is owed is done, waits, or is dead.
    Lost,
    /// Every effect happens once.
    Twice,
    /// Whatever is due is worked on.
    Stuck,
    /// Events of a key take effect in their order.
    Order,
    /// A check of the service's own.
    Books,
}

impl PromiseName {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Lost, Self::Twice, Self::Stuck, Self::Order, Self::Books];

    /// Its name in the store, the API and the console.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Twice => "twice",
            Self::Stuck => "stuck",
            Self::Order => "order",
            Self::Books => "books",
        }
    }

    /// A statement that finds by hand what the check finds. It reads whole tables: use it on a copy, or in a quiet hour.
    pub fn sql(self) -> Option<&'static str> {
        match self {
            Self::Lost => Some(
                "SELECT e.event_id, s.expected FROM postrider_status s JOIN postrider_event e ON e.seq = s.event_seq\n\
                 WHERE s.status IN ('PENDING', 'SENT', 'RETRYING')\n  AND s.expected >\n      \
                 (SELECT count(*) FROM postrider_delivery d WHERE d.event_seq = s.event_seq)\n    \
                 + (SELECT count(DISTINCT c.consumer) FROM postrider_consumption c\n       \
                 WHERE c.event_seq = s.event_seq AND (c.success OR c.success IS NULL OR NOT c.will_retry))",
            ),
            Self::Twice => Some(
                "SELECT consumer, idempotency_key, count(*) FROM postrider_inbox\nWHERE idempotency_key IS NOT NULL\n\
                 GROUP BY consumer, idempotency_key HAVING count(*) > 1",
            ),
            Self::Stuck => Some(
                "SELECT lane, count(*), min(due_at) FROM postrider_delivery\nWHERE token IS NULL GROUP BY lane ORDER BY 3",
            ),
            Self::Order => Some(
                "SELECT a.consumer, e.event_key, e.event_id, f.event_id AS before_it FROM postrider_event e\n\
                 JOIN postrider_event f ON f.event_key = e.event_key AND f.seq > e.seq\n\
                 JOIN postrider_consumption a ON a.event_seq = e.seq AND a.success\n\
                 JOIN postrider_consumption b ON b.event_seq = f.seq AND b.consumer = a.consumer AND b.success\n\
                 WHERE b.consumed_at < a.consumed_at",
            ),
            Self::Books => None,
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromiseResult {
    /// Whether the promise holds.
    pub ok: bool,
    /// Numbers, by their names.
    pub figures: BTreeMap<String, u64>,
    /// The events that it does not hold for, at most twenty.
    pub events: Vec<String>,
    /// Keys that wait, so that their order is kept; at most twenty.
    pub keys: Vec<String>,
    /// What is wrong, at most twenty lines.
    pub findings: Vec<PromiseFinding>,
    /// Since when it does not hold.
    #[serde(with = "time::serde::rfc3339::option")]
    pub since: Option<OffsetDateTime>,
    /// Which service has checked it, if the product has not.
    pub source: Option<String>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromiseFinding {
    /// What is wrong, in a sentence.
    pub what: String,
    /// The event that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The consumer that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_id: Option<String>,
    /// When it was found.
    #[serde(with = "time::serde::rfc3339")]
    pub found_at: OffsetDateTime,
}

/// One promise as readers see it: the last result, and the last day.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CheckedPromise {
    /// Which one.
    pub name: PromiseName,
    /// The last result.
    pub result: PromiseResult,
    /// When it was last checked.
    pub checked_at: OffsetDateTime,
    /// The last day, a half hour each, in order. Half hours in which no process checked are left out.
    pub history: Vec<HalfHour>,
}

/// A promise in one half hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfHour {
    /// Its beginning.
    pub at: OffsetDateTime,
    /// Whether the promise held all the time.
    pub ok: bool,
    /// Whether events waited, so that it held.
    pub strained: bool,
}

/// The last results of all promises that were checked within the last day.
pub async fn checked(store: &dyn Store) -> Result<Vec<CheckedPromise>> {
    let stored = store.promises().await?;
    let of = |name: PromiseName| {
        let rows: Vec<_> = stored.iter().filter(|row| row.note.promise == name.as_str()).collect();
        let last = rows.last()?;
        let history = rows.iter().map(|row| HalfHour {
            at: half_hour_at(row.note.half_hour),
            ok: row.note.kept,
            strained: row.note.strained,
        });
        Some(CheckedPromise {
            name,
            // Another version of the program may have written it: what cannot be read is left out.
            result: serde_json::from_str(&last.note.result).unwrap_or_default(),
            checked_at: last.checked_at,
            history: history.collect(),
        })
    };
    Ok(PromiseName::ALL.into_iter().filter_map(of).collect())
}

fn half_hour_at(half_hour: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(half_hour.saturating_mul(1_800)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// A check that a service registers for its own books.
#[async_trait]
pub trait BooksCheck: Send + Sync + 'static {
    /// Its name, for people.
    fn source(&self) -> &str;

    /// Compares the books. An error means that they could not be compared: the last result stays.
    async fn check(&self) -> std::result::Result<Balance, Box<dyn std::error::Error + Send + Sync>>;
}

/// What a service found in its books.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Balance {
    /// What was compared, by name.
    pub checked: BTreeMap<String, u64>,
    /// What does not agree, in sentences; empty if the books balance.
    pub discrepancies: Vec<String>,
}

/// How many consumers had an effect of an event more than once, without a redrive or a stopped repeat that explains it.
pub(crate) fn twice(record: &Record, repeats: &[Repeat]) -> u64 {
    check::twice(record, repeats).len() as u64
}

/// Checks the promises until it is stopped.
pub struct Promises {
    store: Arc<dyn Store>,
    books: Option<Arc<dyn BooksCheck>>,
    stalled: Duration,
    owner: String,
}

impl Promises {
    /// Checks of a store.
    pub fn new(store: impl IntoStore) -> Self {
        Self { store: store.into_store(), books: None, stalled: Duration::from_secs(30), owner: "promises".into() }
    }

    /// Adds the check of a service's own books.
    #[must_use]
    pub fn books(mut self, books: Arc<dyn BooksCheck>) -> Self {
        self.books = Some(books);
        self
    }

    /// How long due deliveries of a lane may wait without any claim: 30 seconds by default.
    #[must_use]
    pub fn stalled_after(mut self, stalled: Duration) -> Self {
        self.stalled = stalled;
        self
    }

    /// The name of this instance, for operators. A random suffix is added.
    #[must_use]
    pub fn owner(mut self, owner: &str) -> Self {
        self.owner = owner.into();
        self
    }

    /// Works until `shutdown` is ready, while no other instance holds the lease.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.store.check_schema().await?;
        let _running = self.store.wake().presence().run_loop(presence::PROMISES);
        let owner = format!("{}-{}", self.owner, &Uuid::new_v4().simple().to_string()[..8]);
        let mut shutdown = pin!(shutdown);
        let mut lease = KeptLease::new(LEASE_NAME, LEASE);
        let mut look = Look::default();
        let mut failed = 0;
        loop {
            let began = Instant::now();
            let pause = match self.pass(&owner, &mut lease, &mut look).await {
                Ok(()) => {
                    failed = 0;
                    LOOK.max(began.elapsed() * PACE)
                }
                Err(error) => {
                    failed += 1;
                    tracing::error!(error = %Failure::from(error), "the promises cannot be checked: tried again");
                    retry::pause(failed)
                }
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        lease.release(&*self.store).await;
        Ok(())
    }

    /// Checks every event once, and writes the results, without the lease: for tests, and for programs started by a timer.
    pub async fn check(&self) -> Result<BTreeMap<PromiseName, PromiseResult>> {
        let mut look = Look::default();
        let results = look.at_everything(&*self.store, self.stalled, self.books.as_deref()).await?;
        look::write(&*self.store, &results).await?;
        Ok(results)
    }

    async fn pass(&self, owner: &str, lease: &mut KeptLease, look: &mut Look) -> Result<()> {
        if !lease.keep(&*self.store, owner).await? {
            *look = Look::default();
            return Ok(());
        }
        let results = look.at_some(&*self.store, self.stalled, self.books.as_deref()).await?;
        look::write(&*self.store, &results).await
    }
}
