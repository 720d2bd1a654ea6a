//! The queries of the console on a table of a million events: every list, and the detail of an event, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use postrider::prelude::*;
use postrider::store::postgres::PostgresStore;
use postrider::{Rollup, RollupOptions};
use reqwest::Method;
use serde_json::Value;
use sqlx::postgres::PgPool;
use tokio::time::Instant;

use super::{COLD, Served};
use crate::report::{Latencies, Report};
use crate::setup::Scratch;
use crate::{Outcome, Size};

/// Events per INSERT statement.
const CHUNK: i64 = 100_000;
/// Events per order, which share a trace, a key and an aggregate.
const ORDER: i64 = 5;

/// The id of the n-th event is as long as a UUID, and sorted by time like version 7.
const EVENTS: &str = "
INSERT INTO postrider_event (event_id, topic, payload, event_key, trace_id, span_id, parent_event_id, aggregate_type,
                             aggregate_id, tenant_id, initiator, waits_for)
SELECT bench_id(n),
       (ARRAY['order.paid', 'order.paid', 'order.paid', 'order.sent', 'order.rated'])[(1 + n % 5)::int],
       $3, 'order-' || n / $4, md5((n / $4)::text), substr(md5(n::text), 1, 16),
       CASE WHEN n % $4 > 0 THEN bench_id(n - n % $4) END, 'order', (n / $4)::text, 'tenant-' || n % 50,
       '{\"service\":\"shop-' || n % 4 || '\"}', NULL
FROM generate_series($1::bigint, $2::bigint) n ORDER BY n";

/// One in 500 is dead for `points` (FAILED), and one in 500 waits for a retry (PARTIAL, because `mail` has succeeded).
/// `mail` gets only the first event of each order.
const ATTEMPTS: &str = "
INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at, error)
SELECT e.seq, c.consumer, 1, ok, CASE WHEN ok THEN now() END, CASE WHEN NOT ok THEN 'the mailbox is full' END
FROM postrider_event e
CROSS JOIN (VALUES ('points'), ('mail')) AS c (consumer)
CROSS JOIN LATERAL (SELECT c.consumer = 'mail' OR e.seq % 500 > 1 AS ok) o
WHERE e.seq > $1 AND (c.consumer = 'points' OR e.parent_event_id IS NULL)";

const DELIVERIES: &str = "
INSERT INTO postrider_delivery (event_seq, due_at, place, shard, attempts, lane, event_key, last_error)
SELECT seq, now() + interval '1 hour', CASE seq % 500 WHEN 0 THEN 3 ELSE 1 END, seq % 64, 1, 'points', event_key,
       'the mailbox is full'
FROM postrider_event WHERE seq > $1 AND seq % 500 < 2";

const ID: &str = "
CREATE FUNCTION bench_id(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT substr(lpad(to_hex(n), 12, '0') || md5(n::text), 1, 36) $$";

/// Requests each list and the detail, one request at a time.
pub(crate) async fn lists(scratch: &Scratch, size: Size, report: &mut Report) -> Outcome<()> {
    let url = scratch.postgres("lists").await?;
    let ids = fill(&url, size.listed as i64).await?;
    let served = Served::start(&url).await?;
    let order = |n: usize| (n * 7_919) as i64 % (size.listed as i64 / ORDER);
    let asked: [(&str, &dyn Fn(usize) -> String); 12] = [
        ("newest page", &|_| "/events?".into()),
        ("by topic", &|_| "/events?topic=order.sent".into()),
        ("by status", &|n| format!("/events?status={}", ["CONSUMED", "FAILED", "PARTIAL"][n % 3])),
        ("by topic and status", &|n| format!("/events?topic=order.rated&status={}", ["CONSUMED", "FAILED"][n % 2])),
        ("by topic and status, none", &|_| "/events?topic=order.rated&status=PENDING".into()),
        ("by trace", &|n| format!("/events?traceId={}", ids[n % ids.len()].1)),
        ("by key", &|n| format!("/events?key=order-{}", order(n))),
        ("by aggregate", &|n| format!("/events?aggregateType=order&aggregateId={}", order(n))),
        ("by consumer", &|n| format!("/events?consumerId={}", ["points", "mail"][n % 2])),
        ("by tenant", &|n| format!("/events?tenantId=tenant-{}", n % 50)),
        ("deep page", &|n| format!("/events?topic=order.paid&cursor={}", size.listed / 10 + n)),
        ("detail", &|n| format!("/events/{}", ids[n % ids.len()].0)),
    ];
    for (name, path) in asked {
        let mut waits: Vec<Duration> = Vec::with_capacity(size.looks);
        for n in 0..COLD + size.looks {
            let began = Instant::now();
            let answer: Value = served.ask(Method::GET, &path(n), None).await?;
            waits.push(began.elapsed());
            check(name, &answer)?;
        }
        let measured = Latencies::of(waits.split_off(COLD));
        report.limit(format!("http: {} events, {name} p99", size.listed), "ms", measured.p99, 50.0);
    }
    Ok(())
}

/// An empty response would be fast for the wrong reason.
fn check(name: &str, answer: &Value) -> Outcome<()> {
    let is_there = match answer["events"].as_array() {
        Some(events) => events.is_empty() == name.ends_with("none"),
        None => answer["consumptions"].as_array().is_some_and(|attempts| !attempts.is_empty()),
    };
    is_there.then_some(()).ok_or_else(|| format!("{name}: not what was asked for: {answer:.300}").into())
}

/// Inserts events with attempts and deliveries by SQL; the roll-up writes
/// statuses and lookups. Returns some ids and traces.
async fn fill(url: &str, events: i64) -> Outcome<Vec<(String, String)>> {
    let store = PostgresStore::connect(url).await?;
    store.migrate().await?;
    let pool = PgPool::connect(url).await?;
    sqlx::raw_sql(ID).execute(&pool).await?;
    let payload = serde_json::to_string(&crate::setup::payload())?;
    for from in (0..events).step_by(CHUNK as usize) {
        let upto = (from + CHUNK).min(events) - 1;
        let written = sqlx::query(EVENTS).bind(from).bind(upto).bind(&payload).bind(ORDER);
        written.execute(&pool).await?;
        for sql in [ATTEMPTS, DELIVERIES] {
            sqlx::query(sql).bind(from).execute(&pool).await?;
        }
    }
    let options = RollupOptions { batch: 5_000, ..RollupOptions::default() };
    Rollup::new(Arc::new(store)).options(options).drain().await?;
    // The state a few minutes later, after autovacuum.
    sqlx::raw_sql("VACUUM (ANALYZE)").execute(&pool).await?;
    let some = "SELECT event_id, trace_id FROM postrider_event WHERE seq = ANY ($1)";
    let seqs: Vec<i64> = (0..500).map(|n| 1 + n * 7_919 % events).collect();
    Ok(sqlx::query_as(some).bind(seqs).fetch_all(&pool).await?)
}
