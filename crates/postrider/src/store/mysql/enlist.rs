//! What happens on the caller's connection, inside the caller's transaction. The caller's session may be at any isolation
//! level and in any time zone: nothing here depends on either. Whatever the database ends is
//! [`Error::TransactionLost`], and nothing more is sent: the next statement would commit by itself.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use sqlx::MySql;
use sqlx::mysql::{MySqlArguments, MySqlConnection};
use sqlx::query::Query;

use super::error::{is_known, meaning};
use super::heard::{Heard, Routes};
use super::{MySqlStore, deliveries, json, rows};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::limits;
use crate::store::batch::{self, millis};
use crate::store::sessions::Tx;
use crate::store::{Completion, Enlist, Enqueued, Handled, History, Key, KeyState, NewEvent, Receipt, Token, Unheard};

impl Enlist for MySqlStore {
    type Conn = MySqlConnection;
    type Tx = Tx<MySql>;

    async fn begin(&self) -> Result<Self::Tx> {
        self.pool.begin().await.map_err(meaning)
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(meaning)
    }

    async fn enqueue(&self, conn: &mut MySqlConnection, new: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        let distinct = batch::distinct(new)?;
        let heard = match distinct[..] {
            [] => return Ok(Vec::new()),
            [one] => Heard::of(conn, &one.envelope.topic).await,
            _ => Heard::all(conn).await,
        };
        let mut writing = Writing { conn, heard: heard.map_err(meaning)?, stored: HashMap::new(), refused: Vec::new() };
        for part in writing.heard.parts(&distinct, self.statement_bytes) {
            if part.heard || unheard == Unheard::Keep {
                writing.store(part).await?;
            }
        }
        let known = writing.known(&distinct).await?;
        batch::answers(new, writing.stored, &known, unheard)
    }

    async fn receive(&self, conn: &mut MySqlConnection, receipt: &Receipt<'_>) -> Result<bool> {
        let query = sqlx::query(sql!("receive"))
            .bind(receipt.consumer)
            .bind(receipt.event_id)
            .bind(receipt.topic)
            .bind(receipt.tenant_id)
            .bind(receipt.idempotency_key);
        is_new(query.execute(conn).await.map(|_| ()))
    }

    async fn receive_many(&self, conn: &mut MySqlConnection, receipts: &[Receipt<'_>]) -> Result<Vec<bool>> {
        let mut distinct: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (n, receipt) in receipts.iter().enumerate() {
            // Told twice in this very batch, it is received once.
            distinct.entry((receipt.consumer, receipt.event_id)).or_insert(n);
        }
        let mut received = vec![false; receipts.len()];
        let rows: Vec<_> = distinct
            .values()
            .map(|n| &receipts[*n])
            .map(|r| (r.consumer, r.event_id, r.topic, r.tenant_id, r.idempotency_key))
            .collect();
        let written = sqlx::query(sql!("receive_many")).bind(json(&rows)?).execute(&mut *conn).await;
        if is_new(written.map(|_| ()))? {
            distinct.values().for_each(|n| received[*n] = true);
            return Ok(received);
        }
        for n in distinct.into_values() {
            received[n] = self.receive(&mut *conn, &receipts[n]).await?;
        }
        Ok(received)
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
        match all_received(conn, consumer, handled).await? {
            true => Ok(()),
            false => Err(Error::not_received()),
        }
    }

    async fn begin_key(
        &self,
        conn: &mut MySqlConnection,
        key: &Key<'_>,
        fingerprint: &[u8],
        lease: Duration,
    ) -> Result<KeyState> {
        let token = Token::fresh();
        // A key that is there needs no conflict, which would wait for whoever has a transaction open on it.
        let find = sqlx::query(sql!("find_key")).bind(key.scope).bind(key.key);
        let is_there = find.fetch_optional(&mut *conn).await.map_err(meaning)?.is_some();
        if !is_there {
            let begin = sqlx::query(sql!("begin_key")).bind(key.scope).bind(key.key).bind(fingerprint).bind(token.0);
            if is_new(begin.bind(millis(lease)).execute(&mut *conn).await.map(|_| ()))? {
                return Ok(KeyState::Begun(token));
            }
        }
        let lock = sqlx::query(sql!("take_over_key_lock")).bind(key.scope).bind(key.key).bind(fingerprint);
        if lock.fetch_optional(&mut *conn).await.map_err(meaning)?.is_some() {
            let take =
                sqlx::query(sql!("take_over_key")).bind(token.0).bind(millis(lease)).bind(key.scope).bind(key.key);
            take.execute(conn).await.map_err(meaning)?;
            return Ok(KeyState::TakenOver(token));
        }
        let find = sqlx::query(if is_there { sql!("find_key") } else { sql!("find_key_newest") });
        let row = find.bind(key.scope).bind(key.key).fetch_optional(conn).await.map_err(meaning)?;
        match row {
            Some(row) => rows::key_state(&row, fingerprint),
            // Pruned in between: free again, and the next to ask gets it.
            None => Ok(KeyState::InProgress),
        }
    }

    async fn complete_key(
        &self,
        conn: &mut MySqlConnection,
        key: &Key<'_>,
        token: Token,
        result: &str,
    ) -> Result<bool> {
        end_key(conn, sql!("complete_key"), key, token, result).await
    }

    async fn fail_key(&self, conn: &mut MySqlConnection, key: &Key<'_>, token: Token, error: &str) -> Result<bool> {
        end_key(conn, sql!("fail_key"), key, token, &limits::error_text(error)).await
    }

    async fn join_key(
        &self,
        conn: &mut MySqlConnection,
        key: &Key<'_>,
        token: Token,
        lease: Duration,
    ) -> Result<Option<Token>> {
        let joined = Token::fresh();
        let query = sqlx::query(sql!("join_key")).bind(joined.0).bind(millis(lease)).bind(key.scope).bind(key.key);
        let rows = query.bind(token.0).execute(conn).await.map_err(meaning)?.rows_affected();
        Ok((rows == 1).then_some(joined))
    }

    async fn extend_key(
        &self,
        conn: &mut MySqlConnection,
        key: &Key<'_>,
        token: Token,
        lease: Duration,
    ) -> Result<bool> {
        let query = sqlx::query(sql!("extend_key")).bind(millis(lease)).bind(key.scope).bind(key.key).bind(token.0);
        Ok(query.execute(conn).await.map_err(meaning)?.rows_affected() == 1)
    }
}

/// Events on their way into the caller's transaction.
struct Writing<'c> {
    conn: &'c mut MySqlConnection,
    heard: Heard,
    /// What was stored, and whether somebody hears it.
    stored: HashMap<String, bool>,
    /// What the index refused, because it was there.
    refused: Vec<String>,
}

/// Consecutive events of a batch that all have a subscriber, or all have none, and fit into one statement.
pub(super) struct Part<'a, 'b> {
    pub(super) events: &'b [&'a NewEvent],
    pub(super) heard: bool,
}

impl Writing<'_> {
    async fn store(&mut self, Part { events, heard }: Part<'_, '_>) -> Result<()> {
        let mut stored: Vec<(i64, &NewEvent)> = Vec::with_capacity(events.len());
        if events.len() > 1 && self.store_all(events, heard).await? {
            let ids: Vec<_> = events.iter().map(|new| new.envelope.event_id.as_str()).collect();
            let seqs: Vec<(String, i64)> = sqlx::query_as(sql!("find_seqs"))
                .bind(json(&ids)?)
                .fetch_all(&mut *self.conn)
                .await
                .map_err(meaning)?;
            let seqs: HashMap<_, _> = seqs.into_iter().collect();
            stored.extend(events.iter().filter_map(|new| Some((*seqs.get(new.envelope.event_id.as_str())?, *new))));
        } else {
            for new in events {
                match enqueue_one(new, heard).execute(&mut *self.conn).await {
                    Ok(written) => stored.push((i64::try_from(written.last_insert_id()).unwrap_or(i64::MAX), new)),
                    Err(error) if is_known(&error) => self.refused.push(new.envelope.event_id.to_string()),
                    Err(error) => return Err(meaning(error)),
                }
            }
        }
        self.deliver(&stored).await?;
        let ids = stored.iter().map(|(_, new)| new.envelope.event_id.to_string());
        self.stored.extend(ids.map(|id| (id, heard)));
        Ok(())
    }

    /// One statement for all. False: one of them was there, and none was written.
    async fn store_all(&mut self, events: &[&NewEvent], heard: bool) -> Result<bool> {
        let query = sqlx::query(sql!("enqueue_many")).bind(heard).bind(batch::events(events)?);
        is_new(query.execute(&mut *self.conn).await.map(|_| ()))
    }

    async fn deliver(&mut self, stored: &[(i64, &NewEvent)]) -> Result<()> {
        let mut routes = Routes::default();
        for (seq, new) in stored {
            self.heard.route(*seq, &new.envelope.topic, new.envelope.shard(), &mut routes);
        }
        match (&routes.deliveries[..], stored) {
            ([], _) => {}
            // Most events have one lane.
            ([one], [(_, new)]) => {
                let query = sqlx::query(sql!("deliver")).bind(one.seq).bind(one.lane).bind(one.shard);
                let query = query.bind(u8::from(new.envelope.key.is_some())).bind(&new.envelope.key);
                let query = query.bind(new.delay.map(millis)).bind(new.envelope.deliver_at);
                query.execute(&mut *self.conn).await.map_err(meaning)?;
            }
            _ => {
                let query = sqlx::query(sql!("deliver_many")).bind(json(&routes.deliveries)?);
                query.execute(&mut *self.conn).await.map_err(meaning)?;
            }
        }
        if !routes.expected.is_empty() {
            let query = sqlx::query(sql!("expect")).bind(json(&routes.expected)?);
            query.execute(&mut *self.conn).await.map_err(meaning)?;
        }
        Ok(())
    }

    /// Those of the events that were there before.
    async fn known(&mut self, distinct: &[&NewEvent]) -> Result<HashMap<String, Envelope>> {
        let missing = batch::missing(distinct, &self.stored);
        if missing.is_empty() {
            return Ok(HashMap::new());
        }
        let query = sqlx::query(sql!("find_many")).bind(json(&missing)?);
        let found = query.fetch_all(&mut *self.conn).await.map_err(meaning)?;
        let mut known: HashMap<_, _> = found.iter().map(rows::known).collect::<Result<_>>()?;
        for id in self.refused.iter().filter(|id| !known.contains_key(*id)).collect::<Vec<_>>() {
            // Committed after the caller's snapshot was taken.
            let query = sqlx::query(sql!("find_newest")).bind(id);
            if let Some(row) = query.fetch_optional(&mut *self.conn).await.map_err(meaning)? {
                known.extend([rows::known(&row)?]);
            }
        }
        Ok(known)
    }
}

/// Whether an `INSERT` has written, or found what it wanted to write.
fn is_new(written: sqlx::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if is_known(&error) => Ok(false),
        Err(error) => Err(meaning(error)),
    }
}

async fn complete_one(conn: &mut MySqlConnection, completion: &Completion<'_>) -> Result<()> {
    for one in completion.completed {
        let proof = sqlx::query(sql!("complete"))
            .bind(one.result)
            .bind(completion.consumer)
            .bind(one.event_id)
            .bind(one.delivery.number)
            .bind(completion.token.0);
        let removal = sqlx::query(sql!("complete_delivery")).bind(one.delivery.number).bind(completion.token.0);
        for step in [proof, removal] {
            if step.execute(&mut *conn).await.map_err(meaning)?.rows_affected() != 1 {
                return Err(Error::LeaseLost);
            }
        }
        if completion.history == History::Keep {
            let (seq, consumer) = (one.delivery.sequence, completion.consumer);
            let query = sqlx::query(sql!("append_success")).bind(seq).bind(consumer).bind(seq).bind(consumer);
            query.execute(&mut *conn).await.map_err(meaning)?;
            sqlx::query(sql!("mark_one")).bind(seq).execute(&mut *conn).await.map_err(meaning)?;
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
    let settled = deliveries::settle_held(conn, completion.token, &wanted, completion.history).await?;
    match settled.len() == wanted.len() {
        true => Ok(()),
        false => Err(Error::LeaseLost),
    }
}

/// Keeps the results, and says whether every inbox row of this transaction is really there.
async fn all_received(conn: &mut MySqlConnection, consumer: &str, handled: &[Handled<'_>]) -> Result<bool> {
    let results: Vec<_> = handled.iter().filter_map(|one| Some((one.event_id, one.result?))).collect();
    if !results.is_empty() {
        let query = sqlx::query(sql!("keep_results")).bind(json(&results)?).bind(consumer);
        query.execute(&mut *conn).await.map_err(meaning)?;
    }
    let event_ids: Vec<_> = handled.iter().map(|one| one.event_id).collect();
    let count = sqlx::query_scalar(sql!("count_received")).bind(json(&event_ids)?).bind(consumer);
    let received: i64 = count.fetch_one(conn).await.map_err(meaning)?;
    Ok(received.unsigned_abs() == event_ids.len() as u64)
}

async fn end_key(
    conn: &mut MySqlConnection,
    sql: &'static str,
    key: &Key<'_>,
    token: Token,
    text: &str,
) -> Result<bool> {
    let query = sqlx::query(sql).bind(text).bind(key.scope).bind(key.key).bind(token.0);
    Ok(query.execute(conn).await.map_err(meaning)?.rows_affected() == 1)
}

fn enqueue_one(new: &NewEvent, heard: bool) -> Query<'_, MySql, MySqlArguments> {
    let event = &new.envelope;
    sqlx::query(sql!("enqueue"))
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
        .bind((!heard).then_some(&event.topic))
}

impl Heard {
    /// Cuts a batch into parts; nearly always there is one.
    pub(super) fn parts<'a, 'b>(&self, mut batch: &'b [&'a NewEvent], most_bytes: usize) -> Vec<Part<'a, 'b>> {
        let mut parts = Vec::new();
        while let Some(first) = batch.first() {
            let heard = self.is_heard(&first.envelope.topic);
            let mut bytes = 0;
            let fitting = batch.iter().take_while(|new| {
                bytes += size(new);
                bytes <= most_bytes && self.is_heard(&new.envelope.topic) == heard
            });
            let (events, rest) = batch.split_at(fitting.count().max(1));
            parts.push(Part { events, heard });
            batch = rest;
        }
        parts
    }
}

/// About how many bytes an event has.
fn size(new: &NewEvent) -> usize {
    /// Ids, names, times, and the names of them all.
    const REST: usize = 2 * 1024;
    new.envelope.payload.len()
        + new.envelope.metadata.as_deref().map_or(0, str::len)
        + limits::INITIATOR_BYTES / 4
        + REST
}
