//! Operations on the caller's connection, inside the caller's transaction.

use std::collections::{BTreeMap, HashMap};

use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Executor, Sqlite, Transaction};

use super::dialect::{append_successes, write_routes};
use super::roles::records::by_id;
use super::{BEGIN, SqliteStore, rows};
use crate::error::{Error, Result};
use crate::store::batch;
use crate::store::sql::json;
use crate::store::{Completion, Enlist, Enqueued, Handled, History, NewEvent, Receipt, Unheard};

/// Maximum bytes of payload in one statement. SQLite's limit is a gigabyte, and a batch may be larger.
const STATEMENT_BYTES: usize = 16 * 1024 * 1024;

impl Enlist for SqliteStore {
    type Conn = SqliteConnection;
    type Tx = Transaction<'static, Sqlite>;

    async fn begin(&self) -> Result<Self::Tx> {
        self.file.check()?;
        Ok(self.transactions.begin_with(BEGIN).await?)
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await?;
        // Not acknowledged into a file that was lost meanwhile.
        self.file.check()
    }

    async fn enqueue(&self, conn: &mut SqliteConnection, new: &[NewEvent], unheard: Unheard) -> Result<Vec<Enqueued>> {
        self.file.check()?;
        require_transaction(conn).await?;
        let distinct = batch::distinct(new)?;
        let mut stored = HashMap::with_capacity(distinct.len());
        for part in parts(&distinct) {
            let rows = sqlx::query(sql!("events/enqueue"))
                .bind(batch::events(part)?)
                .bind(unheard == Unheard::Keep)
                .fetch_all(&mut *conn)
                .await?;
            let shards: HashMap<_, _> =
                part.iter().map(|new| (new.envelope.event_id.as_str(), new.envelope.shard())).collect();
            let mut routes = BTreeMap::new();
            for row in &rows {
                let (seq, id, subscribed) = rows::stored(row)?;
                routes.extend(shards.get(id.as_str()).map(|shard| (seq, *shard)));
                stored.insert(id, subscribed);
            }
            if !routes.is_empty() {
                write_routes(conn, &batch::routes(routes)?).await?;
            }
        }
        let missing = batch::missing(&distinct, &stored);
        let known = if missing.is_empty() {
            HashMap::new()
        } else {
            let query = sqlx::query(sql!("events/find_many")).bind(json(&missing)?);
            let found = query.fetch_all(conn).await?;
            found.iter().map(by_id).collect::<Result<_>>()?
        };
        batch::answers(new, stored, &known, unheard)
    }

    async fn receive(&self, conn: &mut SqliteConnection, receipt: &Receipt<'_>) -> Result<bool> {
        let query = sqlx::query(sql!("inbox/receive"))
            .bind(receipt.consumer)
            .bind(receipt.event_id)
            .bind(receipt.topic)
            .bind(receipt.tenant_id)
            .bind(receipt.idempotency_key);
        Ok(query.execute(conn).await?.rows_affected() == 1)
    }

    async fn receive_many(&self, conn: &mut SqliteConnection, receipts: &[Receipt<'_>]) -> Result<Vec<bool>> {
        // Row by row: there is no network round trip to save.
        let mut received = Vec::with_capacity(receipts.len());
        for receipt in receipts {
            received.push(self.receive(&mut *conn, receipt).await?);
        }
        Ok(received)
    }

    async fn note_repeat(&self, conn: &mut SqliteConnection, consumer: &str, event_id: &str) -> Result<()> {
        sqlx::query(sql!("promises/note_repeat")).bind(consumer).bind(event_id).execute(conn).await?;
        Ok(())
    }

    async fn keep_key(&self, conn: &mut SqliteConnection, consumer: &str, event_id: &str, key: &str) -> Result<()> {
        let keep = text!("UPDATE postrider_inbox SET idempotency_key = $1 WHERE consumer = $2 AND event_id = $3");
        sqlx::query(keep).bind(key).bind(consumer).bind(event_id).execute(conn).await?;
        Ok(())
    }

    async fn complete(&self, conn: &mut SqliteConnection, completion: &Completion<'_>) -> Result<()> {
        let mut successes = Vec::with_capacity(completion.completed.len());
        for completed in completion.completed {
            // If SQLite has ended the transaction, each statement here commits by itself. The first one then finds no
            // inbox row, and nothing else is sent.
            sqlx::query(sql!("inbox/complete"))
                .bind(completion.consumer)
                .bind(completed.event_id)
                .bind(completed.delivery.number)
                .bind(completion.token.0)
                .bind(completed.result)
                .fetch_optional(&mut *conn)
                .await?
                .ok_or(Error::LeaseLost)?;
            let seq: i64 = sqlx::query_scalar(sql!("inbox/complete_delivery"))
                .bind(completed.delivery.number)
                .bind(completion.token.0)
                .fetch_optional(&mut *conn)
                .await?
                .ok_or(Error::LeaseLost)?;
            successes.push((seq, completion.consumer.into()));
        }
        match completion.history {
            History::Omit => Ok(()),
            History::Keep => append_successes(conn, &successes).await,
        }
    }

    async fn confirm_received(
        &self,
        conn: &mut SqliteConnection,
        consumer: &str,
        handled: &[Handled<'_>],
    ) -> Result<()> {
        for Handled { event_id, result } in handled {
            let query = sqlx::query(sql!("inbox/confirm_received")).bind(consumer).bind(event_id).bind(result);
            query.fetch_optional(&mut *conn).await?.ok_or_else(Error::not_received)?;
        }
        Ok(())
    }
}

/// Refuses a connection without a transaction. sqlx knows of those that it began. If one began with plain SQL, SQLite
/// does not begin another.
async fn require_transaction(conn: &mut SqliteConnection) -> Result<()> {
    if conn.is_in_transaction() || conn.execute("BEGIN").await.is_err() {
        return Ok(());
    }
    conn.execute("ROLLBACK").await?;
    Err(Error::NoTransaction)
}

/// Splits a batch into parts of [`STATEMENT_BYTES`] of payload; usually there is one.
fn parts<'a, 'b>(mut batch: &'b [&'a NewEvent]) -> impl Iterator<Item = &'b [&'a NewEvent]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = batch.iter().take_while(|new| {
            bytes += new.envelope.payload.len();
            bytes <= STATEMENT_BYTES
        });
        let (part, rest) = batch.split_at(fitting.count().max(1).min(batch.len()));
        batch = rest;
        (!part.is_empty()).then_some(part)
    })
}
