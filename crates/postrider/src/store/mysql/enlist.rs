//! Operations on the caller's connection, inside the caller's transaction. The caller's session may have any
//! isolation level and any time zone. After the database has ended the transaction, the result is
//! [`Error::TransactionLost`] and nothing more is sent: with autocommit the next statement would be committed.

use std::collections::{BTreeMap, HashMap};

use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlDatabaseError};
use sqlx::query::Query;
use sqlx::{Connection, Executor, MySql};

use super::roles::records::by_id;
use super::subscribers::{Routes, Subscribers};
use super::{MySqlStore, deliveries};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::limits;
use crate::store::batch::{self, millis};
use crate::store::sessions::Tx;
use crate::store::sql::{is_duplicate, is_new, json};
use crate::store::{Completion, Enlist, Enqueued, Handled, History, NewEvent, Receipt, Unheard};

impl Enlist for MySqlStore {
    type Conn = MySqlConnection;
    type Tx = Tx<MySql>;

    async fn begin(&self) -> Result<Self::Tx> {
        Ok(self.transactions.begin().await?)
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        Ok(tx.commit().await?)
    }

    async fn enqueue(&self, conn: &mut MySqlConnection, new: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        require_transaction(conn).await?;
        let distinct = batch::distinct(new)?;
        let subscribers = match distinct[..] {
            [] => return Ok(Vec::new()),
            [one] => Subscribers::of(conn, &one.envelope.topic).await,
            _ => Subscribers::all(conn).await,
        };
        let mut writing = Writing { conn, subscribers: subscribers?, stored: HashMap::new(), refused: Vec::new() };
        for part in writing.subscribers.parts(&distinct, self.statement_bytes) {
            if part.subscribed || unheard == Unheard::Keep {
                writing.store(part).await?;
            }
        }
        let known = writing.known(&distinct).await?;
        batch::answers(new, writing.stored, &known, unheard)
    }

    async fn receive(&self, conn: &mut MySqlConnection, receipt: &Receipt<'_>) -> Result<bool> {
        let query = sqlx::query(sql!("inbox/receive"))
            .bind(receipt.consumer)
            .bind(receipt.event_id)
            .bind(receipt.topic)
            .bind(receipt.tenant_id)
            .bind(receipt.idempotency_key);
        is_new(query.execute(conn).await)
    }

    async fn receive_many(&self, conn: &mut MySqlConnection, receipts: &[Receipt<'_>]) -> Result<Vec<bool>> {
        let mut distinct: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (n, receipt) in receipts.iter().enumerate() {
            // A duplicate within the batch is received once.
            distinct.entry((receipt.consumer, receipt.event_id)).or_insert(n);
        }
        let mut received = vec![false; receipts.len()];
        let rows: Vec<_> = distinct
            .values()
            .map(|n| &receipts[*n])
            .map(|r| (r.consumer, r.event_id, r.topic, r.tenant_id, r.idempotency_key))
            .collect();
        let written = sqlx::query(sql!("inbox/receive_many")).bind(json(&rows)?).execute(&mut *conn).await;
        if is_new(written)? {
            distinct.values().for_each(|n| received[*n] = true);
            return Ok(received);
        }
        for n in distinct.into_values() {
            received[n] = self.receive(&mut *conn, &receipts[n]).await?;
        }
        Ok(received)
    }

    async fn note_repeat(&self, conn: &mut MySqlConnection, consumer: &str, event_id: &str) -> Result<()> {
        sqlx::query(sql!("promises/note_repeat")).bind(consumer).bind(event_id).execute(conn).await?;
        Ok(())
    }

    async fn keep_key(&self, conn: &mut MySqlConnection, consumer: &str, event_id: &str, key: &str) -> Result<()> {
        let keep = text!("UPDATE postrider_inbox SET idempotency_key = $1 WHERE consumer = $2 AND event_id = $3");
        sqlx::query(keep).bind(key).bind(consumer).bind(event_id).execute(conn).await?;
        Ok(())
    }

    async fn complete(&self, conn: &mut MySqlConnection, completion: &Completion<'_>) -> Result<()> {
        match completion.completed {
            [_] => complete_one(conn, completion).await,
            _ => complete_many(conn, completion).await,
        }
    }

    async fn confirm_received(
        &self,
        conn: &mut MySqlConnection,
        consumer: &str,
        handled: &[Handled<'_>],
    ) -> Result<()> {
        if all_received(conn, consumer, handled).await? { Ok(()) } else { Err(Error::not_received()) }
    }
}

/// Refuses a connection without a transaction. sqlx knows of those that it began; one that began with plain SQL is
/// known to the server only. Outside a transaction a savepoint ends with its own statement.
async fn require_transaction(conn: &mut MySqlConnection) -> Result<()> {
    /// The savepoint does not exist.
    const GONE: u16 = 1305;
    if conn.is_in_transaction() {
        return Ok(());
    }
    conn.execute("SAVEPOINT postrider_probe").await?;
    match conn.execute("RELEASE SAVEPOINT postrider_probe").await {
        Err(sqlx::Error::Database(e))
            if e.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|e| e.number() == GONE) =>
        {
            Err(Error::NoTransaction)
        }
        released => Ok(released.map(drop)?),
    }
}

/// A batch that is being written in the caller's transaction.
struct Writing<'c> {
    conn: &'c mut MySqlConnection,
    subscribers: Subscribers,
    /// The stored ids, and whether each has a subscriber.
    stored: HashMap<String, bool>,
    /// The ids that the unique index refused.
    refused: Vec<String>,
}

/// Consecutive events of a batch that all have a subscriber, or all have none, and fit into one statement.
pub(super) struct Part<'a, 'b> {
    pub(super) events: &'b [&'a NewEvent],
    pub(super) subscribed: bool,
}

impl Writing<'_> {
    async fn store(&mut self, Part { events, subscribed }: Part<'_, '_>) -> Result<()> {
        let mut stored: Vec<(i64, &NewEvent)> = Vec::with_capacity(events.len());
        if events.len() > 1 && self.store_all(events, subscribed).await? {
            let ids: Vec<_> = events.iter().map(|new| new.envelope.event_id.as_str()).collect();
            let seqs: Vec<(String, i64)> =
                sqlx::query_as(sql!("events/find_seqs")).bind(json(&ids)?).fetch_all(&mut *self.conn).await?;
            let seqs: HashMap<_, _> = seqs.into_iter().collect();
            stored.extend(events.iter().filter_map(|new| Some((*seqs.get(new.envelope.event_id.as_str())?, *new))));
        } else {
            for new in events {
                match enqueue_one(new, subscribed).execute(&mut *self.conn).await {
                    Ok(written) => stored.push((i64::try_from(written.last_insert_id()).unwrap_or(i64::MAX), new)),
                    Err(error) if is_duplicate(&error) => self.refused.push(new.envelope.event_id.to_string()),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.deliver(&stored).await?;
        let ids = stored.iter().map(|(_, new)| new.envelope.event_id.to_string());
        self.stored.extend(ids.map(|id| (id, subscribed)));
        Ok(())
    }

    /// Writes all of them in one statement. Returns false, and writes nothing, if one of them exists.
    async fn store_all(&mut self, events: &[&NewEvent], subscribed: bool) -> Result<bool> {
        let query = sqlx::query(sql!("events/enqueue_many")).bind(subscribed).bind(batch::events(events)?);
        is_new(query.execute(&mut *self.conn).await)
    }

    async fn deliver(&mut self, stored: &[(i64, &NewEvent)]) -> Result<()> {
        let mut routes = Routes::default();
        for (seq, new) in stored {
            self.subscribers.route(*seq, &new.envelope.topic, new.envelope.shard(), &mut routes);
        }
        match (&routes.deliveries[..], stored) {
            ([], _) => {}
            // Most events have one lane.
            ([one], [(_, new)]) => {
                let query = sqlx::query(sql!("events/deliver")).bind(one.seq).bind(one.lane).bind(one.shard);
                let query = query.bind(u8::from(new.envelope.key.is_some())).bind(&new.envelope.key);
                let query = query.bind(new.delay.map(millis)).bind(new.envelope.deliver_at);
                query.execute(&mut *self.conn).await?;
            }
            _ => {
                let query = sqlx::query(sql!("events/deliver_many")).bind(json(&routes.deliveries)?);
                query.execute(&mut *self.conn).await?;
            }
        }
        if !routes.expected.is_empty() {
            let query = sqlx::query(sql!("events/expect")).bind(json(&routes.expected)?);
            query.execute(&mut *self.conn).await?;
        }
        Ok(())
    }

    /// The events that existed before.
    async fn known(&mut self, distinct: &[&NewEvent]) -> Result<HashMap<String, Envelope>> {
        let missing = batch::missing(distinct, &self.stored);
        if missing.is_empty() {
            return Ok(HashMap::new());
        }
        let query = sqlx::query(sql!("events/find_many")).bind(json(&missing)?);
        let found = query.fetch_all(&mut *self.conn).await?;
        let mut known: HashMap<_, _> = found.iter().map(by_id).collect::<Result<_>>()?;
        for id in self.refused.iter().filter(|id| !known.contains_key(*id)).collect::<Vec<_>>() {
            // It was committed after the caller's snapshot was taken.
            let query = sqlx::query(sql!("events/find_newest")).bind(id);
            if let Some(row) = query.fetch_optional(&mut *self.conn).await? {
                known.extend([by_id(&row)?]);
            }
        }
        Ok(known)
    }
}

async fn complete_one(conn: &mut MySqlConnection, completion: &Completion<'_>) -> Result<()> {
    for one in completion.completed {
        let proof = sqlx::query(sql!("inbox/complete"))
            .bind(one.result)
            .bind(completion.consumer)
            .bind(one.event_id)
            .bind(one.delivery.number)
            .bind(completion.token.0)
            .bind(completion.consumer);
        let removal = sqlx::query(sql!("inbox/complete_delivery"))
            .bind(one.delivery.number)
            .bind(completion.token.0)
            .bind(completion.consumer);
        for step in [proof, removal] {
            if step.execute(&mut *conn).await?.rows_affected() != 1 {
                return Err(Error::LeaseLost);
            }
        }
        if completion.history == History::Keep {
            let (seq, consumer) = (one.delivery.sequence, completion.consumer);
            let query = sqlx::query(sql!("events/append_success")).bind(seq).bind(consumer).bind(seq).bind(consumer);
            query.execute(&mut *conn).await?;
            let mark = sqlx::query("INSERT INTO postrider_mark (event_seq) VALUES (?)").bind(seq);
            mark.execute(&mut *conn).await?;
        }
    }
    Ok(())
}

async fn complete_many(conn: &mut MySqlConnection, completion: &Completion<'_>) -> Result<()> {
    let handled = completion.completed.iter().map(|one| Handled { event_id: one.event_id, result: one.result });
    if !all_received(conn, completion.consumer, &handled.collect::<Vec<_>>()).await? {
        return Err(Error::LeaseLost);
    }
    let wanted: Vec<_> = completion.completed.iter().map(|one| one.delivery).collect();
    let Completion { consumer, token, history, .. } = *completion;
    let settled = deliveries::settle_held(conn, Some(consumer), token, &wanted, history).await?;
    if settled.len() == wanted.len() { Ok(()) } else { Err(Error::LeaseLost) }
}

/// Stores the results, and returns whether every inbox row of this transaction exists.
async fn all_received(conn: &mut MySqlConnection, consumer: &str, handled: &[Handled<'_>]) -> Result<bool> {
    let results: Vec<_> = handled.iter().filter_map(|one| Some((one.event_id, one.result?))).collect();
    if !results.is_empty() {
        let query = sqlx::query(sql!("inbox/keep_results")).bind(json(&results)?).bind(consumer);
        query.execute(&mut *conn).await?;
    }
    let event_ids: Vec<_> = handled.iter().map(|one| one.event_id).collect();
    let count = sqlx::query_scalar(sql!("inbox/count_received")).bind(json(&event_ids)?).bind(consumer);
    let received: i64 = count.fetch_one(conn).await?;
    Ok(received.unsigned_abs() == event_ids.len() as u64)
}

fn enqueue_one(new: &NewEvent, subscribed: bool) -> Query<'_, MySql, MySqlArguments> {
    let event = &new.envelope;
    sqlx::query(sql!("events/enqueue"))
        .bind(event.event_id.as_str())
        .bind(&event.topic)
        .bind(&event.key)
        .bind(&event.payload)
        .bind(&*event.payload_type)
        .bind(batch::encoding(event.payload_encoding))
        .bind(&event.trace_id)
        .bind(&event.span_id)
        .bind(event.parent_event_id.as_ref().map(|id| id.as_str()))
        .bind(event.aggregate.as_ref().map(|aggregate| &aggregate.kind))
        .bind(event.aggregate.as_ref().map(|aggregate| &aggregate.id))
        .bind(&event.tenant_id)
        .bind(&event.store_id)
        .bind(event.initiator_json())
        .bind(event.metadata.as_deref())
        .bind(event.occurred_at)
        .bind(new.expire_after.map(millis))
        .bind(event.expire_at)
        .bind(new.delay.map(millis))
        .bind(event.deliver_at)
        .bind(event.max_attempts)
        .bind(&event.exchange)
        .bind(&event.routing_key)
        .bind((!subscribed).then_some(&event.topic))
}

impl Subscribers {
    /// Splits a batch into parts; usually there is one.
    pub(super) fn parts<'a, 'b>(&self, mut batch: &'b [&'a NewEvent], most_bytes: usize) -> Vec<Part<'a, 'b>> {
        let mut parts = Vec::new();
        while let Some(first) = batch.first() {
            let subscribed = self.has(&first.envelope.topic);
            let mut bytes = 0;
            let fitting = batch.iter().take_while(|new| {
                bytes += size(new);
                bytes <= most_bytes && self.has(&new.envelope.topic) == subscribed
            });
            let (events, rest) = batch.split_at(fitting.count().max(1));
            parts.push(Part { events, subscribed });
            batch = rest;
        }
        parts
    }
}

/// The approximate size of an event in bytes.
fn size(new: &NewEvent) -> usize {
    /// Ids, names, times, and the names of the fields.
    const REST: usize = 2 * 1024;
    new.envelope.payload.len()
        + new.envelope.metadata.as_deref().map_or(0, str::len)
        + limits::INITIATOR_BYTES / 4
        + REST
}
