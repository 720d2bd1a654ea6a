//! Subscriptions are written and removed, and what waits for their consumer moves or ends in the same transaction. What
//! becomes of it is decided in `decide/change.rs`.

use std::collections::BTreeSet;

use serde_json::json;

use super::audit::commit;
use super::records::subscription;
use super::redrives::{append_end, free_followers, lock, mark};
use super::{Conn, SqlStore};
use crate::error::{Error, Result};
use crate::redrive::Refusal;
use crate::status::Record;
use crate::store::audit::Change;
use crate::store::batch;
use crate::store::decide::{Moves, Shift, check_version, decide_change, decide_secrets, registered_as, was_external};
use crate::store::sql::is_duplicate;
use crate::store::{
    SecretChange, SubscriptionChange, SubscriptionChanged, SubscriptionRemoval, SubscriptionRemoved, Waiting,
};
use crate::subscription::{StoredSubscription, Subscription, Via};

/// Events that are locked, decided and written together.
const CHUNK: usize = 500;

/// The columns of a subscription, as `records::subscription` reads them.
macro_rules! columns {
    () => {
        "topic, consumer, enabled, sort_order, description, via, endpoint, exchange, routing_key, rate_per_second, \
         timeout_seconds, max_attempts, removed, created_at, updated_at"
    };
}
pub(super) use columns;

impl SqlStore {
    pub(super) async fn register_new(&self, subscription: &Subscription) -> Result<()> {
        let mut tx = self.write().await?;
        let rows = of_consumer(&mut tx, &subscription.consumer).await?;
        let insert = sql!("subscriptions/register");
        match write_subscription(&mut tx, insert, &registered_as(subscription, &rows)).await {
            Ok(()) => tx.commit().await?,
            Err(error) if is_duplicate(&error) => tx.rollback().await?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) async fn change(&self, change: &SubscriptionChange) -> Result<SubscriptionChanged> {
        let mut tx = self.write().await?;
        lock_changes(&mut tx).await?;
        let wanted = &change.subscription;
        let rows = of_consumer(&mut tx, &wanted.consumer).await?;
        let written = match decide_change(change, &rows) {
            Ok(written) => written,
            Err(refusal) => {
                tx.rollback().await?;
                return Err(Error::Refused(refusal));
            }
        };
        for one in &written {
            write_subscription(&mut tx, sql!("subscriptions/set_subscription"), one).await?;
        }
        let mut secret = None;
        for (topic, change) in decide_secrets(change, &rows) {
            secret = write_secret(&mut tx, topic, &wanted.consumer, change).await?.or(secret);
        }
        let subscriptions = present(&mut tx).await?;
        let shift = Shift {
            consumer: &wanted.consumer,
            to: wanted.via,
            from_external: was_external(&rows) && wanted.via != Via::External,
            subscriptions: &subscriptions,
        };
        let seqs = candidates(&mut tx, shift.consumer, !wanted.via.has_own_lane(), shift.from_external).await?;
        let moved = write_moves(&mut tx, shift.consumer, &seqs, |records| shift.moves(records)).await?;
        let waiting = waiting(&mut tx, shift.consumer, &wanted.topic, wanted.via).await?;
        let is_it = |row: &StoredSubscription| {
            (&row.subscription.topic, &row.subscription.consumer) == (&wanted.topic, &wanted.consumer)
        };
        let stored = subscriptions.into_iter().find(is_it);
        let before = rows.iter().filter(|row| !row.removed).find(|row| is_it(row)).map(|row| &row.subscription);
        let done = change.done(moved, waiting, secret);
        let after = stored.as_ref().map(|stored| &stored.subscription);
        commit(tx, &Change::subscription(before, after, done)).await?;
        let stored = stored.ok_or_else(|| Error::Store("the subscription that was written is not there".into()))?;
        Ok(SubscriptionChanged { stored, moved, waiting })
    }

    pub(super) async fn end(&self, removal: &SubscriptionRemoval) -> Result<Option<SubscriptionRemoved>> {
        let SubscriptionRemoval { topic, consumer, .. } = removal;
        let mut tx = self.write().await?;
        lock_changes(&mut tx).await?;
        let rows = of_consumer(&mut tx, consumer).await?;
        let Some(known) = rows.iter().find(|row| !row.removed && row.subscription.topic == *topic) else {
            tx.rollback().await?;
            return Ok(None);
        };
        let via = known.subscription.via;
        if let Err(refusal) = check_version(topic, removal.if_version.as_deref(), &rows) {
            tx.rollback().await?;
            return Err(Error::Refused(refusal));
        }
        let remove = text!(
            "UPDATE postrider_subscription SET removed = true, enabled = false, updated_at = ",
            now!(),
            " WHERE topic = $1 AND consumer = $2"
        );
        sqlx::query(remove).bind(topic).bind(consumer).execute(&mut *tx).await?;
        let subscriptions = present(&mut tx).await?;
        let shift = Shift { consumer, to: via, from_external: false, subscriptions: &subscriptions };
        let waiting = waiting(&mut tx, consumer, topic, via).await?;
        let removed = match removal.waiting {
            None if waiting > 0 => {
                tx.rollback().await?;
                return Err(Error::Refused(Refusal::DeliveriesWait(waiting)));
            }
            Some(Waiting::Discard) => {
                let seqs = candidates(&mut tx, consumer, true, !via.has_own_lane()).await?;
                let discards = |records: &[Record]| shift.discards(records, topic, &removal.reason());
                let discarded = write_moves(&mut tx, consumer, &seqs, discards).await?;
                SubscriptionRemoved { waiting: 0, discarded }
            }
            _ => {
                let seqs = candidates(&mut tx, consumer, !via.has_own_lane(), false).await?;
                write_moves(&mut tx, consumer, &seqs, |records| shift.moves(records)).await?;
                SubscriptionRemoved { waiting, discarded: 0 }
            }
        };
        let done = json!({ "waiting": removed.waiting, "discarded": removed.discarded });
        commit(tx, &Change::subscription(Some(&known.subscription), None, done)).await?;
        Ok(Some(removed))
    }
}

/// Lets one change of consumers and subscriptions run at a time, and no roll-up beside it.
pub(super) async fn lock_changes(conn: &mut Conn) -> Result<()> {
    let lock = text!("SELECT folded_to FROM postrider_rollup WHERE id = 1", for_update!());
    sqlx::query(lock).fetch_one(conn).await?;
    Ok(())
}

async fn write_subscription(conn: &mut Conn, sql: &'static str, subscription: &Subscription) -> sqlx::Result<()> {
    // Far below the largest number, by `Subscription::check`.
    let limit = |limit: Option<u32>| limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
    let query = sqlx::query(sql)
        .bind(&subscription.topic)
        .bind(&subscription.consumer)
        .bind(subscription.enabled)
        .bind(subscription.sort_order)
        .bind(&subscription.description)
        .bind(subscription.via.as_str())
        .bind(&subscription.endpoint)
        .bind(&subscription.exchange)
        .bind(&subscription.routing_key)
        .bind(limit(subscription.rate_per_second))
        .bind(limit(subscription.timeout_seconds))
        .bind(limit(subscription.max_attempts));
    query.execute(conn).await.map(drop)
}

/// Writes the secret of a webhook. Returns what the audit has of it, if it has changed. No other change runs beside this one.
async fn write_secret(
    conn: &mut Conn,
    topic: &str,
    consumer: &str,
    change: &SecretChange,
) -> Result<Option<&'static str>> {
    if *change == SecretChange::Keep {
        return Ok(None);
    }
    let known = text!("SELECT secret FROM postrider_webhook_secret WHERE topic = $1 AND consumer = $2");
    let known: Option<String> = sqlx::query_scalar(known).bind(topic).bind(consumer).fetch_optional(&mut *conn).await?;
    let insert = text!(
        "INSERT INTO postrider_webhook_secret (secret, topic, consumer, changed_at) VALUES ($1, $2, $3, ",
        now!(),
        ")"
    );
    // The former one first: MySQL assigns from left to right.
    let rotate = text!(
        "UPDATE postrider_webhook_secret SET previous = secret, secret = $1, changed_at = ",
        now!(),
        " WHERE topic = $2 AND consumer = $3"
    );
    let remove = text!("DELETE FROM postrider_webhook_secret WHERE topic = $1 AND consumer = $2");
    match (change, known) {
        (SecretChange::Keep | SecretChange::Remove, None) => Ok(None),
        (SecretChange::Keep | SecretChange::Remove, Some(_)) => {
            sqlx::query(remove).bind(topic).bind(consumer).execute(conn).await?;
            Ok(Some("removed"))
        }
        // Set again, it must not replace the one before it.
        (SecretChange::Set(secret), Some(known)) if known == secret.as_str() => Ok(None),
        (SecretChange::Set(secret), known) => {
            let sql = if known.is_some() { rotate } else { insert };
            sqlx::query(sql).bind(secret.as_str()).bind(topic).bind(consumer).execute(conn).await?;
            Ok(Some("set"))
        }
    }
}

/// All rows of a consumer, also removed ones.
async fn of_consumer(conn: &mut Conn, consumer: &str) -> Result<Vec<StoredSubscription>> {
    let query = sqlx::query(text!("SELECT ", columns!(), " FROM postrider_subscription WHERE consumer = $1"));
    query.bind(consumer).fetch_all(conn).await?.iter().map(subscription).collect()
}

async fn present(conn: &mut Conn) -> Result<Vec<StoredSubscription>> {
    let query = sqlx::query(text!("SELECT ", columns!(), " FROM postrider_subscription WHERE NOT removed"));
    query.fetch_all(conn).await?.iter().map(subscription).collect()
}

/// The events that may wait for a consumer: in the broker's lane, in the consumer's own, or for its report.
async fn candidates(conn: &mut Conn, consumer: &str, own: bool, owed: bool) -> Result<Vec<i64>> {
    let in_lane = text!("SELECT event_seq FROM postrider_delivery WHERE lane = $1");
    let aimed = text!("SELECT event_seq FROM postrider_delivery WHERE lane = 'rabbitmq' AND target = $1");
    let shared = text!(
        "SELECT d.event_seq FROM postrider_delivery d JOIN postrider_consumption c ON c.event_seq = d.event_seq \
         WHERE d.lane = 'rabbitmq' AND d.target = '' AND c.consumer = $1 AND c.attempt = 0"
    );
    let reports = text!(
        "SELECT c.event_seq FROM postrider_consumption c WHERE c.consumer = $1 AND c.attempt = 0 AND NOT EXISTS \
         (SELECT 1 FROM postrider_consumption o WHERE o.event_seq = c.event_seq AND o.consumer = c.consumer AND o.success)"
    );
    let mut seqs = BTreeSet::new();
    for (sql, wanted) in [(in_lane, own), (aimed, true), (shared, true), (reports, owed)] {
        if wanted {
            let found: Vec<i64> = sqlx::query_scalar(sql).bind(consumer).fetch_all(&mut *conn).await?;
            seqs.extend(found);
        }
    }
    Ok(seqs.into_iter().collect())
}

/// Locks the events, decides, and writes. Returns how many events were concerned.
async fn write_moves(
    conn: &mut Conn,
    consumer: &str,
    seqs: &[i64],
    decide: impl Fn(&[Record]) -> Moves,
) -> Result<u64> {
    let mut concerned = 0;
    for chunk in seqs.chunks(CHUNK) {
        let moves = decide(&lock(conn, chunk).await?);
        if moves.seqs.is_empty() {
            continue;
        }
        for (sql, rows) in [
            (sql!("subscriptions/take_deliveries"), batch::due(&moves.taken)?),
            (sql!("events/expect"), batch::expected(&moves.expected)?),
            (sql!("subscriptions/move_deliveries"), batch::due(&moves.inserted)?),
        ] {
            sqlx::query(sql).bind(rows).execute(&mut *conn).await?;
        }
        for ended in &moves.ended {
            append_end(conn, ended.seq, consumer, &ended.error, ended.code).await?;
        }
        for (lane, key, seq) in &moves.keys {
            free_followers(conn, lane, key, *seq).await?;
        }
        mark(conn, &moves.seqs).await?;
        concerned += moves.seqs.len() as u64;
    }
    Ok(concerned)
}

/// How many events of one subscription wait for its consumer, as `Shift::is_waiting` says.
async fn waiting(conn: &mut Conn, consumer: &str, topic: &str, via: Via) -> Result<u64> {
    let rows = text!(
        "SELECT count(DISTINCT d.event_seq) FROM postrider_delivery d JOIN postrider_event e ON e.seq = d.event_seq \
         WHERE ((d.lane = $1 AND d.target = '') OR (d.lane = 'rabbitmq' AND d.target = $2)) AND ",
        is_alive!(),
        " AND ($3 = '*' OR e.topic = $4) AND NOT EXISTS (SELECT 1 FROM postrider_subscription s WHERE s.consumer = $5 \
         AND NOT s.removed AND s.topic <> $6 AND s.topic IN (e.topic, '*'))"
    );
    let rows =
        sqlx::query_scalar(rows).bind(consumer).bind(consumer).bind(topic).bind(topic).bind(consumer).bind(topic);
    let mut waiting: i64 = rows.fetch_one(&mut *conn).await?;
    if !via.has_own_lane() {
        let owed = text!(
            "SELECT count(*) FROM postrider_consumption c JOIN postrider_event e ON e.seq = c.event_seq \
             WHERE c.consumer = $1 AND c.attempt = 0 AND (e.expire_at IS NULL OR e.expire_at > ",
            now!(),
            ") AND NOT EXISTS (SELECT 1 FROM postrider_status t WHERE t.event_seq = c.event_seq AND t.expired_at IS NOT NULL) \
             AND NOT EXISTS (SELECT 1 FROM postrider_consumption o WHERE o.event_seq = c.event_seq \
             AND o.consumer = c.consumer AND o.success) \
             AND (SELECT o.attempt = 0 OR o.will_retry FROM postrider_consumption o WHERE o.event_seq = c.event_seq \
             AND o.consumer = c.consumer ORDER BY o.attempt DESC LIMIT 1) \
             AND NOT EXISTS (SELECT 1 FROM postrider_delivery d WHERE d.event_seq = c.event_seq \
             AND ((d.lane = $2 AND d.target = '') OR (d.lane = 'rabbitmq' AND d.target = $3))) \
             AND ($4 = '*' OR e.topic = $5) AND NOT EXISTS (SELECT 1 FROM postrider_subscription s WHERE s.consumer = $6 \
             AND NOT s.removed AND s.topic <> $7 AND s.topic IN (e.topic, '*'))"
        );
        let owed = sqlx::query_scalar(owed).bind(consumer).bind(consumer).bind(consumer).bind(topic).bind(topic);
        let owed: i64 = owed.bind(consumer).bind(topic).fetch_one(conn).await?;
        waiting += owed;
    }
    Ok(waiting.unsigned_abs())
}
