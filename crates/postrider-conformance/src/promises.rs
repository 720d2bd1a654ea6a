//! `repeats`, `count_repeats`, `doubled_keys`, `were_expected`, `note_promise`, `promises`, and the checks over them: a promise
//! that does not hold names the event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postrider::outbox::Dialect;
use postrider::prelude::*;
use postrider::promises::{Balance, BooksCheck, PromiseName, PromiseResult};
use postrider::store::{DeadHead, Filter, History, List, PROMISE_HALF_HOURS, PromiseNote, half_hour_of};
use postrider::{Consumer, Event, Failure, Inbox, LaneOptions, OutsideConsumer, Promises, Received, Relay, Via};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::fold::{fold_all, report};
use crate::steps::*;
use crate::{Conn, Harness};

#[derive(Serialize, Deserialize)]
struct Paid {
    n: String,
}

impl Event for Paid {
    const TOPIC: &'static str = TOPIC;
}

/// Has its effect once, under a business key of its own.
struct Points<H>(H);

impl<H: Harness> Consumer<H::Store> for Points<H> {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, _: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
        paid.keep_key(format!("points of {}", paid.n))?;
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

async fn drain<H: Harness>(h: &H, inbox: impl FnOnce(Inbox<H::Store>) -> Inbox<H::Store>) {
    let inbox = inbox(Inbox::new(h.store().clone()));
    Relay::new(h.store().clone(), inbox).drain().await.unwrap();
    fold_all(h).await;
}

async fn deliver<H: Harness>(h: &H) {
    drain(h, |inbox| inbox.consumer(Points(h.clone()))).await;
}

/// One look at everything. Lanes count as stalled at once.
async fn check(h: &impl Harness, promise: PromiseName) -> PromiseResult {
    let mut results = Promises::new(h.store().clone()).stalled_after(Duration::ZERO).check().await.unwrap();
    results.remove(&promise).unwrap()
}

fn figure(result: &PromiseResult, name: &str) -> u64 {
    *result.figures.get(name).unwrap_or_else(|| panic!("{name} is missing: {result:?}"))
}

async fn all_hold(h: &impl Harness) {
    for (promise, result) in Promises::new(h.store().clone()).check().await.unwrap() {
        assert!(result.ok && result.events.is_empty(), "{promise:?}: {result:?}");
    }
}

/// Runs SQL that an operator should not.
async fn by_hand<H: Harness>(h: &H, sql: &str) {
    let mut tx = h.store().begin().await.unwrap();
    h.execute(&mut *tx, sql, &[]).await;
    h.store().commit(tx).await.unwrap();
}

/// A time of a column, so many days later.
fn days_after(dialect: Dialect, column: &str, days: i32) -> String {
    match dialect {
        Dialect::Postgres => format!("{column} + interval '{days} days'"),
        Dialect::MySql => format!("{column} + INTERVAL {days} DAY"),
        _ => format!("{column} + {days} * 86400000"),
    }
}

const OF_EVENT: &str = "event_seq = (SELECT seq FROM postrider_event WHERE event_id = ";

/// G.13: after successes, retries, deaths, discards, expiry, repeats, renames and remote reports everything holds, and the
/// figures are those of the rows.
pub async fn everything_holds_after_a_long_day<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "away", Via::External).await;
    subscribe(&h, TOPIC, "pulls", Via::Pull).await;
    enqueue(&h, ["done", "again", "discarded", "expired"].map(draft)).await;
    enqueue_one(&h, draft("dead").key("dead")).await;
    enqueue(&h, keyed("k", 4)).await;
    fold_all(&h).await;
    ruled(h.store().expire("expired").await).expect("it waits");
    ruled(h.store().discard("discarded", LANE, "not wanted").await).expect("it waits");
    bury_head(&h, "dead").await;
    deliver(&h).await;
    for id in ["done", "again", "dead", "discarded", "k1", "k2", "k3"] {
        h.store().append_consumption(&report(id, "away", false, true)).await.unwrap();
        h.store().append_consumption(&report(id, "away", true, false)).await.unwrap();
        h.store().append_consumption(&report(id, "away", true, false)).await.unwrap();
    }
    // Once more after its effect, as after a crash: the inbox stops it.
    h.store().redrive("again", LANE, None).await.unwrap();
    deliver(&h).await;
    h.store().rename_consumer(LANE, "bonus").await.unwrap();
    fold_all(&h).await;
    // Nobody pulls, which is what the check of lanes is about; here it waits for no half minute.
    all_hold(&h).await;

    let lost = check(&h, PromiseName::Lost).await;
    let named = ["events", "owed", "done", "waiting", "dead", "missing"].map(|name| figure(&lost, name));
    let rows = h.store().list(&List::new(Filter::default(), 100)).await.unwrap().events;
    let standings: Vec<_> = rows.iter().map(postrider::store::Record::standing).collect();
    let sum =
        |count: fn(&postrider::status::Standing) -> u32| standings.iter().map(|one| u64::from(count(one))).sum::<u64>();
    let (owed, done, dead) = (sum(|one| one.expected), sum(|one| one.consumed), sum(|one| one.failed));
    assert_eq!(named, [9, owed, done, owed - done - dead, dead, 0]);
    assert!(done >= 13 && dead == 2, "{named:?}");
    let twice = check(&h, PromiseName::Twice).await;
    assert_eq!((figure(&twice, "repeats"), figure(&twice, "twice")), (1, 0));
}

/// G.11: what the inbox stopped is counted by consumer and event.
pub async fn repeats_that_the_inbox_stopped_are_counted<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["a", "b"].map(draft)).await;
    deliver(&h).await;
    assert!(h.store().repeats(&["a", "b"]).await.unwrap().is_empty());
    for _ in 0..2 {
        h.store().redrive("a", LANE, None).await.unwrap();
        deliver(&h).await;
    }
    let [repeat] = &h.store().repeats(&["a", "b"]).await.unwrap()[..] else { panic!("one") };
    assert_eq!((repeat.consumer.as_str(), repeat.event_id.as_str(), repeat.repeats), (LANE, "a", 2));
    assert_eq!(h.store().count_repeats(HOUR).await.unwrap(), 2);
    age(&h, 2 * HOUR).await;
    assert_eq!(h.store().count_repeats(HOUR).await.unwrap(), 0, "they are older");
    all_hold(&h).await;
}

/// G.13: a delivery that is deleted by hand is missed, also if another consumer of the event is done.
pub async fn a_deleted_delivery_is_lost<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("this store has no SQL");
    }
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "mail", Via::Local).await;
    enqueue(&h, ["a", "b", "c"].map(draft)).await;
    fold_all(&h).await;
    subscribe(&h, TOPIC, "later", Via::Local).await;
    all_hold(&h).await;
    by_hand(&h, &format!("DELETE FROM postrider_delivery WHERE lane = 'mail' AND {OF_EVENT}'b')")).await;
    let lost = check(&h, PromiseName::Lost).await;
    assert_eq!((lost.ok, lost.events.clone(), figure(&lost, "missing")), (false, vec!["b".to_owned()], 1));
    let [finding] = &lost.findings[..] else { panic!("{lost:?}") };
    assert_eq!((finding.event_id.as_deref(), finding.consumer_id.as_deref()), (Some("b"), Some("mail")));
    let since = lost.since.expect("since when");
    deliver(&h).await;
    let lost = check(&h, PromiseName::Lost).await;
    assert_eq!((lost.ok, lost.events.clone(), lost.since), (false, vec!["b".to_owned()], Some(since)), "{lost:?}");
    // An operator sends it again.
    h.store().redrive("b", "mail", None).await.unwrap();
    assert!(check(&h, PromiseName::Lost).await.ok);
    drain(&h, |inbox| inbox.outside(Mail)).await;
    all_hold(&h).await;
}

/// A lane without history leaves no trace of what is done: nothing is missed there.
pub async fn a_lane_without_history_loses_nothing<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "mail", Via::Local).await;
    enqueue(&h, ["a", "b"].map(draft)).await;
    fold_all(&h).await;
    let options = LaneOptions { history: History::Omit, ..LaneOptions::default() };
    drain(&h, |inbox| inbox.outside_with(Mail, options)).await;
    all_hold(&h).await;
}

/// G.13: two effects under one business key, and two successes of one consumer.
pub async fn a_doubled_effect_is_found<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("this store has no SQL");
    }
    subscribe_lane(&h).await;
    enqueue(&h, ["a", "b", "c"].map(draft)).await;
    deliver(&h).await;
    all_hold(&h).await;
    by_hand(
        &h,
        "INSERT INTO postrider_inbox (consumer, event_id, topic, idempotency_key) \
         VALUES ('points', 'by-hand', 'order.paid', 'points of a')",
    )
    .await;
    let twice = check(&h, PromiseName::Twice).await;
    assert_eq!((twice.ok, figure(&twice, "twice")), (false, 1), "{twice:?}");
    assert!(twice.findings[0].what.contains("points of a: a and by-hand"), "{twice:?}");
    by_hand(&h, "DELETE FROM postrider_inbox WHERE event_id = 'by-hand'").await;

    by_hand(
        &h,
        &format!(
            "INSERT INTO postrider_consumption (event_seq, consumer, attempt, success, consumed_at) \
             SELECT event_seq, consumer, attempt + 1, success, consumed_at FROM postrider_consumption WHERE {OF_EVENT}'c')"
        ),
    )
    .await;
    let twice = check(&h, PromiseName::Twice).await;
    assert!(!twice.ok && twice.events.contains(&"c".to_owned()), "{twice:?}");
    by_hand(&h, &format!("DELETE FROM postrider_consumption WHERE attempt = 2 AND {OF_EVENT}'c')")).await;
    // The pair of keys stays for a day: a person has to see it.
    let twice = check(&h, PromiseName::Twice).await;
    assert_eq!((twice.ok, twice.findings.len()), (false, 1), "{twice:?}");
    age(&h, 48 * HOUR).await;
}

/// G.13: a lane that no worker serves, a lease that no worker ends, and a retry that is due in years.
pub async fn whatever_is_stuck_is_named<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("alone")).await;
    fold_all(&h).await;
    let stuck = check(&h, PromiseName::Stuck).await;
    assert_eq!((stuck.ok, figure(&stuck, "lanes"), stuck.events.clone()), (false, 1, vec!["alone".to_owned()]));
    assert_eq!(stuck.findings[0].consumer_id.as_deref(), Some(LANE));
    h.store().set_paused(LANE, true).await.unwrap();
    assert!(check(&h, PromiseName::Stuck).await.ok, "a paused lane waits on purpose");
    h.store().set_paused(LANE, false).await.unwrap();

    let lease = claim(&h, 1).await;
    let stuck = check(&h, PromiseName::Stuck).await;
    assert_eq!((stuck.ok, figure(&stuck, "leases")), (true, 1), "{stuck:?}");
    let Some(dialect) = h.dialect() else { return };
    let moved =
        |column: &str, days| format!("UPDATE postrider_delivery SET {column} = {}", days_after(dialect, column, days));
    for (column, days) in [("lock_until", 30), ("lock_until", -60)] {
        by_hand(&h, &moved(column, days)).await;
        let stuck = check(&h, PromiseName::Stuck).await;
        assert_eq!(
            (stuck.ok, figure(&stuck, "overdue"), &stuck.events[..]),
            (false, 1, &["alone".to_owned()][..]),
            "{days}"
        );
    }
    by_hand(&h, &moved("lock_until", 30)).await;
    let retry = [failed(lease.ids()[0], Duration::from_secs(3_600))];
    h.store().retry(lease.token, &retry, History::Keep).await.unwrap();
    assert!(check(&h, PromiseName::Stuck).await.ok, "a retry in an hour is planned");
    by_hand(&h, &moved("due_at", 900)).await;
    let stuck = check(&h, PromiseName::Stuck).await;
    assert_eq!((stuck.ok, figure(&stuck, "overdue")), (false, 1), "{stuck:?}");
    by_hand(&h, &moved("due_at", -900)).await;
    age(&h, 2 * HOUR).await;
    deliver(&h).await;
    all_hold(&h).await;
}

/// G.13: two events of a key whose order was swapped. What waits behind a dead one is no break of the order, and is counted.
pub async fn a_swapped_order_is_found<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("k", 4)).await;
    enqueue(&h, keyed("held", 3)).await;
    bury_head(&h, "held1").await;
    deliver(&h).await;
    claim_all_keyed(&h, DeadHead::Hold).await;
    let order = check(&h, PromiseName::Order).await;
    assert_eq!((order.ok, figure(&order, "outOfOrder")), (true, 0), "{order:?}");
    assert_eq!((figure(&order, "held"), &order.keys[..]), (2, &["held".to_owned()][..]));
    let Some(dialect) = h.dialect() else { return };
    let later = days_after(dialect, "consumed_at", 1);
    by_hand(&h, &format!("UPDATE postrider_consumption SET consumed_at = {later} WHERE {OF_EVENT}'k2')")).await;
    let order = check(&h, PromiseName::Order).await;
    assert_eq!((order.ok, &order.events[..]), (false, &["k2".to_owned()][..]), "{order:?}");
    assert!(order.findings[0].what.contains("k3 before k2"), "{order:?}");
    let earlier = days_after(dialect, "consumed_at", -1);
    by_hand(&h, &format!("UPDATE postrider_consumption SET consumed_at = {earlier} WHERE {OF_EVENT}'k2')")).await;
    assert!(check(&h, PromiseName::Order).await.ok);
}

struct Shop(AtomicBool);

#[async_trait]
impl BooksCheck for Shop {
    fn source(&self) -> &str {
        "shop"
    }

    async fn check(&self) -> Result<Balance, Box<dyn std::error::Error + Send + Sync>> {
        let discrepancies =
            if self.0.load(Ordering::SeqCst) { vec![] } else { vec!["wallet 7 has 1 cent too much".into()] };
        Ok(Balance { checked: [("accounts".to_owned(), 12)].into(), discrepancies })
    }
}

/// G.13: a service checks its own books.
pub async fn a_service_checks_its_own_books<H: Harness>(h: H) {
    let shop = Arc::new(Shop(AtomicBool::new(true)));
    let look = async || {
        let promises = Promises::new(h.store().clone()).books(shop.clone());
        promises.check().await.unwrap().remove(&PromiseName::Books).unwrap()
    };
    let books = look().await;
    assert_eq!((books.ok, figure(&books, "accounts"), figure(&books, "discrepancies")), (true, 12, 0));
    assert_eq!(books.source.as_deref(), Some("shop"));
    shop.0.store(false, Ordering::SeqCst);
    let books = look().await;
    assert_eq!((books.ok, figure(&books, "discrepancies")), (false, 1));
    assert!(books.findings[0].what.contains("wallet 7"));
}

fn note(half_hour: i64, kept: bool, strained: bool) -> PromiseNote {
    PromiseNote { promise: "lost".into(), half_hour, kept, strained, result: format!(r#"{{"ok":{kept}}}"#) }
}

/// A half hour in which a promise was broken once stays broken; a day is kept.
pub async fn results_are_kept_for_a_day<H: Harness>(h: H) {
    let store = h.store();
    store.note_promise(&note(100, true, false)).await.unwrap();
    store.note_promise(&note(101, false, true)).await.unwrap();
    store.note_promise(&note(101, true, false)).await.unwrap();
    store.note_promise(&PromiseNote { promise: "order".into(), ..note(3, true, false) }).await.unwrap();
    let stored = async || {
        let rows = store.promises().await.unwrap().into_iter().map(|row| row.note);
        rows.map(|note| (note.promise, note.half_hour, note.kept, note.strained, note.result)).collect::<Vec<_>>()
    };
    let row = |promise: &str, half_hour, kept, strained, result: &str| {
        (promise.to_owned(), half_hour, kept, strained, result.to_owned())
    };
    let (first, second) =
        (row("lost", 100, true, false, r#"{"ok":true}"#), row("lost", 101, false, true, r#"{"ok":true}"#));
    let other = row("order", 3, true, false, r#"{"ok":true}"#);
    assert_eq!(stored().await, [first, second.clone(), other.clone()]);
    store.note_promise(&note(100 + PROMISE_HALF_HOURS, true, false)).await.unwrap();
    let newest = row("lost", 100 + PROMISE_HALF_HOURS, true, false, r#"{"ok":true}"#);
    assert_eq!(stored().await, [second, newest, other], "the other promises keep theirs");
}

/// G.13: the loop checks by itself, within seconds; one of several instances works.
pub async fn one_instance_checks_the_promises<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("a")).await;
    deliver(&h).await;
    let (stops, runs): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (stop, stopped) = oneshot::channel::<()>();
            let promises = Promises::new(h.store().clone());
            (stop, tokio::spawn(promises.run(async { drop(stopped.await) })))
        })
        .unzip();
    let noted = async {
        loop {
            let found = h.store().promises().await.unwrap();
            if found.len() == 4 {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(20), noted).await.expect("they are checked");
    let now = half_hour_of(h.store().now().await.unwrap());
    assert!(found.iter().all(|row| row.note.kept && now - row.note.half_hour <= 1), "{found:?}");
    let leases = h.store().holdings().await.unwrap().into_iter().filter(|one| one.name == "postrider.promises");
    assert_eq!(leases.count(), 1);
    drop(stops);
    for run in runs {
        run.await.unwrap().unwrap();
    }
}

/// The statements that are shown to people run.
pub async fn the_shown_statements_run<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("this store has no SQL");
    }
    for sql in PromiseName::ALL.into_iter().filter_map(PromiseName::sql) {
        by_hand(&h, sql).await;
    }
}
