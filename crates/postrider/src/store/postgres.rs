//! PostgreSQL. One statement per operation wherever it can be one; what each does stands in `queries/postgres/`.
//!
//! The store has two pools: `work` for the statements of relays and operators, whose sessions are set up for them,
//! and `pool` for transactions that carry the user's own statements, whose sessions are left as they are.

/// `sql!("claim")` is the statement in `queries/postgres/claim.sql`.
macro_rules! sql {
    ($verb:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/", $verb, ".sql"))
    };
}

mod access;
mod address;
mod audience;
mod deliveries;
mod enlist;
mod front;
mod jobs;
mod keys;
mod list;
mod operations;
mod redrive;
mod rollup;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, Executor, Postgres, Row};
use time::OffsetDateTime;

use self::audience::Audiences;
use self::front::Fronts;
use self::keys::Keys;
use super::batch::{self, millis};
use super::figure;
use super::schema::{self, MIGRATIONS_TABLE, SchemaVersion};
use super::sessions::Door;
use super::{
    Advance, Appended, Buried, Claim, DeadHead, DeliveryId, Enqueued, Failed, Finished, Folded, Found, History,
    Holding, JobOutcome, JobPlan, JobStart, JobState, LaneCounts, Lease, List, Minute, NewEvent, NewOperation,
    Operation, Page, Prunable, Prune, Pruned, Redriven, Report, Routed, Steer, Store, Token, Unheard,
};
use crate::alert::SnapshotHolder;
use crate::error::{Error, Result};
use crate::limits;
use crate::redrive::{RedriveRules, Refusal};
use crate::shard;
use crate::subscription::{StoredSubscription, Subscription};
use crate::wake::Wake;

type Sessions = super::sessions::Sessions<Postgres>;

static MIGRATOR: Migrator = sqlx::migrate!("migrations/postgres");

/// Connections of each of the two pools: more than a few relays and handlers on one machine never help.
const POOL_CONNECTIONS: u32 = 10;
/// How long a listening connection may be silent before it is asked whether it is there, and how long it may take to say
/// so.
const LISTENER_PATIENCE: Duration = Duration::from_secs(5);

/// Events in PostgreSQL 12 or later.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    work: Sessions,
    pool: Sessions,
    door: Arc<Door<Postgres>>,
    url: String,
    wake: Wake,
    audiences: Audiences,
    fronts: Fronts,
    keys: Keys,
}

/// The schema as a script, for people who apply it with a tool of their own.
pub fn migrations_script() -> String {
    schema::script(&MIGRATOR, sql!("migrations_table"), |hex| format!("'\\x{hex}'"))
}

impl PostgresStore {
    /// Connects, and refuses a connection that cannot carry what we do. Says nothing about the schema: `migrate` or
    /// [`Store::schema_version`] comes next.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, POOL_CONNECTIONS).await
    }

    /// The same with so many connections at most, at least two, in each of the two pools: one for statements of relays
    /// and operators, one for transactions. A relay listens on one more.
    pub async fn connect_with(url: &str, connections: u32) -> Result<Self> {
        if connections < 2 {
            return Err(Error::Unsupported(format!("a pool of {connections} is too small: give it 2 connections")));
        }
        let options = PgConnectOptions::from_str(url).map_err(|e| {
            Error::Unsupported(format!("this is no PostgreSQL URL ({e}): write postgres://user@host:5432/database"))
        })?;
        let mut printable = options.to_url_lossy();
        // Fails only where there can be no password.
        let _ = printable.set_password(None);
        let door = Arc::new(Door::new(options));
        let pools = PgPoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(30));
        let work = pools.clone().after_connect(|session, _| {
            Box::pin(async move {
                sqlx::raw_sql(sql!("session")).execute(session).await?;
                Ok(())
            })
        });
        let (work, pool) = (Sessions::new(work, &door), Sessions::new(pools, &door));
        let store = Self {
            work,
            pool,
            door,
            url: printable.into(),
            wake: Wake::default(),
            audiences: Audiences::default(),
            fronts: Fronts::default(),
            keys: Keys::default(),
        };
        store.refuse_transaction_pooling().await?;
        Ok(store)
    }

    /// Two connections that are open at once have two servers behind them, unless a pooler hands one server round
    /// between transactions. Prepared statements and session settings do not survive that.
    async fn refuse_transaction_pooling(&self) -> Result<()> {
        let mut first = self.work.acquire().await.map_err(own)?;
        let mut second = self.work.acquire().await.map_err(own)?;
        let backend = "SELECT pg_backend_pid()";
        let first: i32 = sqlx::raw_sql(backend).fetch_one(&mut *first).await.map_err(own)?.get(0);
        let second: i32 = sqlx::raw_sql(backend).fetch_one(&mut *second).await.map_err(own)?.get(0);
        if first == second {
            return Err(Error::Unsupported(format!(
                "{} goes through a pooler that shares a session between transactions (pgbouncer: pool_mode = transaction). \
                 Give Postrider a direct connection, or one with pool_mode = session; your own transactions may keep the pooler",
                self.url
            )));
        }
        Ok(())
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn migrate(&self) -> Result<()> {
        let mut migrator = Migrator { migrations: MIGRATOR.migrations.clone(), ..Migrator::DEFAULT };
        migrator.dangerous_set_table_name(MIGRATIONS_TABLE);
        // One instance migrates, the others wait for its lock and find nothing left to do.
        let migrated = migrator.run(self.pool.pool().await.map_err(own)?).await;
        migrated.map_err(|error| schema::refused(error, &self.url, &MIGRATOR, own))
    }

    async fn schema_version(&self) -> Result<SchemaVersion> {
        let table: Option<String> =
            sqlx::query_scalar(sql!("schema_table")).fetch_one(&self.work).await.map_err(own)?;
        let applied = match table {
            None => Vec::new(),
            Some(_) => sqlx::query_as(sql!("schema_version")).fetch_all(&self.work).await.map_err(own)?,
        };
        schema::version(&MIGRATOR, &applied, &self.url)
    }

    fn name(&self) -> &str {
        &self.url
    }

    async fn now(&self) -> Result<OffsetDateTime> {
        sqlx::query_scalar("SELECT now()").fetch_one(&self.work).await.map_err(own)
    }

    async fn publish(&self, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        super::publish(self, batch, unheard).await
    }

    async fn route(&self, limit: u32) -> Result<Routed> {
        let mut tx = self.work.begin().await.map_err(own)?;
        let taken: Vec<(i64, String, Option<String>)> = sqlx::query_as(sql!("route_lock"))
            .bind(i64::from(limit.min(limits::PASS_ROWS)))
            .fetch_all(&mut *tx)
            .await
            .map_err(own)?;
        if taken.is_empty() {
            return Ok(Routed::default());
        }
        let shards = taken.iter().map(|(seq, event_id, key)| (*seq, shard::shard_of(key.as_deref(), event_id)));
        let (routed, unheard): (i64, i64) =
            sqlx::query_as(sql!("route")).bind(batch::routes(shards)?).fetch_one(&mut *tx).await.map_err(own)?;
        tx.commit().await.map_err(own)?;
        Ok(Routed { routed: routed.unsigned_abs(), unheard: unheard.unsigned_abs() })
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
        self.write_subscription(sql!("register"), subscription).await
    }

    async fn set_subscription(&self, subscription: &Subscription) -> Result<()> {
        self.write_subscription(sql!("set_subscription"), subscription).await
    }

    async fn remove_subscription(&self, topic: &str, consumer: &str) -> Result<bool> {
        let query = sqlx::query(sql!("remove_subscription")).bind(topic).bind(consumer);
        Ok(query.execute(&self.work).await.map_err(own)?.rows_affected() == 1)
    }

    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>> {
        let query = sqlx::query(sql!("subscriptions")).bind(topic);
        query.fetch_all(&self.work).await.map_err(own)?.iter().map(rows::subscription).collect()
    }

    async fn append_consumption(&self, report: &Report) -> Result<Appended> {
        let mut tx = self.work.begin().await.map_err(own)?;
        let seq: Option<i64> = sqlx::query_scalar(sql!("append_consumption_lock"))
            .bind(&report.event_id)
            .bind(&report.consumer)
            .fetch_optional(&mut *tx)
            .await
            .map_err(own)?;
        let Some(seq) = seq else {
            return Ok(Appended::NotExpected);
        };
        let (attempt, new): (i32, bool) = sqlx::query_as(sql!("append_consumption"))
            .bind(seq)
            .bind(&report.consumer)
            .bind(report.success)
            .bind(report.will_retry)
            .bind(report.consumed_at)
            .bind(report.error.as_deref().map(limits::error_text))
            .bind(report.code.as_deref().map(limits::error_text))
            .bind(&report.callback_id)
            .fetch_one(&mut *tx)
            .await
            .map_err(own)?;
        tx.commit().await.map_err(own)?;
        let attempt = attempt.unsigned_abs();
        Ok(if new { Appended::Attempt(attempt) } else { Appended::Repeated(attempt) })
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
            .fetch_optional(&self.work)
            .await
            .map_err(own)?;
        Ok(row.map(|_| token))
    }

    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        let query = sqlx::query(sql!("extend_lease")).bind(name).bind(token.0).bind(millis(lease));
        Ok(query.execute(&self.work).await.map_err(own)?.rows_affected() == 1)
    }

    async fn release_lease(&self, name: &str, token: Token) -> Result<bool> {
        let query = sqlx::query(sql!("release_lease")).bind(name).bind(token.0);
        Ok(query.execute(&self.work).await.map_err(own)?.rows_affected() == 1)
    }

    async fn find(&self, event_id: &str) -> Result<Option<Found>> {
        let event = sqlx::query(sql!("find")).bind(event_id).fetch_optional(&self.work).await;
        let Some(event) = event.map_err(own)? else {
            return Ok(None);
        };
        let seqs = [rows::seq(&event)?];
        // Deliveries first: one that is done meanwhile is in the history then, and never in neither.
        let deliveries =
            sqlx::query(sql!("find_deliveries")).bind(&seqs[..]).fetch_all(&self.work).await.map_err(own)?;
        let consumptions =
            sqlx::query(sql!("find_consumptions")).bind(&seqs[..]).fetch_all(&self.work).await.map_err(own)?;
        Ok(rows::records(&[event], &deliveries, &consumptions)?.pop())
    }

    async fn list(&self, list: &List) -> Result<Page> {
        super::list::list(self, list).await
    }

    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>> {
        let query = sqlx::query(sql!("counts"));
        query.fetch_all(&self.work).await.map_err(own)?.iter().map(rows::lane_counts).collect()
    }

    async fn figures(&self, from: OffsetDateTime, to: OffsetDateTime) -> Result<Vec<Minute>> {
        let query = sqlx::query_as(sql!("figures")).bind(figure::minute_of(from)).bind(figure::minute_of(to));
        let rows: Vec<(i64, i64, i64, i64, i64, i64)> = query.fetch_all(&self.work).await.map_err(own)?;
        Ok(rows.into_iter().map(|row| figure::minute(row.into())).collect())
    }

    async fn holdings(&self) -> Result<Vec<Holding>> {
        let query = sqlx::query_as(sql!("holdings"));
        let rows: Vec<(Option<String>, String, String, i64, OffsetDateTime)> =
            query.fetch_all(&self.work).await.map_err(own)?;
        let holding = |(owner, kind, name, count, until): (Option<String>, String, String, i64, OffsetDateTime)| {
            let owner = owner.unwrap_or_default();
            Holding { owner, kind, name, count: count.unsigned_abs(), until }
        };
        Ok(rows.into_iter().map(holding).collect())
    }

    async fn oldest_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let mut waits = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let query = sqlx::query_scalar(sql!("oldest_due")).bind(lane);
            let wait: Option<i64> = query.fetch_one(&self.work).await.map_err(own)?;
            waits.push(wait.map(duration));
        }
        Ok(waits)
    }

    async fn oldest_pending(&self) -> Result<Option<Duration>> {
        let waited: Option<i64> =
            sqlx::query_scalar(sql!("oldest_pending")).fetch_one(&self.work).await.map_err(own)?;
        Ok(waited.map(duration))
    }

    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let waits: Vec<Option<i64>> =
            sqlx::query_scalar(sql!("next_due")).bind(lanes).fetch_all(&self.work).await.map_err(own)?;
        Ok(waits.into_iter().map(|wait| wait.map(duration)).collect())
    }

    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>> {
        sqlx::query_scalar(sql!("sight")).bind(event_ids).fetch_all(&self.work).await.map_err(own)
    }

    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()> {
        let sql = if paused { sql!("pause") } else { sql!("resume") };
        sqlx::query(sql).bind(lane).execute(&self.work).await.map_err(own)?;
        Ok(())
    }

    async fn paused(&self) -> Result<BTreeSet<String>> {
        let lanes: Vec<String> = sqlx::query_scalar(sql!("paused")).fetch_all(&self.work).await.map_err(own)?;
        Ok(lanes.into_iter().collect())
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        let limit = i64::from(prune.limit.clamp(1, limits::PASS_ROWS));
        let older_than = millis(prune.older_than);
        let sql = match prune.what {
            Prunable::Events => return self.prune_stretch(older_than, prune.after, limit).await,
            Prunable::Inbox => sql!("prune_inbox"),
            Prunable::Keys => sql!("prune_keys"),
            Prunable::Operations => sql!("prune_operations"),
            Prunable::Figures => sql!("prune_figures"),
        };
        let removed =
            sqlx::query(sql).bind(older_than).bind(limit).execute(&self.work).await.map_err(own)?.rows_affected();
        Ok(Pruned { removed, next: (removed == limit.unsigned_abs()).then_some(0) })
    }

    async fn finished(&self, prune: &Prune) -> Result<Finished> {
        let mut session = self.work.acquire().await.map_err(own)?;
        rollup::finished(&mut session, prune).await
    }

    async fn prune_events(&self, sequences: &[i64]) -> Result<u64> {
        let mut tx = self.work.begin().await.map_err(own)?;
        sqlx::query(sql!("redrive_events_lock")).bind(sequences).execute(&mut *tx).await.map_err(own)?;
        let removed = Self::remove_events(&mut tx, sequences).await?;
        tx.commit().await.map_err(own)?;
        Ok(removed)
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }

    async fn announce(&self, from: &str) -> Result<()> {
        sqlx::query(sql!("announce")).bind(from).execute(&self.work).await.map_err(own)?;
        Ok(())
    }

    async fn listen(&self, heard: &(dyn for<'a> Fn(&'a str) + Send + Sync)) -> Result<()> {
        let mut listener = self.listener().await.map_err(own)?;
        let listening = tokio::time::timeout(LISTENER_PATIENCE, listener.listen("postrider")).await;
        listening.map_err(|e| Error::Unavailable(e.into()))?.map_err(own)?;
        loop {
            match tokio::time::timeout(LISTENER_PATIENCE, listener.try_recv()).await {
                Ok(Ok(Some(notification))) => heard(notification.payload()),
                Ok(Ok(None)) => return Err(Error::Unavailable("the listening connection was closed".into())),
                Ok(Err(e)) => return Err(own(e)),
                // Silence may be peace, or a connection that is gone without a word: only an answer tells.
                Err(_) => {
                    let asked = tokio::time::timeout(LISTENER_PATIENCE, listener.execute("SELECT 1")).await;
                    asked.map_err(|e| Error::Unavailable(e.into()))?.map_err(own)?;
                }
            }
        }
    }

    async fn snapshot_holders(&self, older_than: Duration) -> Result<Vec<SnapshotHolder>> {
        let held: Vec<(String, i64)> = sqlx::query_as(sql!("snapshot_holders"))
            .bind(millis(older_than))
            .fetch_all(&self.work)
            .await
            .map_err(own)?;
        Ok(held.into_iter().map(|(holder, age)| SnapshotHolder { holder, age: duration(age) }).collect())
    }

    async fn plan_job(&self, plan: &JobPlan<'_>) -> Result<()> {
        jobs::plan_job(&self.work, plan).await
    }

    async fn begin_job(&self, start: &JobStart<'_>) -> Result<Option<Token>> {
        jobs::begin_job(&self.work, start).await
    }

    async fn extend_job(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        jobs::extend_job(&self.work, name, token, lease).await
    }

    async fn finish_job(&self, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
        jobs::finish_job(&self.work, name, token, outcome).await
    }

    async fn jobs(&self) -> Result<Vec<JobState>> {
        jobs::jobs(&self.work).await
    }
}

impl PostgresStore {
    /// A connection of its own to listen on, outside the pools: it is never given back.
    async fn listener(&self) -> sqlx::Result<PgListener> {
        self.door.knock().await?;
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(LISTENER_PATIENCE);
        let mut listener = PgListener::connect_with(&pool.connect_lazy_with(self.door.options().clone())).await?;
        // Whoever loses the connection comes back here, and knocks.
        listener.eager_reconnect(false);
        Ok(listener)
    }

    async fn write_subscription(&self, sql: &'static str, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
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
            .execute(&self.work)
            .await
            .map_err(own)?;
        Ok(())
    }

    async fn prune_stretch(&self, older_than: i64, after: i64, limit: i64) -> Result<Pruned> {
        let mut tx = self.work.begin().await.map_err(own)?;
        let taken: Vec<i64> = sqlx::query_scalar(sql!("prune_events_lock"))
            .bind(older_than)
            .bind(after)
            .bind(limit)
            .fetch_all(&mut *tx)
            .await
            .map_err(own)?;
        let removed = Self::remove_events(&mut tx, &taken).await?;
        tx.commit().await.map_err(own)?;
        let full = taken.len() as u64 == limit.unsigned_abs();
        Ok(Pruned { removed, next: taken.last().copied().filter(|_| full) })
    }

    /// Removes those of the locked events that are finished, and all that is known of them.
    async fn remove_events(tx: &mut PgConnection, taken: &[i64]) -> Result<u64> {
        let records = rollup::records(&mut *tx, taken).await?;
        let query = sqlx::query_scalar(sql!("prune_events")).bind(taken);
        let removed: HashSet<i64> = query.fetch_all(&mut *tx).await.map_err(own)?.into_iter().collect();
        let gone = records.iter().filter(|record| removed.contains(&record.sequence));
        let (hashes, seqs): (Vec<i64>, Vec<i64>) = gone.flat_map(super::rollup::lookups).unzip();
        sqlx::query(sql!("prune_lookups")).bind(hashes).bind(seqs).execute(&mut *tx).await.map_err(own)?;
        Ok(removed.len() as u64)
    }
}

#[cfg(feature = "testing")]
impl crate::testing::Age for PostgresStore {
    async fn age(&self, by: Duration) -> Result<()> {
        for sql in [sql!("age"), sql!("age_jobs"), sql!("age_operations"), sql!("age_figures"), sql!("age_access")] {
            sqlx::query(sql).bind(millis(by)).execute(&self.work).await.map_err(own)?;
        }
        Ok(())
    }
}

#[cfg(feature = "testing")]
impl crate::testing::Peek for PostgresStore {
    async fn enqueued(&self, topic: &str) -> Result<Vec<crate::Envelope>> {
        let stored = sqlx::query(sql!("enqueued")).bind(topic).fetch_all(&self.work).await.map_err(own)?;
        stored.iter().map(|row| Ok(rows::known(row)?.1)).collect()
    }
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

/// What went wrong on a session of ours.
fn own(error: sqlx::Error) -> Error {
    // The server ends, ended or begins, or has no connection left: it says so, and is away all the same.
    let away = ["57P01", "57P02", "57P03", "53300"];
    match &error {
        sqlx::Error::Database(e) if e.code().is_some_and(|code| away.contains(&&*code)) => {
            Error::Unavailable(error.into())
        }
        sqlx::Error::Database(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            Error::Store(error.into())
        }
        _ => Error::Unavailable(error.into()),
    }
}

/// What went wrong inside the caller's transaction.
fn enlisted(error: sqlx::Error) -> Error {
    // Serialization failure, deadlock, and a transaction that an earlier error has aborted already.
    let lost = ["40001", "40P01", "25P02"];
    match error.as_database_error().and_then(|e| e.code()) {
        Some(code) if lost.contains(&code.as_ref()) => Error::TransactionLost(error.into()),
        _ => own(error),
    }
}
