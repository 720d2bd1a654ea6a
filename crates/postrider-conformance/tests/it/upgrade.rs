//! A database that an earlier build made is upgraded in place and worked on: nothing is lost and nothing happens twice.
//!
//! `fixtures/67f2175.<dialect>.sql` are dumps of databases that the server of commit 67f2175 filled over HTTP: three finished
//! events, one dead letter, one that waits for a retry, one whose worker died, three that wait in the order of their key,
//! and one that is due in 2999; each for the pulling consumers `points` and `mail`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::status::EventStatus;
use postrider::{Consumer, Event, Failure, Inbox, Received, Relay, Rollup, Subscription, Via};
use postrider_conformance::Harness;
use serde::{Deserialize, Serialize};

use crate::mysql::MySql;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OrderPaid {
    order_id: i64,
}

impl Event for OrderPaid {
    const TOPIC: &'static str = "order.paid";
}

/// The events that each consumer handled, in order.
type Handled = Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>;

struct Points(Handled);
struct Mail(Handled);

impl<S: Enlist> Consumer<S> for Points {
    const NAME: &'static str = "points";
    type Event = OrderPaid;

    async fn handle(&self, _: &mut S::Conn, paid: Received<OrderPaid>) -> Result<(), Failure> {
        self.0.lock().unwrap().entry("points").or_default().push(paid.envelope().event_id.to_string());
        Ok(())
    }
}

impl<S: Enlist> Consumer<S> for Mail {
    const NAME: &'static str = "mail";
    type Event = OrderPaid;

    async fn handle(&self, _: &mut S::Conn, paid: Received<OrderPaid>) -> Result<(), Failure> {
        self.0.lock().unwrap().entry("mail").or_default().push(paid.envelope().event_id.to_string());
        Ok(())
    }
}

async fn statuses(store: &impl Events) -> BTreeMap<&'static str, EventStatus> {
    const ALL: [&str; 10] = [
        "dead-1",
        "delayed-1",
        "done-1",
        "done-2",
        "done-3",
        "failed-1",
        "leased-1",
        "waiting-1",
        "waiting-2",
        "waiting-3",
    ];
    let mut statuses = BTreeMap::new();
    for id in ALL {
        statuses.insert(id, store.find(id).await.unwrap().expect("it is not lost").standing().status);
    }
    statuses
}

async fn upgrade<H: Harness>(h: H) {
    let store = h.store().clone();
    use EventStatus::{Consumed, Partial, Pending, Retrying, Sent};
    store.migrate().await.expect("the old schema is upgraded");
    store.check_schema().await.expect("it is this program's now");
    let before = statuses(&store).await;
    assert_eq!(before.values().filter(|status| **status == Consumed).count(), 3);
    assert_eq!((before["dead-1"], before["failed-1"]), (Partial, Retrying));
    assert!(matches!(before["leased-1"], Pending | Sent));

    // The consumers pulled until now, and are in code from now on.
    for consumer in ["points", "mail"] {
        store.set_subscription(&Subscription::new("order.paid", consumer, Via::Local)).await.unwrap();
    }
    let handled = Handled::default();
    let inbox = || Inbox::new(store.clone()).consumer(Points(handled.clone())).consumer(Mail(handled.clone()));
    for _ in 0..2 {
        // The second time there is nothing left to do.
        Relay::new(store.clone(), inbox()).drain().await.unwrap();
    }
    let handled = std::mem::take(&mut *handled.lock().unwrap());
    let in_order =
        |events: &[String]| events.iter().filter(|id| id.starts_with("waiting")).cloned().collect::<Vec<_>>();
    let sorted = |events: &[String]| {
        let mut events = events.to_vec();
        events.sort();
        events
    };
    assert_eq!(sorted(&handled["points"]), ["failed-1", "leased-1", "waiting-1", "waiting-2", "waiting-3"]);
    assert_eq!(sorted(&handled["mail"]), ["leased-1", "waiting-1", "waiting-2", "waiting-3"]);
    for consumer in ["points", "mail"] {
        assert_eq!(in_order(&handled[consumer]), ["waiting-1", "waiting-2", "waiting-3"], "{consumer}");
    }

    let after = statuses(&store).await;
    assert_eq!((after["dead-1"], after["delayed-1"]), (Partial, Pending));
    assert_eq!(after.values().filter(|status| **status == Consumed).count(), 8);
    let dead = store.find("dead-1").await.unwrap().unwrap();
    assert_eq!(dead.deliveries[0].status, DeliveryStatus::Dead);
    assert_eq!(dead.deliveries[0].last_error.as_deref(), Some("no such account"));
    let retried = store.find("failed-1").await.unwrap().unwrap();
    let attempts: Vec<_> = retried.consumptions.iter().map(|one| (&*one.consumer, one.attempt, one.success)).collect();
    assert_eq!(attempts, [("mail", 1, Some(true)), ("points", 1, Some(false)), ("points", 2, Some(true))]);
    Rollup::new(store.clone()).drain().await.unwrap();
    assert_eq!(store.tokens().await.unwrap().len(), 1, "tokens still work");
    drop(store);
    h.finish().await;
}

/// Upgraded in place, from a dump of commit 67f2175.
#[tokio::test]
async fn an_old_database_is_upgraded_on_sqlite() {
    upgrade(Sqlite::restored(include_str!("../../fixtures/67f2175.sqlite.sql")).await).await;
}

/// Upgraded in place, from a dump of commit 67f2175.
#[tokio::test]
async fn an_old_database_is_upgraded_on_postgres() {
    upgrade(Postgres::restored(include_str!("../../fixtures/67f2175.postgres.sql")).await).await;
}

/// Upgraded in place, from a dump of commit 67f2175.
#[tokio::test]
async fn an_old_database_is_upgraded_on_mysql() {
    upgrade(MySql::restored(include_str!("../../fixtures/67f2175.mysql.sql")).await).await;
}
