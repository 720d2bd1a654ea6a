//! SQLite: a store without a server, in one file that any number of processes may share. What each statement does stands
//! in `queries/sqlite/`.
//!
//! SQLite has one writer at a time. Inside this process that is one connection which everybody queues for, in order; for
//! other processes it is SQLite's own lock, which we take before we read (`BEGIN IMMEDIATE`) and wait for. So nobody ever
//! finds out in the middle of a transaction that somebody else was first. Readers have connections of their own
//! and wait for nobody.

/// `sql!("claim")` is the statement in `queries/sqlite/claim.sql`.
macro_rules! sql {
    ($verb:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/sqlite/", $verb, ".sql"))
    };
}

mod access;
mod deliveries;
mod enlist;
mod error;
mod jobs;
mod list;
mod operations;
mod redrive;
mod rollup;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, Sqlite, Transaction};
use time::OffsetDateTime;

use self::error::own;
use super::batch::{self, millis, unix_ms};
use super::figure;
use super::schema::{self, MIGRATIONS_TABLE, SchemaVersion};
use super::{
    Advance, Appended, Buried, Claim, DeadHead, DeliveryId, Enqueued, Failed, Finished, Folded, Found, History,
    Holding, JobOutcome, JobPlan, JobStart, JobState, LaneCounts, Lease, List, Minute, NewEvent, NewOperation,
    Operation, Page, Prunable, Prune, Pruned, Redriven, Report, Routed, Steer, Store, Token, Unheard,
};
use crate::error::{Error, Result};
use crate::limits;
use crate::redrive::{RedriveRules, Refusal};
use crate::subscription::{StoredSubscription, Subscription};
use crate::wake::Wake;

static MIGRATOR: Migrator = sqlx::migrate!("migrations/sqlite");

/// Connections that read: more than the cores of a machine that keeps its data in one file never help.
const READERS: u32 = 4;
/// How long to wait for another writer, in this process or another, before the store counts as not available.
const PATIENCE: Duration = Duration::from_secs(30);
/// Takes the write lock at once. A transaction that reads first and writes then would be refused if somebody else
/// has written in between, and no waiting helps.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// Events in a SQLite file.
///
/// Transactions from [`Enlist::begin`](super::Enlist::begin) and the store's own writes share one connection: calling a writing method
/// of the store while holding such a transaction waits for itself, and ends in [`Error::Unavailable`].
#[derive(Debug, Clone)]
pub struct SqliteStore {
    writer: SqlitePool,
    reader: SqlitePool,
    url: Arc<str>,
    wake: Wake,
}

/// The schema as a script, for people who apply it with a tool of their own.
pub fn migrations_script() -> String {
    schema::script(&MIGRATOR, sql!("migrations_table"), |hex| format!("x'{hex}'"))
}

impl SqliteStore {
    /// Opens `sqlite://path/to/file.db`, and makes the file and its folder where there are none. Says nothing about the
    /// schema: `migrate` or [`Store::check_schema`] comes next.
    pub async fn connect(url: &str) -> Result<Self> {
        let unsupported = |why: &str| Error::Unsupported(format!("{url} {why}: write sqlite://path/to/file.db"));
        if !url.starts_with("sqlite:") {
            return Err(unsupported("is no SQLite URL"));
        }
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|e| unsupported(&format!("is no SQLite URL ({e})")))?
            .create_if_missing(true)
            // Every commit is on the disk when it returns, also if the power goes then.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(PATIENCE)
            // A claim's rows come in one piece instead of one by one.
            .row_buffer_size(limits::CLAIM_DELIVERIES as usize);
        let file = options.get_filename();
        if url.contains(":memory:") || url.contains("mode=memory") || file.as_os_str().is_empty() {
            return Err(unsupported("names no file, and nothing would outlive its connection"));
        }
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|e| Error::Unavailable(e.into()))?;
        }
        let pools = SqlitePoolOptions::new()
            .acquire_timeout(PATIENCE)
            // A file does not hang up.
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None);
        let writer = pools
            .clone()
            .max_connections(1)
            .after_release(|connection, _| Box::pin(is_reusable(connection)))
            .connect_with(options.clone())
            .await
            .map_err(own)?;
        let reader = pools.max_connections(READERS).connect_lazy_with(options.pragma("query_only", "on"));
        let store = Self { writer, reader, url: url.into(), wake: Wake::default() };
        store.log_ahead().await?;
        Ok(store)
    }

    /// Sets write-ahead logging, which lets readers read while somebody writes; the file remembers it. SQLite does not wait
    /// here for another instance that does the same at this moment, so we do: nothing has been written yet, and
    /// whoever comes second finds it set.
    async fn log_ahead(&self) -> Result<()> {
        const PAUSE: Duration = Duration::from_millis(10);
        let mut connection = self.writer.acquire().await.map_err(own)?;
        let mut left = PATIENCE;
        loop {
            let mode: sqlx::Result<String> =
                sqlx::query_scalar("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await;
            match mode.map_err(own) {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    return Err(Error::Unsupported(format!(
                        "{} keeps its journal mode {mode} instead of WAL: put the file on a local disk",
                        self.url
                    )));
                }
                Err(Error::Unavailable(_)) if !left.is_zero() => {
                    left = left.saturating_sub(PAUSE);
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Connections that can read everything and write nothing.
    pub fn pool(&self) -> &SqlitePool {
        &self.reader
    }
}

/// A transaction that ended behind sqlx's back (`INSERT OR ROLLBACK`, a full disk) cannot be rolled back, and sqlx then
/// takes the connection to be inside it for ever. Being the only writer, it has to go.
async fn is_reusable(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    if connection.is_in_transaction() {
        // A dropped transaction is rolled back by the connection's thread, in its own time; this waits for it.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}

#[async_trait]
impl Store for SqliteStore {
    async fn migrate(&self) -> Result<()> {
        let mut migrator = Migrator { migrations: MIGRATOR.migrations.clone(), ..Migrator::DEFAULT };
        migrator.dangerous_set_table_name(MIGRATIONS_TABLE);
        // sqlx locks nothing on SQLite. Under the write lock one instance migrates, the others wait and find nothing left to do.
        let mut tx = self.write().await?;
        // Not `run`: the compiler cannot see that its argument lives long enough, inside a boxed future.
        let migrated = migrator.run_direct(None, &mut *tx, false).await;
        match migrated {
            Ok(()) => tx.commit().await.map_err(own),
            Err(error) => Err(schema::refused(error, &self.url, &MIGRATOR, own)),
        }
    }

    async fn schema_version(&self) -> Result<SchemaVersion> {
        let table = sqlx::query(sql!("schema_table")).fetch_optional(&self.reader).await.map_err(own)?;
        let applied = match table {
            None => Vec::new(),
            Some(_) => sqlx::query_as(sql!("schema_version")).fetch_all(&self.reader).await.map_err(own)?,
        };
        schema::version(&MIGRATOR, &applied, &self.url)
    }

    fn name(&self) -> &str {
        &self.url
    }

    async fn now(&self) -> Result<OffsetDateTime> {
        let now: i64 =
            sqlx::query_scalar("SELECT now FROM postrider_clock").fetch_one(&self.reader).await.map_err(own)?;
        Ok(rows::time(now))
    }

    async fn publish(&self, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        super::publish(self, batch, unheard).await
    }

    async fn route(&self, limit: u32) -> Result<Routed> {
        // A reader looks first: a router that has nothing to do, and it seldom has, waits for no writer.
        let idle = sqlx::query(sql!("route_lock")).bind(1).fetch_optional(&self.reader);
        if idle.await.map_err(own)?.is_none() {
            return Ok(Routed::default());
        }
        let limit = limit.min(limits::PASS_ROWS);
        let mut tx = self.write().await?;
        let taken = sqlx::query(sql!("route_lock")).bind(limit).fetch_all(&mut *tx).await;
        let mut shards: BTreeMap<i64, u8> = taken.map_err(own)?.iter().map(rows::shard).collect::<Result<_>>()?;
        if let Some(beyond) = shards.keys().nth(limit as usize).copied() {
            shards.split_off(&beyond);
        }
        let routes = batch::routes(shards)?;
        write_routes(&mut tx, &routes).await.map_err(own)?;
        let marked: Vec<bool> =
            sqlx::query_scalar(sql!("route")).bind(&routes).fetch_all(&mut *tx).await.map_err(own)?;
        sqlx::query(sql!("note_routed")).bind(routes).execute(&mut *tx).await.map_err(own)?;
        tx.commit().await.map_err(own)?;
        let routed = marked.iter().filter(|heard| **heard).count() as u64;
        Ok(Routed { routed, unheard: marked.len() as u64 - routed })
    }

    async fn claim(&self, claim: &Claim) -> Result<Lease> {
        deliveries::claim(self, claim).await
    }

    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
        deliveries::claim_keyed(self, claim, dead_head).await
    }

    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>> {
        deliveries::extend(self, token, deliveries, lease).await
    }

    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>> {
        deliveries::settle(self, token, deliveries, history).await
    }

    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>> {
        deliveries::retry(self, token, failed, history).await
    }

    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>> {
        deliveries::bury(self, token, buried, history).await
    }

    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
        deliveries::release(self, token, deliveries).await
    }

    async fn redrive(&self, event_id: &str, lane: &str, target: &str) -> Result<Redriven> {
        deliveries::redrive(self, event_id, lane, target).await
    }

    async fn redrive_event(
        &self,
        event_id: &str,
        consumer: Option<&str>,
        rules: &RedriveRules,
    ) -> Result<std::result::Result<Found, Refusal>> {
        redrive::redrive_event(self, event_id, consumer, rules).await
    }

    async fn expire(&self, event_id: &str) -> Result<std::result::Result<Found, Refusal>> {
        redrive::expire(self, event_id).await
    }

    async fn create_operation(&self, new: &NewOperation) -> Result<Operation> {
        operations::create_operation(self, new).await
    }

    async fn operation(&self, id: &str) -> Result<Option<Operation>> {
        operations::find(self, id).await
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>> {
        operations::operations(self, limit).await
    }

    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>> {
        operations::steer_operation(self, id, steer).await
    }

    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>> {
        operations::claim_operation(self, owner, lease).await
    }

    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>> {
        operations::advance_operation(self, advance).await
    }

    async fn release_operation(&self, id: &str, token: Token) -> Result<bool> {
        operations::release_operation(self, id, token).await
    }

    async fn register(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        // A reader looks first: the start of an instance waits for no writer.
        let known: bool = sqlx::query_scalar(sql!("is_registered"))
            .bind(&subscription.topic)
            .bind(&subscription.consumer)
            .fetch_one(&self.reader)
            .await
            .map_err(own)?;
        match known {
            true => Ok(()),
            false => self.write_subscription(sql!("register"), subscription).await,
        }
    }

    async fn set_subscription(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        self.write_subscription(sql!("set_subscription"), subscription).await
    }

    async fn remove_subscription(&self, topic: &str, consumer: &str) -> Result<bool> {
        let query = sqlx::query(sql!("remove_subscription")).bind(topic).bind(consumer);
        Ok(query.execute(&self.writer).await.map_err(own)?.rows_affected() == 1)
    }

    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>> {
        let query = sqlx::query(sql!("subscriptions")).bind(topic);
        query.fetch_all(&self.reader).await.map_err(own)?.iter().map(rows::subscription).collect()
    }

    async fn append_consumption(&self, report: &Report) -> Result<Appended> {
        let mut tx = self.write().await?;
        let expected: Option<(i64, Option<u32>)> = sqlx::query_as(sql!("append_consumption_lock"))
            .bind(&report.event_id)
            .bind(&report.consumer)
            .bind(&report.callback_id)
            .fetch_optional(&mut *tx)
            .await
            .map_err(own)?;
        let seq = match expected {
            None => return Ok(Appended::NotExpected),
            Some((_, Some(attempt))) => return Ok(Appended::Repeated(attempt)),
            Some((seq, None)) => seq,
        };
        let attempt: u32 = sqlx::query_scalar(sql!("append_consumption"))
            .bind(seq)
            .bind(&report.consumer)
            .bind(report.success)
            .bind(report.will_retry)
            .bind(report.consumed_at.map(unix_ms))
            .bind(report.error.as_deref().map(limits::error_text))
            .bind(report.code.as_deref().map(limits::error_text))
            .bind(&report.callback_id)
            .fetch_one(&mut *tx)
            .await
            .map_err(own)?;
        mark(&mut tx, &[seq]).await?.map_err(own)?;
        tx.commit().await.map_err(own)?;
        Ok(Appended::Attempt(attempt))
    }

    async fn fold(&self, limit: u32) -> Result<Folded> {
        rollup::fold(self, limit).await
    }

    async fn acquire_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>> {
        let token = Token::fresh();
        let query = sqlx::query(sql!("acquire_lease"));
        let row = query
            .bind(name)
            .bind(owner)
            .bind(token.0)
            .bind(millis(lease))
            .fetch_optional(&self.writer)
            .await
            .map_err(own)?;
        Ok(row.map(|_| token))
    }

    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        let query = sqlx::query(sql!("extend_lease")).bind(name).bind(token.0).bind(millis(lease));
        Ok(query.execute(&self.writer).await.map_err(own)?.rows_affected() == 1)
    }

    async fn release_lease(&self, name: &str, token: Token) -> Result<bool> {
        let query = sqlx::query(sql!("release_lease")).bind(name).bind(token.0);
        Ok(query.execute(&self.writer).await.map_err(own)?.rows_affected() == 1)
    }

    async fn find(&self, event_id: &str) -> Result<Option<Found>> {
        // One transaction, so that a delivery that is done meanwhile is either there or in the history.
        let mut tx = self.reader.begin().await.map_err(own)?;
        let event = sqlx::query(sql!("find")).bind(event_id).fetch_optional(&mut *tx).await;
        let Some(event) = event.map_err(own)? else {
            return Ok(None);
        };
        let seqs = json(&[rows::found_seq(&event)?])?;
        let deliveries = sqlx::query(sql!("find_deliveries")).bind(&seqs).fetch_all(&mut *tx).await.map_err(own)?;
        let consumptions = sqlx::query(sql!("find_consumptions")).bind(&seqs).fetch_all(&mut *tx).await.map_err(own)?;
        Ok(rows::records(&[event], &deliveries, &consumptions)?.pop())
    }

    async fn list(&self, list: &List) -> Result<Page> {
        super::list::list(self, list).await
    }

    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>> {
        let query = sqlx::query(sql!("counts"));
        query.fetch_all(&self.reader).await.map_err(own)?.iter().map(rows::lane_counts).collect()
    }

    async fn figures(&self, from: OffsetDateTime, to: OffsetDateTime) -> Result<Vec<Minute>> {
        let query = sqlx::query_as(sql!("figures")).bind(figure::minute_of(from)).bind(figure::minute_of(to));
        let rows: Vec<(i64, i64, i64, i64, i64, i64)> = query.fetch_all(&self.reader).await.map_err(own)?;
        Ok(rows.into_iter().map(|row| figure::minute(row.into())).collect())
    }

    async fn holdings(&self) -> Result<Vec<Holding>> {
        let query = sqlx::query_as(sql!("holdings"));
        let rows: Vec<(Option<String>, String, String, i64, i64)> = query.fetch_all(&self.reader).await.map_err(own)?;
        let holding = |(owner, kind, name, count, until): (Option<String>, String, String, i64, i64)| {
            let owner = owner.unwrap_or_default();
            Holding { owner, kind, name, count: count.unsigned_abs(), until: rows::time(until) }
        };
        Ok(rows.into_iter().map(holding).collect())
    }

    async fn oldest_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let mut waits = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let query = sqlx::query_scalar(sql!("oldest_due")).bind(lane);
            let wait: Option<i64> = query.fetch_one(&self.reader).await.map_err(own)?;
            waits.push(wait.map(duration));
        }
        Ok(waits)
    }

    async fn oldest_pending(&self) -> Result<Option<Duration>> {
        let waited: Option<i64> =
            sqlx::query_scalar(sql!("oldest_pending")).fetch_one(&self.reader).await.map_err(own)?;
        Ok(waited.map(duration))
    }

    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let mut waits = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let wait: Option<i64> =
                sqlx::query_scalar(sql!("next_due")).bind(lane).fetch_one(&self.reader).await.map_err(own)?;
            waits.push(wait.map(duration));
        }
        Ok(waits)
    }

    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>> {
        sqlx::query_scalar(sql!("sight")).bind(json(event_ids)?).fetch_all(&self.reader).await.map_err(own)
    }

    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()> {
        let sql = if paused { sql!("pause") } else { sql!("resume") };
        sqlx::query(sql).bind(lane).execute(&self.writer).await.map_err(own)?;
        Ok(())
    }

    async fn paused(&self) -> Result<BTreeSet<String>> {
        let lanes: Vec<String> = sqlx::query_scalar(sql!("paused")).fetch_all(&self.reader).await.map_err(own)?;
        Ok(lanes.into_iter().collect())
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        let limit = prune.limit.clamp(1, limits::PASS_ROWS);
        let older_than = millis(prune.older_than);
        let sql = match prune.what {
            Prunable::Events => return self.prune_stretch(older_than, prune.after, limit).await,
            Prunable::Inbox => sql!("prune_inbox"),
            Prunable::Keys => sql!("prune_keys"),
            Prunable::Operations => sql!("prune_operations"),
            Prunable::Figures => sql!("prune_figures"),
        };
        let removed =
            sqlx::query(sql).bind(older_than).bind(limit).execute(&self.writer).await.map_err(own)?.rows_affected();
        Ok(Pruned { removed, next: (removed == u64::from(limit)).then_some(0) })
    }

    async fn finished(&self, prune: &Prune) -> Result<Finished> {
        let mut tx = self.reader.begin().await.map_err(own)?;
        rollup::finished(&mut tx, prune).await
    }

    async fn prune_events(&self, sequences: &[i64]) -> Result<u64> {
        let mut tx = self.write().await?;
        let query = sqlx::query_scalar(sql!("prune_still_finished")).bind(json(sequences)?);
        let finished: Vec<i64> = query.fetch_all(&mut *tx).await.map_err(own)?;
        Self::remove_events(&mut tx, &finished).await?;
        let query = sqlx::query(sql!("prune_attempts_of")).bind(json(&finished)?);
        query.execute(&mut *tx).await.map_err(own)?;
        tx.commit().await.map_err(own)?;
        Ok(finished.len() as u64)
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }

    async fn plan_job(&self, plan: &JobPlan<'_>) -> Result<()> {
        jobs::plan_job(&self.writer, plan).await
    }

    async fn begin_job(&self, start: &JobStart<'_>) -> Result<Option<Token>> {
        jobs::begin_job(&self.writer, start).await
    }

    async fn extend_job(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        jobs::extend_job(&self.writer, name, token, lease).await
    }

    async fn finish_job(&self, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
        jobs::finish_job(&self.writer, name, token, outcome).await
    }

    async fn jobs(&self) -> Result<Vec<JobState>> {
        jobs::jobs(&self.reader).await
    }
}

impl SqliteStore {
    /// A transaction of the store's own.
    async fn write(&self) -> Result<Transaction<'static, Sqlite>> {
        self.writer.begin_with(BEGIN).await.map_err(own)
    }

    async fn write_subscription(&self, sql: &'static str, subscription: &Subscription) -> Result<()> {
        sqlx::query(sql)
            .bind(&subscription.topic)
            .bind(&subscription.consumer)
            .bind(subscription.enabled)
            .bind(subscription.sort_order)
            .bind(&subscription.description)
            .bind(subscription.via.as_str())
            .bind(&subscription.endpoint)
            .bind(&subscription.exchange)
            .bind(&subscription.routing_key)
            .execute(&self.writer)
            .await
            .map_err(own)?;
        Ok(())
    }

    /// Removes finished events with their statuses, and by what they were found.
    async fn remove_events(tx: &mut SqliteConnection, finished: &[i64]) -> Result<()> {
        let records = rollup::records(&mut *tx, finished).await?;
        let lookups: Vec<_> = records.iter().flat_map(super::rollup::lookups).collect();
        let seqs = json(finished)?;
        let gone = [sql!("prune_events"), sql!("prune_statuses")].map(|sql| (sql, seqs.clone()));
        for (sql, rows) in gone.into_iter().chain([(sql!("prune_lookups"), json(&lookups)?)]) {
            sqlx::query(sql).bind(rows).execute(&mut *tx).await.map_err(own)?;
        }
        Ok(())
    }

    async fn prune_stretch(&self, older_than: i64, after: i64, limit: u32) -> Result<Pruned> {
        let mut tx = self.write().await?;
        let (rows, last, old): (u32, Option<i64>, Option<bool>) = sqlx::query_as(sql!("prune_stretch"))
            .bind(after)
            .bind(limit)
            .bind(older_than)
            .fetch_one(&mut *tx)
            .await
            .map_err(own)?;
        let query = sqlx::query_scalar(sql!("prune_candidates")).bind(after).bind(last).bind(older_than);
        let finished: Vec<i64> = query.fetch_all(&mut *tx).await.map_err(own)?;
        Self::remove_events(&mut tx, &finished).await?;
        let query = sqlx::query(sql!("prune_attempts")).bind(after).bind(last);
        query.execute(&mut *tx).await.map_err(own)?;
        tx.commit().await.map_err(own)?;
        Ok(Pruned { removed: finished.len() as u64, next: last.filter(|_| rows == limit && old == Some(true)) })
    }
}

/// Writes deliveries and expected consumers of events that the same transaction has stored or taken.
async fn write_routes(conn: &mut SqliteConnection, routes: &str) -> sqlx::Result<()> {
    for sql in [sql!("route_deliveries"), sql!("route_expected")] {
        sqlx::query(sql).bind(routes).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Appends a success for each (event, consumer), and marks the events.
async fn append_successes(conn: &mut SqliteConnection, successes: &[(i64, String)]) -> Result<sqlx::Result<()>> {
    let query = sqlx::query(sql!("append_successes")).bind(json(successes)?);
    if let Err(error) = query.execute(&mut *conn).await {
        return Ok(Err(error));
    }
    let seqs: Vec<i64> = successes.iter().map(|(seq, _)| *seq).collect();
    mark(conn, &seqs).await
}

/// Something of these events has changed.
async fn mark(conn: &mut SqliteConnection, seqs: &[i64]) -> Result<sqlx::Result<()>> {
    let query = sqlx::query(sql!("mark")).bind(json(seqs)?);
    Ok(query.execute(conn).await.map(|_| ()))
}

#[cfg(feature = "testing")]
impl crate::testing::Age for SqliteStore {
    async fn age(&self, by: Duration) -> Result<()> {
        let mut tx = self.write().await?;
        for sql in [
            sql!("age_events"),
            sql!("age_deliveries"),
            sql!("age_consumptions"),
            sql!("age_inbox"),
            sql!("age_keys"),
            sql!("age_leases"),
            sql!("age_jobs"),
            sql!("age_statuses"),
            sql!("age_operations"),
            sql!("age_figures"),
            sql!("age_tokens"),
            sql!("age_sessions"),
        ] {
            sqlx::query(sql).bind(millis(by)).execute(&mut *tx).await.map_err(own)?;
        }
        tx.commit().await.map_err(own)
    }
}

#[cfg(feature = "testing")]
impl crate::testing::Peek for SqliteStore {
    async fn enqueued(&self, topic: &str) -> Result<Vec<crate::Envelope>> {
        let stored = sqlx::query(sql!("enqueued")).bind(topic).fetch_all(&self.reader).await.map_err(own)?;
        stored.iter().map(|row| Ok(rows::known(row)?.1)).collect()
    }
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(Error::Encode)
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}
