//! A consumer gets another name.

use super::audit::commit;
use super::change::lock_changes;
use super::{Conn, SqlStore};
use crate::error::{Error, Result};
use crate::redrive::Refusal;
use crate::store::Renamed;
use crate::store::audit::Change;
use crate::store::decide::{Lookup, NameUse, Renaming, decide_rename};
use crate::store::sql::is_duplicate;

impl SqlStore {
    /// Deliveries are moved before the inbox and the attempts. A consumer's transaction that ended before has its rows moved by
    /// the later statements; one that ends after finds its delivery in another lane, and is rolled back.
    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<Renamed> {
        let mut tx = self.write().await?;
        // The roll-up would write lookups under the old name.
        lock_changes(&mut tx).await?;
        let (old, new) = (name_use(&mut tx, from).await?, name_use(&mut tx, to).await?);
        let renaming = match decide_rename(from, &old, to, &new) {
            Ok(renaming) => renaming,
            Err(refusal) => {
                tx.rollback().await?;
                return Err(Error::Refused(refusal));
            }
        };
        let mut renamed = Renamed::default();
        if renaming == Renaming::WithSubscriptions {
            renamed.subscriptions = move_subscriptions(&mut tx, from, to).await?;
        }
        let deliveries = text!("UPDATE postrider_delivery SET lane = $1 WHERE lane = $2");
        renamed.deliveries = move_rows(&mut tx, deliveries, from, to).await?;
        let inbox = text!("UPDATE postrider_inbox SET consumer = $1 WHERE consumer = $2");
        renamed.received = move_rows(&mut tx, inbox, from, to).await?;
        let repeats = text!("UPDATE postrider_repeat SET consumer = $1 WHERE consumer = $2");
        move_rows(&mut tx, repeats, from, to).await?;
        // Attempt 0 first: a report locks it before it appends. After that no report is appended under the old name.
        let expected = text!("UPDATE postrider_consumption SET consumer = $1 WHERE consumer = $2 AND attempt = 0");
        let attempts = text!("UPDATE postrider_consumption SET consumer = $1 WHERE consumer = $2");
        renamed.attempts = move_rows(&mut tx, expected, from, to).await?;
        renamed.attempts += move_rows(&mut tx, attempts, from, to).await?;
        move_pause(&mut tx, from, to).await?;
        move_lookups(&mut tx, from, to).await?;
        commit(tx, &Change::renamed(from, to, &renamed)).await?;
        Ok(renamed)
    }
}

async fn name_use(conn: &mut Conn, consumer: &str) -> Result<NameUse> {
    let query = sqlx::query_as(text!(
        "SELECT EXISTS (SELECT 1 FROM postrider_subscription WHERE consumer = $1 AND NOT removed), \
         EXISTS (SELECT 1 FROM postrider_subscription WHERE consumer = $2 AND NOT removed AND via = 'rabbitmq'), \
         EXISTS (SELECT 1 FROM postrider_delivery WHERE lane = $3), \
         EXISTS (SELECT 1 FROM postrider_inbox WHERE consumer = $4)"
    ));
    let (subscribed, by_broker, delivered, received): (bool, bool, bool, bool) =
        query.bind(consumer).bind(consumer).bind(consumer).bind(consumer).fetch_one(conn).await?;
    Ok(NameUse { subscribed, by_broker, delivered, received })
}

/// Copies the subscriptions, and keeps the old ones as removed: the old program does not bring them back.
async fn move_subscriptions(conn: &mut Conn, from: &str, to: &str) -> Result<u64> {
    let topics = sqlx::query_scalar(text!("SELECT topic FROM postrider_subscription WHERE consumer = $1"));
    let topics: Vec<String> = topics.bind(from).fetch_all(&mut *conn).await?;
    for topic in &topics {
        // The new name has removed subscriptions only.
        let forget = text!("DELETE FROM postrider_subscription WHERE topic = $1 AND consumer = $2 AND removed");
        sqlx::query(forget).bind(topic).bind(to).execute(&mut *conn).await?;
        let copy = text!(
            "INSERT INTO postrider_subscription (topic, consumer, enabled, removed, sort_order, description, via, endpoint, \
             exchange, routing_key, rate_per_second, timeout_seconds, max_attempts, created_at, updated_at) \
             SELECT topic, $1, enabled, removed, sort_order, description, via, endpoint, exchange, routing_key, \
             rate_per_second, timeout_seconds, max_attempts, created_at, ",
            now!(),
            " FROM postrider_subscription WHERE topic = $2 AND consumer = $3"
        );
        let copied = sqlx::query(copy).bind(to).bind(topic).bind(from).execute(&mut *conn).await;
        copied.map_err(|error| in_use(error, to))?;
    }
    let forget = text!("DELETE FROM postrider_webhook_secret WHERE consumer = $1");
    sqlx::query(forget).bind(to).execute(&mut *conn).await?;
    let carry = text!("UPDATE postrider_webhook_secret SET consumer = $1 WHERE consumer = $2");
    move_rows(&mut *conn, carry, from, to).await?;
    let remove = text!(
        "UPDATE postrider_subscription SET removed = true, enabled = false, updated_at = ",
        now!(),
        " WHERE consumer = $1 AND NOT removed"
    );
    sqlx::query(remove).bind(from).execute(conn).await?;
    Ok(topics.len() as u64)
}

async fn move_rows(conn: &mut Conn, sql: &'static str, from: &str, to: &str) -> Result<u64> {
    let moved = sqlx::query(sql).bind(to).bind(from).execute(conn).await;
    Ok(moved.map_err(|error| in_use(error, to))?.rows_affected())
}

async fn move_pause(conn: &mut Conn, from: &str, to: &str) -> Result<()> {
    let paused = sqlx::query(text!("SELECT 1 FROM postrider_pause WHERE lane = $1")).bind(from);
    if paused.fetch_optional(&mut *conn).await?.is_some() {
        sqlx::query(text!("DELETE FROM postrider_pause WHERE lane = $1")).bind(to).execute(&mut *conn).await?;
        move_rows(conn, text!("UPDATE postrider_pause SET lane = $1 WHERE lane = $2"), from, to).await?;
    }
    Ok(())
}

/// Lists by consumer find old events under the new name.
async fn move_lookups(conn: &mut Conn, from: &str, to: &str) -> Result<()> {
    let (old, new) = (Lookup::Consumer(from).hash(), Lookup::Consumer(to).hash());
    let copy = text!(
        "INSERT INTO postrider_lookup (hash, event_seq) SELECT $1, o.event_seq FROM postrider_lookup o WHERE o.hash = $2 \
         AND NOT EXISTS (SELECT 1 FROM postrider_lookup n WHERE n.hash = $3 AND n.event_seq = o.event_seq)"
    );
    sqlx::query(copy).bind(new).bind(old).bind(new).execute(&mut *conn).await?;
    sqlx::query(text!("DELETE FROM postrider_lookup WHERE hash = $1")).bind(old).execute(conn).await?;
    Ok(())
}

/// A row that the new name has already: the two names are two consumers of the same event.
fn in_use(error: sqlx::Error, to: &str) -> Error {
    if is_duplicate(&error) { Error::Refused(Refusal::NameInUse(to.into())) } else { error.into() }
}
