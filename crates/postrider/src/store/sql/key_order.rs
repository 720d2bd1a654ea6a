//! Keys behind dead deliveries.

use async_trait::async_trait;

use super::audit::commit;
use super::redrives::free_followers;
use super::{Conn, SqlStore, Time, time};
use crate::error::Result;
use crate::store::audit::Change;
use crate::store::key_order::{DeadRows, FOLLOWERS, LOOKED_AT, check};
use crate::store::sql::retrying;
use crate::store::{DeadHead, DeadKey, KeyFront, KeyOrder, Wakeups};

/// Deliveries of one key, by its index.
macro_rules! of_key {
    () => {
        concat!("postrider_delivery d", by_key!(), " WHERE d.lane = $1 AND d.event_key = $2 ")
    };
}

#[async_trait]
impl KeyOrder for SqlStore {
    async fn set_dead_head(&self, lane: &str, key: &str, rule: DeadHead) -> Result<Option<DeadKey>> {
        check(lane, key)?;
        let changed = retrying(|| self.set_dead_head_once(lane, key, rule)).await?;
        if let Some(changed) = &changed {
            // The relays of this process need not wait for their next look.
            self.wake().poke(&changed.event_id, &changed.topic);
        }
        Ok(changed)
    }

    async fn dead_keys(&self, lane: &str, limit: u32) -> Result<Vec<DeadKey>> {
        let keys: Vec<(String, i64)> = sqlx::query_as(text!(
            "SELECT event_key, min(event_seq) FROM (SELECT event_key, event_seq FROM postrider_delivery",
            by_dead!(),
            " WHERE lane = $1 AND ",
            is_dead!(),
            " AND event_key IS NOT NULL LIMIT $2) d GROUP BY event_key ORDER BY min(event_seq) LIMIT $3"
        ))
        .bind(lane)
        .bind(LOOKED_AT)
        .bind(i64::from(limit))
        .fetch_all(self.reader())
        .await?;
        let mut conn = self.snapshot().await?;
        let mut found = Vec::with_capacity(keys.len());
        for (key, _) in keys {
            found.extend(dead_key(&mut conn, lane, &key).await?);
        }
        Ok(found)
    }

    async fn key_front(&self, lane: &str, key: &str, sequence: i64, rule: DeadHead) -> Result<Option<KeyFront>> {
        let mut conn = self.snapshot().await?;
        let first = sqlx::query_as(text!(
            "SELECT d.event_seq, NOT ",
            is_alive!(),
            " FROM ",
            of_key!(),
            "AND d.event_seq < $3 AND (",
            is_alive!(),
            " OR $4 AND d.skipped_at IS NULL) ORDER BY d.event_seq LIMIT 1"
        ));
        let first = first.bind(lane).bind(key).bind(sequence).bind(rule == DeadHead::Hold);
        let first: Option<(i64, bool)> = first.fetch_optional(&mut *conn).await?;
        let Some((seq, dead)) = first else { return Ok(None) };
        let ahead = sqlx::query_scalar(text!(
            "SELECT count(*) FROM (SELECT 1 AS one FROM ",
            of_key!(),
            "AND d.event_seq < $3 AND ",
            is_alive!(),
            " LIMIT $4) d"
        ));
        let ahead: i64 = ahead.bind(lane).bind(key).bind(sequence).bind(FOLLOWERS).fetch_one(&mut *conn).await?;
        let event = event_of(&mut conn, seq).await?;
        Ok(event.map(|(event_id, topic)| KeyFront { event_id, topic, dead, ahead: small(ahead) }))
    }
}

impl SqlStore {
    async fn set_dead_head_once(&self, lane: &str, key: &str, rule: DeadHead) -> Result<Option<DeadKey>> {
        let mut tx = self.write().await?;
        // A claim that finds one of them locked parks nothing behind it.
        let lock = text!(
            "SELECT d.event_seq, d.id FROM ",
            of_key!(),
            "AND NOT ",
            is_alive!(),
            " ORDER BY d.event_seq, d.id",
            for_update!()
        );
        let dead: Vec<(i64, i64)> = sqlx::query_as(lock).bind(lane).bind(key).fetch_all(&mut *tx).await?;
        let Some((first, _)) = dead.first() else {
            tx.rollback().await?;
            return Ok(None);
        };
        let before = rows_of(&mut tx, lane, key).await?.rule();
        if before == rule {
            let unchanged = dead_key(&mut tx, lane, key).await?;
            tx.rollback().await?;
            return Ok(unchanged);
        }
        let change = match rule {
            DeadHead::Skip => text!(
                "UPDATE postrider_delivery SET skipped_at = ",
                now!(),
                " WHERE event_seq = $1 AND id = $2 AND skipped_at IS NULL"
            ),
            DeadHead::Hold => {
                text!("UPDATE postrider_delivery SET skipped_at = NULL WHERE event_seq = $1 AND id = $2")
            }
        };
        for (seq, id) in &dead {
            sqlx::query(change).bind(seq).bind(id).execute(&mut *tx).await?;
        }
        if rule == DeadHead::Skip {
            free_followers(&mut tx, lane, key, *first).await?;
        }
        let Some(after) = dead_key(&mut tx, lane, key).await? else {
            tx.rollback().await?;
            return Ok(None);
        };
        commit(tx, &Change::dead_head(before, &after)).await?;
        Ok(Some(after))
    }
}

async fn dead_key(conn: &mut Conn, lane: &str, key: &str) -> Result<Option<DeadKey>> {
    let first = text!("SELECT min(d.event_seq) FROM ", of_key!(), "AND NOT ", is_alive!());
    let first: Option<i64> = sqlx::query_scalar(first).bind(lane).bind(key).fetch_one(&mut *conn).await?;
    let Some(first) = first else { return Ok(None) };
    let rows = rows_of(conn, lane, key).await?;
    let waiting = sqlx::query_scalar(text!(
        "SELECT count(*) FROM (SELECT 1 AS one FROM ",
        of_key!(),
        "AND d.event_seq > $3 AND ",
        is_alive!(),
        " LIMIT $4) d"
    ));
    let waiting: i64 = waiting.bind(lane).bind(key).bind(first).bind(FOLLOWERS).fetch_one(&mut *conn).await?;
    // An event that was removed by hand has no id.
    let event = event_of(conn, first).await?.unwrap_or_default();
    Ok(Some(rows.of_key(key.to_owned(), event, small(waiting))))
}

async fn rows_of(conn: &mut Conn, lane: &str, key: &str) -> Result<DeadRows> {
    let rows =
        text!("SELECT count(*), count(d.skipped_at), max(d.skipped_at) FROM ", of_key!(), "AND NOT ", is_alive!());
    let rows: (i64, i64, Option<Time>) = sqlx::query_as(rows).bind(lane).bind(key).fetch_one(conn).await?;
    Ok(DeadRows { dead: small(rows.0), skipped: small(rows.1), skipped_at: rows.2.map(time) })
}

async fn event_of(conn: &mut Conn, seq: i64) -> Result<Option<(String, String)>> {
    let event = sqlx::query_as(text!("SELECT event_id, topic FROM postrider_event WHERE seq = $1"));
    Ok(event.bind(seq).fetch_optional(conn).await?)
}

fn small(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
