//! Operations on the caller's connection, inside the caller's transaction.

use std::collections::{HashMap, HashSet};

use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{Arguments, Connection, Executor, Postgres};

use super::audience::Audience;
use super::roles::records::by_id;
use super::{PostgresStore, rows};
use crate::envelope::{Encoding, JSON};
use crate::error::{Error, Result};
use crate::store::batch::{self, millis};
use crate::store::sessions::Tx;
use crate::store::{Completion, Enlist, Enqueued, Handled, History, NewEvent, Receipt, Unheard};

impl Enlist for PostgresStore {
    type Conn = PgConnection;
    type Tx = Tx<Postgres>;

    async fn begin(&self) -> Result<Self::Tx> {
        Ok(self.transactions.begin().await?)
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        Ok(tx.commit().await?)
    }

    async fn enqueue(&self, conn: &mut PgConnection, new: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        require_transaction(conn).await?;
        if let [one] = new
            && let Some(accepted) = self.enqueue_known(conn, one).await?
        {
            return Ok(vec![accepted]);
        }
        let distinct = batch::distinct(new)?;
        let keep = unheard == Unheard::Keep;
        let rows = match distinct[..] {
            [one] => enqueue_one(one, keep).fetch_all(&mut *conn).await,
            _ => {
                sqlx::query(sql!("events/enqueue_many"))
                    .bind(batch::events(&distinct)?)
                    .bind(keep)
                    .fetch_all(&mut *conn)
                    .await
            }
        };
        let (stored, expecting) = rows::stored(&rows?)?;
        if !expecting.is_empty() {
            expect(&mut *conn, expecting).await?;
        }
        let missing = batch::missing(&distinct, &stored);
        let known = if missing.is_empty() {
            HashMap::new()
        } else {
            let found = sqlx::query(sql!("events/find_many")).bind(missing).fetch_all(conn).await?;
            found.iter().map(by_id).collect::<Result<_>>()?
        };
        batch::answers(new, stored, &known, unheard)
    }

    async fn receive(&self, conn: &mut PgConnection, receipt: &Receipt<'_>) -> Result<bool> {
        let query = sqlx::query(sql!("inbox/receive"))
            .bind(receipt.consumer)
            .bind(receipt.event_id)
            .bind(receipt.topic)
            .bind(receipt.tenant_id)
            .bind(receipt.idempotency_key);
        Ok(query.execute(conn).await?.rows_affected() == 1)
    }

    async fn receive_many(&self, conn: &mut PgConnection, receipts: &[Receipt<'_>]) -> Result<Vec<bool>> {
        let of = |text: fn(&Receipt<'_>) -> Option<String>| receipts.iter().map(text).collect::<Vec<_>>();
        let received: HashSet<(String, String)> = sqlx::query_as(sql!("inbox/receive_many"))
            .bind(of(|receipt| Some(receipt.consumer.into())))
            .bind(of(|receipt| Some(receipt.event_id.into())))
            .bind(of(|receipt| Some(receipt.topic.into())))
            .bind(of(|receipt| receipt.tenant_id.map(Into::into)))
            .bind(of(|receipt| receipt.idempotency_key.map(Into::into)))
            .fetch_all(conn)
            .await?
            .into_iter()
            .collect();
        let mut received = received;
        // A duplicate within the batch is received once.
        Ok(receipts.iter().map(|one| received.remove(&(one.consumer.into(), one.event_id.into()))).collect())
    }

    async fn note_repeat(&self, conn: &mut PgConnection, consumer: &str, event_id: &str) -> Result<()> {
        sqlx::query(sql!("promises/note_repeat")).bind(consumer).bind(event_id).execute(conn).await?;
        Ok(())
    }

    async fn keep_key(&self, conn: &mut PgConnection, consumer: &str, event_id: &str, key: &str) -> Result<()> {
        let keep = text!("UPDATE postrider_inbox SET idempotency_key = $1 WHERE consumer = $2 AND event_id = $3");
        sqlx::query(keep).bind(key).bind(consumer).bind(event_id).execute(conn).await?;
        Ok(())
    }

    async fn complete(&self, conn: &mut PgConnection, completion: &Completion<'_>) -> Result<()> {
        if let [one] = completion.completed {
            if let Some(result) = one.result {
                let query =
                    sqlx::query(sql!("inbox/keep_result")).bind(completion.consumer).bind(one.event_id).bind(result);
                query.execute(&mut *conn).await?;
            }
            let query = sqlx::query(sql!("inbox/complete"))
                .bind(completion.consumer)
                .bind(one.event_id)
                .bind(one.delivery.sequence)
                .bind(one.delivery.number)
                .bind(completion.token.0)
                .bind(completion.history == History::Keep);
            let done = query.fetch_optional(conn).await?;
            return done.map(|_| ()).ok_or(Error::LeaseLost);
        }
        let completed = completion.completed.iter();
        let handled: Vec<_> = completed.map(|one| Handled { event_id: one.event_id, result: one.result }).collect();
        if !all_received(&mut *conn, completion.consumer, &handled).await? {
            return Err(Error::LeaseLost);
        }
        let deliveries: Vec<_> = completion.completed.iter().map(|one| one.delivery).collect();
        let Completion { consumer, token, history, .. } = *completion;
        let settled = super::deliveries::settle_on(conn, consumer, token, &deliveries, history).await?;
        if settled.len() == deliveries.len() { Ok(()) } else { Err(Error::LeaseLost) }
    }

    async fn confirm_received(&self, conn: &mut PgConnection, consumer: &str, handled: &[Handled<'_>]) -> Result<()> {
        if all_received(conn, consumer, handled).await? { Ok(()) } else { Err(Error::not_received()) }
    }
}

/// Refuses a connection without a transaction. sqlx knows of those that it began; one that began with plain SQL is
/// known to the server only, which allows a savepoint inside it.
async fn require_transaction(conn: &mut PgConnection) -> Result<()> {
    if conn.is_in_transaction() {
        return Ok(());
    }
    match conn.execute("SAVEPOINT postrider_probe").await {
        Ok(_) => conn.execute("RELEASE SAVEPOINT postrider_probe").await?,
        Err(sqlx::Error::Database(e)) if e.code().as_deref() == Some("25P01") => return Err(Error::NoTransaction),
        Err(e) => return Err(e.into()),
    };
    Ok(())
}

impl PostgresStore {
    /// Stores an event with only the usual fields, for a cached audience. Returns `None` if nothing was written and
    /// `enqueue.sql` must do it.
    async fn enqueue_known(&self, conn: &mut PgConnection, new: &NewEvent) -> Result<Option<Enqueued>> {
        let event = &new.envelope;
        if !is_brief(new) {
            return Ok(None);
        }
        let Some(audience) = self.audiences.of(conn, &event.topic).await? else { return Ok(None) };
        let stored = match &audience.lanes[..] {
            [] => return Ok(None),
            [lane] if new.fresh_id && !audience.remote => {
                let query = brief(sql!("events/enqueue_fresh"), new, &audience).bind(lane);
                query.execute(conn).await?.rows_affected() > 0
            }
            lanes => {
                let query = brief(sql!("events/enqueue_known"), new, &audience).bind(lanes);
                let rows = query.fetch_all(&mut *conn).await?;
                if let Some(row) = rows.first()
                    && audience.remote
                {
                    expect(conn, vec![rows::event_seq(row)?]).await?;
                }
                !rows.is_empty()
            }
        };
        if !stored {
            self.audiences.forget(&event.topic);
            return Ok(None);
        }
        Ok(Some(Enqueued::Accepted(event.event_id.clone())))
    }
}

async fn keep_results(conn: &mut PgConnection, consumer: &str, handled: &[Handled<'_>]) -> Result<()> {
    let (with_result, results): (Vec<_>, Vec<_>) =
        handled.iter().filter_map(|one| Some((one.event_id, one.result?))).unzip();
    if !with_result.is_empty() {
        let query = sqlx::query(sql!("inbox/keep_results")).bind(consumer).bind(with_result).bind(results);
        query.execute(conn).await?;
    }
    Ok(())
}

/// Stores the results, and returns whether every inbox row exists.
async fn all_received(conn: &mut PgConnection, consumer: &str, handled: &[Handled<'_>]) -> Result<bool> {
    keep_results(conn, consumer, handled).await?;
    let event_ids: Vec<_> = handled.iter().map(|one| one.event_id).collect();
    let query = sqlx::query_scalar(sql!("inbox/count_received")).bind(consumer).bind(&event_ids);
    let received: i64 = query.fetch_one(conn).await?;
    Ok(received.unsigned_abs() == event_ids.len() as u64)
}

/// Appends attempt 0 for the remote consumers of these events that will report.
async fn expect(conn: &mut PgConnection, seqs: Vec<i64>) -> Result<()> {
    sqlx::query(sql!("events/expect_subscribers")).bind(seqs).execute(conn).await?;
    Ok(())
}

/// Whether an event has only the usual fields.
fn is_brief(new: &NewEvent) -> bool {
    let event = &new.envelope;
    event.payload_type == JSON
        && event.payload_encoding == Encoding::Plain
        && event.parent_event_id.is_none()
        && event.store_id.is_none()
        && event.metadata.is_none()
        && event.exchange.is_none()
        && event.routing_key.is_none()
        && event.max_attempts.is_none()
        && event.expire_at.is_none()
        && event.deliver_at.is_none()
        && new.expire_after.is_none()
        && new.delay.is_none()
}

/// Binds the usual fields of an event, and the version of its audience.
fn brief<'a>(sql: &'static str, new: &'a NewEvent, audience: &'a Audience) -> Query<'a, Postgres, PgArguments> {
    let event = &new.envelope;
    // Reserves room for the lane and the short fields too.
    let mut arguments = PgArguments::default();
    arguments.reserve(15, event.payload.len() + 512);
    sqlx::query_with(sql, arguments)
        .bind(event.event_id.as_str())
        .bind(&event.topic)
        .bind(&event.key)
        .bind(&event.payload)
        .bind(&event.trace_id)
        .bind(&event.span_id)
        .bind(event.aggregate.as_ref().map(|aggregate| &aggregate.kind))
        .bind(event.aggregate.as_ref().map(|aggregate| &aggregate.id))
        .bind(&event.tenant_id)
        .bind(event.initiator_json())
        .bind(event.occurred_at)
        .bind(i16::from(event.shard()))
        .bind(i16::from(event.key.is_some()))
        .bind(audience.version)
}

fn enqueue_one(new: &NewEvent, keep: bool) -> Query<'_, Postgres, PgArguments> {
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
        .bind(event.expire_at)
        .bind(new.expire_after.map(millis))
        .bind(event.deliver_at)
        .bind(new.delay.map(millis))
        .bind(event.max_attempts.map(|n| i16::try_from(n).unwrap_or(i16::MAX)))
        .bind(&event.exchange)
        .bind(&event.routing_key)
        .bind(i16::from(event.shard()))
        .bind(keep)
}
