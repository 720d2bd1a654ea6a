//! What the checks of the promises read and write.

use std::time::Duration;

use async_trait::async_trait;

use super::{SqlStore, Time, numbers, time};
use crate::error::Result;
use crate::store::batch::millis;
use crate::store::decide::Lookup;
use crate::store::promise::PROMISE_HALF_HOURS;
use crate::store::sql::retrying;
use crate::store::{DoubledKey, PromiseChecks, PromiseNote, Repeat, StoredPromise};

#[async_trait]
impl PromiseChecks for SqlStore {
    async fn repeats(&self, event_ids: &[&str]) -> Result<Vec<Repeat>> {
        let sql =
            text!("SELECT consumer, repeats, repeated_at FROM postrider_repeat WHERE event_id = $1 ORDER BY consumer");
        let mut found = Vec::new();
        for event_id in event_ids {
            let rows: Vec<(String, i32, Time)> = sqlx::query_as(sql).bind(event_id).fetch_all(self.reader()).await?;
            found.extend(rows.into_iter().map(|(consumer, repeats, at)| Repeat {
                consumer,
                event_id: (*event_id).into(),
                repeats: repeats.unsigned_abs(),
                repeated_at: time(at),
            }));
        }
        Ok(found)
    }

    async fn count_repeats(&self, within: Duration) -> Result<u64> {
        let query = sqlx::query_scalar(text!(
            "SELECT CAST(coalesce(sum(repeats), 0) AS ",
            signed!(),
            ") FROM (SELECT repeats FROM postrider_repeat WHERE repeated_at > ",
            earlier!("$1"),
            " LIMIT 10000) r"
        ));
        let sum: i64 = query.bind(millis(within)).fetch_one(self.reader()).await?;
        Ok(sum.unsigned_abs())
    }

    async fn doubled_keys(&self, within: Duration, limit: u32) -> Result<Vec<DoubledKey>> {
        let query = sqlx::query_as(text!(
            "SELECT n.consumer, n.idempotency_key, o.event_id, n.event_id FROM postrider_inbox n \
             JOIN postrider_inbox o ON o.idempotency_key = n.idempotency_key AND o.consumer = n.consumer \
             AND (o.received_at < n.received_at OR o.received_at = n.received_at AND o.event_id < n.event_id) \
             WHERE n.received_at > ",
            earlier!("$1"),
            " AND n.idempotency_key IS NOT NULL LIMIT $2"
        ));
        let rows: Vec<(String, String, String, String)> =
            query.bind(millis(within)).bind(i64::from(limit)).fetch_all(self.reader()).await?;
        let doubled = |(consumer, key, first, second)| DoubledKey { consumer, key, first, second };
        Ok(rows.into_iter().map(doubled).collect())
    }

    async fn were_expected(&self, consumer: &str, sequences: &[i64]) -> Result<Vec<i64>> {
        let query = sqlx::query_scalar(text!(
            "SELECT l.event_seq FROM ",
            seqs!("$1"),
            " JOIN postrider_lookup l ON l.event_seq = i.seq WHERE l.hash = $2"
        ));
        let query = query.bind(numbers(sequences)?).bind(Lookup::Consumer(consumer).hash());
        Ok(query.fetch_all(self.reader()).await?)
    }

    async fn note_promise(&self, note: &PromiseNote) -> Result<()> {
        retrying(|| async {
            let query = sqlx::query(sql!("promises/note_promise")).bind(&note.promise).bind(note.half_hour);
            let query = query.bind(note.kept).bind(note.strained).bind(&note.result);
            Ok(query.execute(self.writer()?).await?)
        })
        .await?;
        let old = text!("DELETE FROM postrider_promise WHERE promise = $1 AND half_hour <= $2");
        retrying(|| async {
            let query = sqlx::query(old).bind(&note.promise).bind(note.half_hour - PROMISE_HALF_HOURS);
            Ok(query.execute(self.writer()?).await?)
        })
        .await?;
        Ok(())
    }

    async fn promises(&self) -> Result<Vec<StoredPromise>> {
        type PromiseRow = (String, i64, bool, bool, String, Time);
        let rows: Vec<PromiseRow> = sqlx::query_as(text!(
            "SELECT promise, half_hour, kept, strained, result, checked_at FROM postrider_promise ORDER BY promise, half_hour"
        ))
        .fetch_all(self.reader())
        .await?;
        let stored = |(promise, half_hour, kept, strained, result, at): PromiseRow| StoredPromise {
            note: PromiseNote { promise, half_hour, kept, strained, result },
            checked_at: time(at),
        };
        Ok(rows.into_iter().map(stored).collect())
    }
}
