//! Operations that need MySQL's own statements: routing, reports, pruning, keys, figures and migrations.

use std::time::Duration;

use serde::Serialize;

use super::roles::records::{key_state, records};
use super::roles::redrives::{find_seq, mark};
use super::subscribers::{Routes, Subscribers};
use super::{Conn, MySqlStore};
use crate::error::{Error, Result};
use crate::limits;
use crate::shard;
use crate::store::decide::lookups;
use crate::store::sql::{is_new, json};
use crate::store::{Appended, Key, KeyState, Pruned, Report, Routed, Token};

/// How long an instance waits for another one that migrates.
const MIGRATION_PATIENCE: Duration = Duration::from_secs(600);

#[derive(Serialize)]
struct Marked {
    seq: i64,
    subscribed: bool,
}

impl MySqlStore {
    /// The session is not returned to the pool: the lock ends with it, even after an error.
    pub(super) async fn begin_migrating(&self) -> Result<Box<Conn>> {
        let mut session = self.work.acquire().await?.detach();
        let lock = sqlx::query_scalar(sql!("schema/migration_lock")).bind(MIGRATION_PATIENCE.as_secs());
        let locked: Option<i64> = lock.fetch_one(&mut session).await?;
        if locked != Some(1) {
            return Err(Error::Unavailable("another instance has been migrating for too long".into()));
        }
        let tables: i64 = sqlx::query_scalar(sql!("schema/schema_table")).fetch_one(&mut session).await?;
        if tables > 0 {
            // MySQL commits every DDL statement, so an interrupted migration is run again.
            sqlx::query("DELETE FROM postrider_migrations WHERE NOT success").execute(&mut session).await?;
        }
        Ok(Box::new(session))
    }

    pub(super) async fn end_migrating(mut session: Box<Conn>) -> Result<()> {
        sqlx::query(sql!("schema/migration_unlock")).execute(&mut *session).await?;
        Ok(())
    }

    pub(super) async fn route_once(&self, limit: u32) -> Result<Routed> {
        let idle: bool = sqlx::query_scalar(sql!("events/route_idle")).fetch_one(&self.work).await?;
        if idle {
            return Ok(Routed::default());
        }
        let mut tx = self.work.begin().await?;
        let subscribers = Subscribers::all(&mut tx).await?;
        let (topics, every) = subscribers.topics();
        let lock = sqlx::query_as(sql!("events/route_lock")).bind(limit);
        let mut taken: Vec<(i64, String, Option<String>, String)> = lock.fetch_all(&mut *tx).await?;
        if every {
            let lock = sqlx::query_as(sql!("events/route_lock_all")).bind(limit);
            taken.extend(lock.fetch_all(&mut *tx).await?);
        } else if !topics.is_empty() {
            let lock = sqlx::query_as(sql!("events/route_lock_subscribed")).bind(json(&topics)?).bind(limit);
            taken.extend(lock.fetch_all(&mut *tx).await?);
        }
        taken.sort_unstable_by_key(|(seq, ..)| *seq);
        taken.truncate(limit as usize);
        if taken.is_empty() {
            return Ok(Routed::default());
        }
        let (mut routes, mut marked) = (Routes::default(), Vec::with_capacity(taken.len()));
        for (seq, event_id, key, topic) in &taken {
            subscribers.route(*seq, topic, shard::shard_of(key.as_deref(), event_id), &mut routes);
            marked.push(Marked { seq: *seq, subscribed: subscribers.has(topic) });
        }
        let routed = marked.iter().filter(|event| event.subscribed).count() as u64;
        for (sql, rows, any) in [
            (sql!("events/deliver_many"), json(&routes.deliveries)?, !routes.deliveries.is_empty()),
            (sql!("events/expect"), json(&routes.expected)?, !routes.expected.is_empty()),
            (sql!("events/route"), json(&marked)?, true),
            (sql!("events/note_routed"), json(&taken.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>())?, true),
        ] {
            if any {
                sqlx::query(sql).bind(rows).execute(&mut *tx).await?;
            }
        }
        tx.commit().await?;
        Ok(Routed { routed, unheard: marked.len() as u64 - routed })
    }

    pub(super) async fn append_consumption_once(&self, report: &Report) -> Result<Appended> {
        let mut tx = self.work.begin().await?;
        let Some(seq) = find_seq(&mut tx, &report.event_id).await? else {
            return Ok(Appended::NotExpected);
        };
        let query = sqlx::query(sql!("events/append_consumption_lock")).bind(seq).bind(&report.consumer);
        if query.fetch_optional(&mut *tx).await?.is_none() {
            return Ok(Appended::NotExpected);
        }
        let (known, last): (Option<i32>, Option<i32>) = sqlx::query_as(sql!("events/append_consumption_known"))
            .bind(&report.callback_id)
            .bind(seq)
            .bind(&report.consumer)
            .fetch_one(&mut *tx)
            .await?;
        if let Some(attempt) = known {
            return Ok(Appended::Repeated(attempt.unsigned_abs()));
        }
        let attempt = last.unwrap_or_default().unsigned_abs() + 1;
        sqlx::query(sql!("events/append_consumption"))
            .bind(seq)
            .bind(&report.consumer)
            .bind(attempt)
            .bind(report.success)
            .bind(report.will_retry)
            .bind(report.consumed_at)
            .bind(report.error.as_deref().map(limits::error_text))
            .bind(report.code.as_deref().map(limits::error_code))
            .bind(&report.callback_id)
            .execute(&mut *tx)
            .await?;
        mark(&mut tx, &[seq]).await?;
        tx.commit().await?;
        Ok(Appended::Attempt(attempt))
    }

    pub(super) async fn oldest_pending_ms(&self) -> Result<Option<i64>> {
        // There are few lanes and many deliveries, so this walks from lane to lane by the index.
        let mut oldest: Option<i64> = None;
        let mut lane = String::new();
        loop {
            let next = sqlx::query_scalar("SELECT min(lane) FROM postrider_delivery WHERE lane > ?").bind(&lane);
            let Some(next) = next.fetch_one(&self.work).await? else { return Ok(oldest) };
            lane = next;
            let query = sqlx::query_scalar(sql!("figures/oldest_due")).bind(&lane).bind(&lane);
            oldest = oldest.max(query.fetch_one(&self.work).await?);
        }
    }

    pub(super) async fn prune_events_once(&self, older_than: i64, after: i64, limit: i64) -> Result<Pruned> {
        let query = sqlx::query_as(sql!("upkeep/prune_stretch")).bind(older_than).bind(after).bind(limit);
        let stretch: Vec<(i64, bool, bool)> = query.fetch_all(&self.work).await?;
        // All rows after a young one are younger.
        let old: Vec<_> = stretch.iter().take_while(|(_, old, _)| *old).collect();
        let next = old.last().map(|(seq, ..)| *seq).filter(|_| old.len() as i64 == limit);
        let routed: Vec<_> = old.into_iter().filter(|(.., routed)| *routed).map(|(seq, ..)| *seq).collect();
        let removed = self.prune_these_once(&routed).await?;
        Ok(Pruned { removed, next })
    }

    /// Removes the events that are finished and not locked, with all their rows.
    pub(super) async fn prune_these_once(&self, seqs: &[i64]) -> Result<u64> {
        let mut finished = seqs.to_vec();
        let mut tx = self.work.begin().await?;
        for sql in [sql!("upkeep/prune_events_lock"), sql!("upkeep/prune_finished")] {
            let query = sqlx::query_scalar(sql).bind(json(&finished)?);
            finished = query.fetch_all(&mut *tx).await?;
        }
        let gone: Vec<_> = records(&mut tx, &finished).await?.iter().flat_map(lookups).collect();
        write_pairs(&mut tx, sql!("upkeep/prune_lookups"), &gone).await?;
        let finished = json(&finished)?;
        for sql in [sql!("upkeep/prune_statuses"), sql!("upkeep/prune_attempts")] {
            sqlx::query(sql).bind(&finished).execute(&mut *tx).await?;
        }
        let removed = sqlx::query(sql!("upkeep/prune_events")).bind(&finished).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(removed.rows_affected())
    }
}

/// Removes up to `limit` marks and returns their events.
pub(super) async fn take_marks(conn: &mut Conn, limit: i64) -> Result<Vec<i64>> {
    let marks: Vec<(i64, i64)> = sqlx::query_as(sql!("upkeep/fold_marks")).bind(limit).fetch_all(&mut *conn).await?;
    let (ids, seqs): (Vec<i64>, Vec<i64>) = marks.into_iter().unzip();
    if !ids.is_empty() {
        sqlx::query(sql!("upkeep/fold_take")).bind(json(&ids)?).execute(conn).await?;
    }
    Ok(seqs)
}

/// Runs a statement whose parameter is a list of hashes and event seqs.
pub(super) async fn write_pairs(conn: &mut Conn, sql: &'static str, pairs: &[(i64, i64)]) -> Result<()> {
    sqlx::query(sql).bind(json(pairs)?).execute(conn).await?;
    Ok(())
}

pub(super) async fn begin_key(conn: &mut Conn, key: &Key<'_>, fingerprint: &[u8], lease_ms: i64) -> Result<KeyState> {
    let token = Token::fresh();
    // Reads before it writes: a conflict would wait for a transaction that is open on the key.
    let find = sqlx::query(sql!("keys/find_key")).bind(key.scope).bind(key.key);
    let is_there = find.fetch_optional(&mut *conn).await?.is_some();
    if !is_there {
        let begin = sqlx::query(sql!("keys/begin_key")).bind(key.scope).bind(key.key).bind(fingerprint).bind(token.0);
        if is_new(begin.bind(lease_ms).execute(&mut *conn).await)? {
            return Ok(KeyState::Begun(token));
        }
    }
    let lock = sqlx::query(sql!("keys/take_over_key_lock")).bind(key.scope).bind(key.key).bind(fingerprint);
    if lock.fetch_optional(&mut *conn).await?.is_some() {
        let take = sqlx::query(sql!("keys/take_over_key")).bind(token.0).bind(lease_ms).bind(key.scope).bind(key.key);
        take.execute(conn).await?;
        return Ok(KeyState::TakenOver(token));
    }
    let find = sqlx::query(if is_there { sql!("keys/find_key") } else { sql!("keys/find_key_newest") });
    let row = find.bind(key.scope).bind(key.key).fetch_optional(conn).await?;
    match row {
        Some(row) => key_state(&row, fingerprint),
        // The key was pruned in between and is free: the next call gets it.
        None => Ok(KeyState::InProgress),
    }
}
