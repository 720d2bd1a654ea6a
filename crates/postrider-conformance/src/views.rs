//! `postrider_outbox` and `postrider_consume_log`: what people and scripts read.

use std::time::Duration;

use postrider::prelude::*;
use postrider::store::{Claim, History, LaneSettings};
use postrider::{
    Aggregate, Consumer, Draft, Event, Failure, Inbox, LaneOptions, OutsideConsumer, Received, Relay, RetryPolicy, Via,
};
use serde::{Deserialize, Serialize};

use crate::fold::report;
use crate::steps::*;
use crate::{Conn, Harness};

#[derive(Serialize, Deserialize)]
struct Paid {
    n: String,
}

impl Event for Paid {
    const TOPIC: &'static str = TOPIC;
}

/// Keeps a result and a business key.
struct Points<H>(H);

impl<H: Harness> Consumer<H::Store> for Points<H> {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
        self.0.add(tx, "effect").await?;
        if paid.n == "plain" {
            return Ok(());
        }
        paid.keep(&42)?;
        paid.keep_key(format!("order:{}:checkout", paid.n))?;
        Ok(())
    }
}

struct Mail;

impl OutsideConsumer for Mail {
    const NAME: &'static str = "mail";
    type Event = Paid;

    async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
        Ok(())
    }
}

/// The rows of the log, by consumer. The times of all of them are checked.
async fn log<H: Harness>(h: &H, event_id: &str) -> Vec<[String; 7]> {
    let rows = h
        .texts(&format!(
            "SELECT l.consumer, l.topic, l.tenant_id, l.status, l.idempotency_key, l.result, l.error, \
             CASE WHEN l.consumed_at >= o.created_at AND l.consumed_at <= later.created_at THEN 'in time' ELSE 'no' END \
             FROM postrider_consume_log l JOIN postrider_outbox o ON o.event_id = l.event_id \
             JOIN postrider_outbox later ON later.event_id = 'later' WHERE l.event_id = '{event_id}' ORDER BY l.consumer"
        ))
        .await;
    let mut log = Vec::new();
    for row in rows {
        let row: Vec<String> = row.into_iter().map(Option::unwrap_or_default).collect();
        assert_eq!(row[7], "in time", "{row:?}");
        log.push(std::array::from_fn(|at| row[at].clone()));
    }
    log
}

/// A.7: one row for each consumer and event, of every kind of consumer, with status, tenant, result, error and time.
pub async fn the_log_shows_what_each_consumer_did<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("this store has no SQL");
    }
    h.make_counter("effect").await;
    for (consumer, via) in [
        (LANE, Via::Local),
        ("mail", Via::Local),
        ("pulls", Via::Pull),
        ("fails", Via::Pull),
        ("gone", Via::Pull),
        ("works", Via::Pull),
        ("waits", Via::Pull),
        ("hook", Via::Webhook),
        ("reports", Via::External),
        ("regrets", Via::External),
        ("silent", Via::External),
    ] {
        subscribe(&h, TOPIC, consumer, via).await;
    }
    enqueue_one(&h, draft("e").tenant("7")).await;
    let taken = async |lane: &str| h.store().claim(&Claim { lane: lane.into(), ..wanted(1) }).await.unwrap();
    for lane in ["pulls", "hook"] {
        let lease = taken(lane).await;
        h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    }
    for _ in 0..2 {
        let lease = taken("fails").await;
        h.store().retry(lease.token, &[failed(lease.ids()[0], Duration::ZERO)], History::Keep).await.unwrap();
    }
    let lease = taken("gone").await;
    h.store().bury(lease.token, &[buried(lease.ids()[0])], History::Keep).await.unwrap();
    taken("works").await;
    for success in [false, true, false] {
        h.store().append_consumption(&report("e", "reports", success, false)).await.unwrap();
    }
    h.store().append_consumption(&report("e", "regrets", false, true)).await.unwrap();
    let inbox = || Inbox::new(h.store().clone()).consumer(Points(h.clone())).outside(Mail);
    Relay::new(h.store().clone(), inbox()).drain().await.unwrap();
    enqueue_one(&h, Draft::json("other", &1).unwrap().event_id("later")).await;

    let row = |consumer: &str, status: &str, key: &str, result: &str, error: &str| {
        [consumer, TOPIC, "7", status, key, result, error].map(str::to_owned)
    };
    let refused = report("e", "regrets", false, true).error.unwrap_or_default();
    let expected = vec![
        row("fails", "FAILED", "e", "", "boom"),
        row("gone", "FAILED", "e", "", "boom"),
        row("hook", "SUCCESS", "e", "", ""),
        row("mail", "SUCCESS", "e", "", ""),
        row(LANE, "SUCCESS", "order:e:checkout", "42", ""),
        row("pulls", "SUCCESS", "e", "", ""),
        row("regrets", "FAILED", "e", "", &refused),
        row("reports", "SUCCESS", "e", "", ""),
        row("works", "PROCESSING", "e", "", ""),
    ];
    assert_eq!(log(&h, "e").await, expected);
    h.store().redrive("e", "pulls", None).await.unwrap();
    taken("pulls").await;
    h.store().redrive("e", "gone", None).await.unwrap();
    assert_eq!(log(&h, "e").await, expected, "a success stays, and nothing is shown twice");
}

/// A.7: a handler names the business key of its effect, by which the row is found; without one it is the event's id.
pub async fn a_consumer_names_its_business_key<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("this store has no SQL");
    }
    h.make_counter("effect").await;
    subscribe_lane(&h).await;
    enqueue(&h, ["7", "8", "plain"].map(draft)).await;
    Relay::new(h.store().clone(), Inbox::new(h.store().clone()).consumer(Points(h.clone()))).drain().await.unwrap();
    let found = async |sql: &str| h.texts(sql).await.into_iter().flatten().flatten().collect::<Vec<_>>();
    let by_key = "SELECT event_id FROM postrider_inbox WHERE idempotency_key = 'order:7:checkout'";
    assert_eq!(found(by_key).await, ["7"]);
    let keys = "SELECT idempotency_key FROM postrider_consume_log ORDER BY event_id";
    assert_eq!(found(keys).await, ["order:7:checkout", "order:8:checkout", "plain"]);
}

/// A.2: `max_retry_count` is what is configured for the lanes of the event, or what the event asks for.
pub async fn the_outbox_shows_the_configured_attempts<H: Harness>(h: H) {
    let options = |max_attempts| {
        let retry = RetryPolicy { max_attempts, ..RetryPolicy::default() };
        LaneOptions { retry, ..LaneOptions::default() }
    };
    let drain = async |max_attempts| {
        let inbox = Inbox::new(h.store().clone()).outside_with(Mail, options(max_attempts));
        Relay::new(h.store().clone(), inbox).drain().await.unwrap();
    };
    drain(7).await;
    drain(3).await;
    let lanes: Vec<_> =
        h.store().lanes().await.unwrap().into_iter().map(|(lane, is)| (lane, is.max_attempts)).collect();
    assert_eq!(lanes, [("mail".to_owned(), 3)]);
    if h.dialect().is_none() {
        return skipped("this store has no views");
    }
    subscribe(&h, "other", "pulls", Via::Pull).await;
    let other = |id: &str| Draft::json("other", &1).unwrap().event_id(id);
    enqueue(&h, [draft("mail-done"), draft("own").max_attempts(5), other("pull")]).await;
    drain(3).await;
    enqueue(&h, [draft("mail-waits")]).await;
    let with = async |attempts: u32| {
        let sql = format!("SELECT event_id FROM postrider_outbox WHERE max_retry_count = {attempts} ORDER BY event_id");
        h.texts(&sql).await.into_iter().flatten().flatten().collect::<Vec<_>>()
    };
    assert_eq!(with(3).await, ["mail-done", "mail-waits"]);
    assert_eq!(with(5).await, ["own"]);
    assert_eq!(with(10).await, ["pull"], "the default");
    h.store().record_lane("*", LaneSettings { max_attempts: 12, history: History::Keep }).await.unwrap();
    assert_eq!(with(12).await, ["pull"], "what a server records for lanes that no relay serves");
}

/// A.2: status, failed attempts, next try, last error and times of an event through its life.
pub async fn the_outbox_follows_an_event_through_its_life<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("this store has no views");
    }
    subscribe_lane(&h).await;
    let event = draft("e").aggregate(Aggregate::new("ORDER", 7));
    subscribe(&h, "other", "late", Via::Local).await;
    enqueue(&h, [event, Draft::json("other", &1).unwrap().event_id("soon").delay(HOUR / 2)]).await;
    let row = async || {
        let sql = "SELECT o.topic, o.aggregate_type, o.aggregate_id, o.status, o.lock_owner, o.last_error, \
             CASE WHEN o.retry_count = 0 THEN '0' WHEN o.retry_count = 1 THEN '1' ELSE 'more' END, \
             CASE WHEN o.next_retry_at IS NULL THEN 'none' WHEN o.next_retry_at > s.next_retry_at THEN 'later' ELSE 'due' END, \
             CASE WHEN o.lock_until > o.lock_time THEN 'leased' ELSE 'free' END, \
             CASE WHEN o.sent_at >= o.created_at THEN 'sent' ELSE 'not sent' END, \
             CASE WHEN o.updated_at >= o.created_at THEN 'in order' ELSE 'no' END FROM postrider_outbox o \
             JOIN postrider_outbox s ON s.event_id = 'soon' WHERE o.event_id = 'e'";
        let row = h.texts(sql).await.remove(0).into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>();
        assert_eq!((&row[..3], &*row[10]), (&[TOPIC, "ORDER", "7"].map(String::from)[..], "in order"));
        row[3..10].join(" ")
    };
    assert_eq!(row().await, "NEW   0 due free not sent");
    let owned = Claim { owner: "me".into(), ..wanted(1) };
    let lease = h.store().claim(&owned).await.unwrap();
    assert_eq!(row().await, "PROCESSING me  0 none leased not sent");
    h.store().retry(lease.token, &[failed(lease.ids()[0], HOUR)], History::Keep).await.unwrap();
    assert_eq!(row().await, "FAILED  boom 1 later free not sent");
    age(&h, 2 * HOUR).await;
    let lease = h.store().claim(&owned).await.unwrap();
    h.store().bury(lease.token, &[buried(lease.ids()[0])], History::Keep).await.unwrap();
    assert_eq!(row().await, "DEAD  boom more none free not sent");
    h.store().redrive("e", LANE, None).await.unwrap();
    let lease = h.store().claim(&owned).await.unwrap();
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    assert_eq!(row().await, "SENT   0 none free sent");
}
