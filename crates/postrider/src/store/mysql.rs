//! MySQL and MariaDB. What each statement does stands in `queries/mysql/`; what is different here, and why, in
//! `docs/decisions/0006-mysql.md`.
//!
//! The store has two pools: `work` for the statements of relays and operators, and `pool` for transactions that carry the
//! user's own statements. Sessions of both are at READ COMMITTED, where claims and producers lock rows and never the
//! gaps between them. Those of `pool` also commit nothing by themselves: after a deadlock the server has left the
//! transaction, and what a consumer that swallowed the error does next would otherwise stay.

/// `sql!("claim")` is the statement in `queries/mysql/claim.sql`.
macro_rules! sql {
    ($verb:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/mysql/", $verb, ".sql"))
    };
}

mod access;
mod deliveries;
mod enlist;
mod error;
mod heard;
mod jobs;
mod list;
mod operations;
mod redrive;
mod rollup;
mod rows;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use sqlx::migrate::Migrator;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::{ConnectOptions, MySql};
use time::OffsetDateTime;

use self::error::{again, is_known, meaning};
use self::heard::{Heard, Routes};
use self::server::Server;
use super::batch::millis;
use super::figure;
use super::schema::{self, MIGRATIONS_TABLE, SchemaVersion};
use super::sessions::Door;
use super::{
    Advance, Appended, Buried, Claim, DeadHead, DeliveryId, Enqueued, Failed, Finished, Folded, Found, History,
    Holding, JobOutcome, JobPlan, JobStart, JobState, LaneCounts, Lease, List, Minute, NewEvent, NewOperation,
    Operation, Page, Prunable, Prune, Pruned, Redriven, Report, Routed, Steer, Store, Token, Unheard,
};
use crate::error::{Error, Result};
use crate::limits;
use crate::redrive::{RedriveRules, Refusal};
use crate::shard;
use crate::subscription::{StoredSubscription, Subscription};
use crate::wake::Wake;

type Sessions = super::sessions::Sessions<MySql>;

static MIGRATOR: Migrator = sqlx::migrate!("migrations/mysql");

/// How the sessions of relays and operators are set up. A value that does not fit is an error and not cut, whatever the
/// server's own mode; and nobody waits for a lock for as long as the server's default, fifty seconds.
const WORK_SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
    SET SESSION autocommit = 1, innodb_lock_wait_timeout = 10, sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')";
/// And those of transactions with the user's own statements.
const SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION autocommit = 0";
/// Connections of each of the two pools: more than a few relays and handlers on one machine never help.
const POOL_CONNECTIONS: u32 = 10;
/// Bytes of a batch of events in one statement, at most: parsing more at once saves nothing.
const STATEMENT_BYTES: u64 = 2 * 1024 * 1024;
/// How much longer than an event its JSON may be, where every character of it has to be written as `\u0001`.
const JSON_FACTOR: u64 = 6;
/// How long one instance waits for another to migrate.
const MIGRATION_PATIENCE: Duration = Duration::from_secs(600);

/// Events in MariaDB 10.6 or later, or in MySQL 8.0.17 or later.
#[derive(Debug, Clone)]
pub struct MySqlStore {
    work: Sessions,
    pool: Sessions,
    statement_bytes: usize,
    url: Arc<str>,
    wake: Wake,
}

/// The schema as a script, for people who apply it with a tool of their own.
pub fn migrations_script() -> String {
    schema::script(&MIGRATOR, sql!("migrations_table"), |hex| format!("x'{hex}'"))
}

impl MySqlStore {
    /// Connects, and refuses a server that cannot carry what we do. Says nothing about the schema: `migrate` or
    /// [`Store::check_schema`] comes next.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, POOL_CONNECTIONS).await
    }

    /// The same with so many connections at most, at least two, in each of the two pools: one for statements of relays
    /// and operators, one for transactions.
    pub async fn connect_with(url: &str, connections: u32) -> Result<Self> {
        if connections < 2 {
            return Err(Error::Unsupported(format!("a pool of {connections} is too small: give it 2 connections")));
        }
        let options = MySqlConnectOptions::from_str(url).map_err(|e| {
            Error::Unsupported(format!("this is no MySQL URL ({e}): write mysql://user@host:3306/database"))
        })?;
        if options.get_database().is_none() {
            return Err(Error::Unsupported("the URL names no database: write mysql://user@host:3306/database".into()));
        }
        let mut printable = options.to_url_lossy();
        // Fails only where there can be no password.
        let _ = printable.set_password(None);
        let door = Arc::new(Door::new(options));
        let work = Sessions::new(pool(connections, WORK_SESSION), &door);
        let pool = Sessions::new(pool(connections, SESSION), &door);
        let statement_bytes = STATEMENT_BYTES as usize;
        let mut store =
            Self { work, pool, statement_bytes, url: String::from(printable).into(), wake: Wake::default() };
        store.refuse_what_cannot_carry_us().await?;
        Ok(store)
    }

    async fn refuse_what_cannot_carry_us(&mut self) -> Result<()> {
        let (version, binlog_format, max_allowed_packet) =
            sqlx::query_as(sql!("server")).fetch_one(&self.work).await.map_err(meaning)?;
        let server = Server { version, binlog_format, max_allowed_packet };
        server.check(&self.url)?;
        self.statement_bytes = (server.max_allowed_packet / JSON_FACTOR / 2).min(STATEMENT_BYTES) as usize;
        for sessions in [&self.work, &self.pool] {
            // A transaction, so that nothing stays open where nothing commits by itself.
            let mut tx = sessions.begin().await.map_err(meaning)?;
            let levels: Vec<(String, String)> =
                sqlx::query_as(sql!("isolation")).fetch_all(&mut *tx).await.map_err(meaning)?;
            if let Some((_, level)) = levels.iter().find(|(_, level)| level != "READ-COMMITTED") {
                return Err(Error::Unsupported(format!(
                    "{} keeps our sessions at {level} instead of READ COMMITTED: let them choose (a proxy in between may not)",
                    self.url
                )));
            }
        }
        Ok(())
    }
}

fn pool(connections: u32, session: &'static str) -> MySqlPoolOptions {
    let pool = MySqlPoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(30));
    pool.after_connect(move |connection, _| {
        Box::pin(async move {
            sqlx::raw_sql(session).execute(connection).await?;
            Ok(())
        })
    })
}

#[async_trait]
impl Store for MySqlStore {
    async fn migrate(&self) -> Result<()> {
        // Not given back: the lock goes with its session.
        let mut session = self.work.acquire().await.map_err(meaning)?.detach();
        let locked: Option<i64> = sqlx::query_scalar(sql!("migration_lock"))
            .bind(MIGRATION_PATIENCE.as_secs())
            .fetch_one(&mut session)
            .await
            .map_err(meaning)?;
        if locked != Some(1) {
            return Err(Error::Unavailable("another instance has been migrating for too long".into()));
        }
        let migrated = self.run_migrations(&mut session).await;
        sqlx::query(sql!("migration_unlock")).execute(&mut session).await.map_err(meaning)?;
        migrated
    }

    async fn schema_version(&self) -> Result<SchemaVersion> {
        let applied = match has_migrations(&mut *self.work.acquire().await.map_err(meaning)?).await? {
            false => Vec::new(),
            true => sqlx::query_as(sql!("schema_version")).fetch_all(&self.work).await.map_err(meaning)?,
        };
        schema::version(&MIGRATOR, &applied, &self.url)
    }

    fn name(&self) -> &str {
        &self.url
    }

    async fn now(&self) -> Result<OffsetDateTime> {
        sqlx::query_scalar("SELECT UTC_TIMESTAMP(6)").fetch_one(&self.work).await.map_err(meaning)
    }

    async fn publish(&self, batch: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        again!(super::publish(self, batch, unheard))
    }

    async fn route(&self, limit: u32) -> Result<Routed> {
        let idle: bool = sqlx::query_scalar(sql!("route_idle")).fetch_one(&self.work).await.map_err(meaning)?;
        match idle {
            true => Ok(Routed::default()),
            false => again!(self.route_some(limit.min(limits::PASS_ROWS))),
        }
    }

    async fn claim(&self, claim: &Claim) -> Result<Lease> {
        claim.check()?;
        let token = Token::fresh();
        match again!(deliveries::claim(self, claim, token))? {
            0 => rows::lease(token, &[]),
            leased => deliveries::fetch(self, claim, token, leased).await,
        }
    }

    async fn claim_keyed(&self, claim: &Claim, dead_head: DeadHead) -> Result<Lease> {
        claim.check()?;
        again!(deliveries::claim_keyed(self, claim, dead_head))
    }

    async fn extend(&self, token: Token, deliveries: &[DeliveryId], lease: Duration) -> Result<Vec<DeliveryId>> {
        again!(deliveries::extend(self, token, deliveries, lease))
    }

    async fn settle(&self, token: Token, deliveries: &[DeliveryId], history: History) -> Result<Vec<DeliveryId>> {
        again!(deliveries::settle(self, token, deliveries, history))
    }

    async fn retry(&self, token: Token, failed: &[Failed], history: History) -> Result<Vec<DeliveryId>> {
        again!(deliveries::retry(self, token, failed, history))
    }

    async fn bury(&self, token: Token, buried: &[Buried], history: History) -> Result<Vec<DeliveryId>> {
        again!(deliveries::bury(self, token, buried, history))
    }

    async fn release(&self, token: Token, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>> {
        again!(deliveries::release(self, token, deliveries))
    }

    async fn redrive(&self, event_id: &str, lane: &str, target: &str) -> Result<Redriven> {
        again!(deliveries::redrive(self, event_id, lane, target))
    }

    async fn redrive_event(
        &self,
        event_id: &str,
        consumer: Option<&str>,
        rules: &RedriveRules,
    ) -> Result<std::result::Result<Found, Refusal>> {
        again!(redrive::redrive_event(self, event_id, consumer, rules))
    }

    async fn expire(&self, event_id: &str) -> Result<std::result::Result<Found, Refusal>> {
        again!(redrive::expire(self, event_id))
    }

    async fn create_operation(&self, new: &NewOperation) -> Result<Operation> {
        again!(operations::create_operation(self, new))
    }

    async fn operation(&self, id: &str) -> Result<Option<Operation>> {
        operations::find(self, id).await
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>> {
        operations::operations(self, limit).await
    }

    async fn steer_operation(&self, id: &str, steer: Steer) -> Result<Option<Operation>> {
        again!(operations::steer_operation(self, id, steer))
    }

    async fn claim_operation(&self, owner: &str, lease: Duration) -> Result<Option<(Operation, Token)>> {
        again!(operations::claim_operation(self, owner, lease))
    }

    async fn advance_operation(&self, advance: &Advance<'_>) -> Result<Option<Operation>> {
        again!(operations::advance_operation(self, advance))
    }

    async fn release_operation(&self, id: &str, token: Token) -> Result<bool> {
        again!(operations::release_operation(self, id, token))
    }

    async fn register(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        // Reads first: an upsert would write, and lock, on every start of every instance.
        let known: bool = sqlx::query_scalar(sql!("is_registered"))
            .bind(&subscription.topic)
            .bind(&subscription.consumer)
            .fetch_one(&self.work)
            .await
            .map_err(meaning)?;
        match known {
            true => Ok(()),
            false => again!(self.write_subscription(sql!("register"), subscription)),
        }
    }

    async fn set_subscription(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        again!(self.write_subscription(sql!("set_subscription"), subscription))
    }

    async fn remove_subscription(&self, topic: &str, consumer: &str) -> Result<bool> {
        again!(async {
            let query = sqlx::query(sql!("remove_subscription")).bind(topic).bind(consumer);
            Ok(query.execute(&self.work).await.map_err(meaning)?.rows_affected() == 1)
        })
    }

    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>> {
        let query = sqlx::query(sql!("subscriptions")).bind(topic).bind(topic);
        query.fetch_all(&self.work).await.map_err(meaning)?.iter().map(rows::subscription).collect()
    }

    async fn append_consumption(&self, report: &Report) -> Result<Appended> {
        again!(self.append(report))
    }

    async fn fold(&self, limit: u32) -> Result<Folded> {
        again!(rollup::fold(self, limit))
    }

    async fn acquire_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>> {
        again!(self.take_lease(name, owner, lease))
    }

    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        again!(async {
            let query = sqlx::query(sql!("extend_lease")).bind(millis(lease)).bind(name).bind(token.0);
            Ok(query.execute(&self.work).await.map_err(meaning)?.rows_affected() == 1)
        })
    }

    async fn release_lease(&self, name: &str, token: Token) -> Result<bool> {
        again!(async {
            let query = sqlx::query(sql!("release_lease")).bind(name).bind(token.0);
            Ok(query.execute(&self.work).await.map_err(meaning)?.rows_affected() == 1)
        })
    }

    async fn find(&self, event_id: &str) -> Result<Option<Found>> {
        let event = sqlx::query(sql!("find")).bind(event_id).fetch_optional(&self.work).await;
        let Some(event) = event.map_err(meaning)? else {
            return Ok(None);
        };
        let seqs = json(&[rows::seq(&event)?])?;
        // Deliveries first: one that is done meanwhile is in the history then, and never in neither.
        let deliveries = sqlx::query(sql!("find_deliveries")).bind(&seqs).fetch_all(&self.work).await;
        let consumptions = sqlx::query(sql!("find_consumptions")).bind(&seqs).fetch_all(&self.work);
        let (deliveries, consumptions) = (deliveries.map_err(meaning)?, consumptions.await.map_err(meaning)?);
        Ok(rows::records(&[event], &deliveries, &consumptions)?.pop())
    }

    async fn list(&self, list: &List) -> Result<Page> {
        super::list::list(self, list).await
    }

    async fn counts(&self) -> Result<BTreeMap<String, LaneCounts>> {
        let query = sqlx::query(sql!("counts"));
        query.fetch_all(&self.work).await.map_err(meaning)?.iter().map(rows::lane_counts).collect()
    }

    async fn figures(&self, from: OffsetDateTime, to: OffsetDateTime) -> Result<Vec<Minute>> {
        let query = sqlx::query_as(sql!("figures")).bind(figure::minute_of(from)).bind(figure::minute_of(to));
        let rows: Vec<(i64, i64, i64, i64, i64, i64)> = query.fetch_all(&self.work).await.map_err(meaning)?;
        Ok(rows.into_iter().map(|row| figure::minute(row.into())).collect())
    }

    async fn holdings(&self) -> Result<Vec<Holding>> {
        let query = sqlx::query_as(sql!("holdings"));
        let rows: Vec<(Option<String>, String, String, i64, OffsetDateTime)> =
            query.fetch_all(&self.work).await.map_err(meaning)?;
        let holding = |(owner, kind, name, count, until): (Option<String>, String, String, i64, OffsetDateTime)| {
            let owner = owner.unwrap_or_default();
            Holding { owner, kind, name, count: count.unsigned_abs(), until }
        };
        Ok(rows.into_iter().map(holding).collect())
    }

    async fn oldest_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let mut waits = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let query = sqlx::query_scalar(sql!("oldest_pending")).bind(lane).bind(lane);
            let wait: Option<i64> = query.fetch_one(&self.work).await.map_err(meaning)?;
            waits.push(wait.map(duration));
        }
        Ok(waits)
    }

    async fn oldest_pending(&self) -> Result<Option<Duration>> {
        let mut oldest: Option<i64> = None;
        let mut lane = String::new();
        loop {
            let query = sqlx::query_scalar(sql!("next_lane")).bind(&lane);
            let Some(next) = query.fetch_one(&self.work).await.map_err(meaning)? else {
                return Ok(oldest.map(duration));
            };
            lane = next;
            let query = sqlx::query_scalar(sql!("oldest_pending")).bind(&lane).bind(&lane);
            oldest = oldest.max(query.fetch_one(&self.work).await.map_err(meaning)?);
        }
    }

    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>> {
        let mut waits = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let query = sqlx::query_scalar(sql!("next_due")).bind(lane).bind(lane);
            let wait: Option<i64> = query.fetch_one(&self.work).await.map_err(meaning)?;
            waits.push(wait.map(duration));
        }
        Ok(waits)
    }

    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>> {
        sqlx::query_scalar(sql!("sight")).bind(json(event_ids)?).fetch_all(&self.work).await.map_err(meaning)
    }

    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()> {
        again!(async {
            let sql = if paused { sql!("pause") } else { sql!("resume") };
            sqlx::query(sql).bind(lane).execute(&self.work).await.map_err(meaning)?;
            Ok(())
        })
    }

    async fn paused(&self) -> Result<BTreeSet<String>> {
        let lanes: Vec<String> = sqlx::query_scalar(sql!("paused")).fetch_all(&self.work).await.map_err(meaning)?;
        Ok(lanes.into_iter().collect())
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        let limit = prune.limit.clamp(1, limits::PASS_ROWS);
        let older_than = millis(prune.older_than);
        let sql = match prune.what {
            Prunable::Events => return again!(self.prune_stretch(older_than, prune.after, limit)),
            Prunable::Inbox => sql!("prune_inbox"),
            Prunable::Keys => sql!("prune_keys"),
            Prunable::Operations => sql!("prune_operations"),
            Prunable::Figures => sql!("prune_figures"),
        };
        let removed: u64 = again!(async {
            let query = sqlx::query(sql).bind(older_than).bind(limit);
            Ok(query.execute(&self.work).await.map_err(meaning)?.rows_affected())
        })?;
        Ok(Pruned { removed, next: (removed == u64::from(limit)).then_some(0) })
    }

    async fn finished(&self, prune: &Prune) -> Result<Finished> {
        let mut session = self.work.acquire().await.map_err(meaning)?;
        rollup::finished(&mut session, prune).await
    }

    async fn prune_events(&self, sequences: &[i64]) -> Result<u64> {
        again!(self.remove_events(sequences.to_vec()))
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }

    async fn plan_job(&self, plan: &JobPlan<'_>) -> Result<()> {
        again!(jobs::plan_job(&self.work, plan))
    }

    async fn begin_job(&self, start: &JobStart<'_>) -> Result<Option<Token>> {
        again!(jobs::begin_job(&self.work, start))
    }

    async fn extend_job(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        again!(jobs::extend_job(&self.work, name, token, lease))
    }

    async fn finish_job(&self, name: &str, token: Token, outcome: &JobOutcome) -> Result<bool> {
        again!(jobs::finish_job(&self.work, name, token, outcome))
    }

    async fn jobs(&self) -> Result<Vec<JobState>> {
        jobs::jobs(&self.work).await
    }
}

#[derive(Serialize)]
struct Marked {
    seq: i64,
    heard: bool,
}

impl MySqlStore {
    async fn run_migrations(&self, session: &mut MySqlConnection) -> Result<()> {
        if has_migrations(session).await? {
            sqlx::query(sql!("forget_unfinished")).execute(&mut *session).await.map_err(meaning)?;
        }
        let mut migrator = Migrator { migrations: MIGRATOR.migrations.clone(), locking: false, ..Migrator::DEFAULT };
        migrator.dangerous_set_table_name(MIGRATIONS_TABLE);
        let migrated = migrator.run_direct(None, session, false).await;
        migrated.map_err(|error| schema::refused(error, &self.url, &MIGRATOR, meaning))
    }

    async fn route_some(&self, limit: u32) -> Result<Routed> {
        let mut tx = self.work.begin().await.map_err(meaning)?;
        let heard = Heard::all(&mut tx).await.map_err(meaning)?;
        let (topics, every) = heard.topics();
        let lock = sqlx::query_as(sql!("route_lock")).bind(limit);
        let mut taken: Vec<(i64, String, Option<String>, String)> = lock.fetch_all(&mut *tx).await.map_err(meaning)?;
        if every {
            let lock = sqlx::query_as(sql!("route_lock_all")).bind(limit);
            taken.extend(lock.fetch_all(&mut *tx).await.map_err(meaning)?);
        } else if !topics.is_empty() {
            let lock = sqlx::query_as(sql!("route_lock_heard")).bind(json(&topics)?).bind(limit);
            taken.extend(lock.fetch_all(&mut *tx).await.map_err(meaning)?);
        }
        taken.sort_unstable_by_key(|(seq, ..)| *seq);
        taken.truncate(limit as usize);
        if taken.is_empty() {
            return Ok(Routed::default());
        }
        let (mut routes, mut marked) = (Routes::default(), Vec::with_capacity(taken.len()));
        for (seq, event_id, key, topic) in &taken {
            heard.route(*seq, topic, shard::shard_of(key.as_deref(), event_id), &mut routes);
            marked.push(Marked { seq: *seq, heard: heard.is_heard(topic) });
        }
        let routed = marked.iter().filter(|event| event.heard).count() as u64;
        for (sql, rows, any) in [
            (sql!("deliver_many"), json(&routes.deliveries)?, !routes.deliveries.is_empty()),
            (sql!("expect"), json(&routes.expected)?, !routes.expected.is_empty()),
            (sql!("route"), json(&marked)?, true),
            (sql!("note_routed"), json(&taken.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>())?, true),
        ] {
            if any {
                sqlx::query(sql).bind(rows).execute(&mut *tx).await.map_err(meaning)?;
            }
        }
        tx.commit().await.map_err(meaning)?;
        Ok(Routed { routed, unheard: marked.len() as u64 - routed })
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
            .execute(&self.work)
            .await
            .map_err(meaning)?;
        Ok(())
    }

    async fn append(&self, report: &Report) -> Result<Appended> {
        let mut tx = self.work.begin().await.map_err(meaning)?;
        let query = sqlx::query_scalar(sql!("find_seq")).bind(&report.event_id);
        let Some(seq): Option<i64> = query.fetch_optional(&mut *tx).await.map_err(meaning)? else {
            return Ok(Appended::NotExpected);
        };
        let query = sqlx::query(sql!("append_consumption_lock")).bind(seq).bind(&report.consumer);
        if query.fetch_optional(&mut *tx).await.map_err(meaning)?.is_none() {
            return Ok(Appended::NotExpected);
        }
        let (known, last): (Option<i32>, Option<i32>) = sqlx::query_as(sql!("append_consumption_known"))
            .bind(&report.callback_id)
            .bind(seq)
            .bind(&report.consumer)
            .fetch_one(&mut *tx)
            .await
            .map_err(meaning)?;
        if let Some(attempt) = known {
            return Ok(Appended::Repeated(attempt.unsigned_abs()));
        }
        let attempt = last.unwrap_or_default().unsigned_abs() + 1;
        sqlx::query(sql!("append_consumption"))
            .bind(seq)
            .bind(&report.consumer)
            .bind(attempt)
            .bind(report.success)
            .bind(report.will_retry)
            .bind(report.consumed_at)
            .bind(report.error.as_deref().map(limits::error_text))
            .bind(report.code.as_deref().map(limits::error_text))
            .bind(&report.callback_id)
            .execute(&mut *tx)
            .await
            .map_err(meaning)?;
        sqlx::query(sql!("mark_one")).bind(seq).execute(&mut *tx).await.map_err(meaning)?;
        tx.commit().await.map_err(meaning)?;
        Ok(Appended::Attempt(attempt))
    }

    async fn take_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>> {
        let token = Token::fresh();
        let query = sqlx::query(sql!("acquire_lease")).bind(owner).bind(token.0).bind(millis(lease)).bind(name);
        if query.execute(&self.work).await.map_err(meaning)?.rows_affected() == 1 {
            return Ok(Some(token));
        }
        let query = sqlx::query(sql!("make_lease")).bind(name).bind(owner).bind(token.0).bind(millis(lease));
        match query.execute(&self.work).await {
            Ok(_) => Ok(Some(token)),
            Err(error) if is_known(&error) => Ok(None),
            Err(error) => Err(meaning(error)),
        }
    }

    async fn prune_stretch(&self, older_than: i64, after: i64, limit: u32) -> Result<Pruned> {
        let query = sqlx::query_as(sql!("prune_stretch")).bind(older_than).bind(after).bind(limit);
        let stretch: Vec<(i64, bool, bool)> = query.fetch_all(&self.work).await.map_err(meaning)?;
        // What comes after a young one is younger still.
        let old: Vec<_> = stretch.iter().take_while(|(_, old, _)| *old).collect();
        let next = old.last().map(|(seq, ..)| *seq).filter(|_| old.len() == limit as usize);
        let routed: Vec<_> = old.into_iter().filter(|(.., routed)| *routed).map(|(seq, ..)| *seq).collect();
        let removed = self.remove_events(routed).await?;
        Ok(Pruned { removed, next })
    }

    /// Removes those of the events that are finished and nobody's, and all that is known of them.
    async fn remove_events(&self, mut finished: Vec<i64>) -> Result<u64> {
        let mut tx = self.work.begin().await.map_err(meaning)?;
        for sql in [sql!("prune_events_lock"), sql!("prune_finished")] {
            let query = sqlx::query_scalar(sql).bind(json(&finished)?);
            finished = query.fetch_all(&mut *tx).await.map_err(meaning)?;
        }
        let gone = rollup::records(&mut tx, &finished).await?;
        let lookups: Vec<_> = gone.iter().flat_map(super::rollup::lookups).collect();
        sqlx::query(sql!("prune_lookups")).bind(json(&lookups)?).execute(&mut *tx).await.map_err(meaning)?;
        let finished = json(&finished)?;
        for sql in [sql!("prune_statuses"), sql!("prune_attempts")] {
            sqlx::query(sql).bind(&finished).execute(&mut *tx).await.map_err(meaning)?;
        }
        let removed = sqlx::query(sql!("prune_events")).bind(&finished).execute(&mut *tx).await.map_err(meaning)?;
        tx.commit().await.map_err(meaning)?;
        Ok(removed.rows_affected())
    }
}

#[cfg(feature = "testing")]
impl crate::testing::Age for MySqlStore {
    async fn age(&self, by: Duration) -> Result<()> {
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
            sql!("age_tokens"),
            sql!("age_sessions"),
        ] {
            let columns = sql.matches("INTERVAL ?").count();
            again!(async {
                let query = (0..columns).fold(sqlx::query(sql), |query, _| query.bind(millis(by)));
                query.execute(&self.work).await.map_err(meaning)
            })?;
        }
        again!(async {
            let query = sqlx::query(sql!("age_figures")).bind(millis(by));
            query.execute(&self.work).await.map_err(meaning)?;
            Ok(())
        })
    }
}

#[cfg(feature = "testing")]
impl crate::testing::Peek for MySqlStore {
    async fn enqueued(&self, topic: &str) -> Result<Vec<crate::Envelope>> {
        let stored = sqlx::query(sql!("enqueued")).bind(topic).fetch_all(&self.work).await.map_err(meaning)?;
        stored.iter().map(|row| Ok(rows::known(row)?.1)).collect()
    }
}

async fn has_migrations(session: &mut MySqlConnection) -> Result<bool> {
    let tables: i64 = sqlx::query_scalar(sql!("schema_table")).fetch_one(session).await.map_err(meaning)?;
    Ok(tables > 0)
}

fn json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(Error::Encode)
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}
