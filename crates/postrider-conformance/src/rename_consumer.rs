//! `rename_consumer`: a consumer gets another name, and nothing is lost, repeated or out of order.

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::redrive::{RedriveRules, Refusal};
use postrider::status::EventStatus;
use postrider::store::{Claim, Completed, Completion, DeadHead, Filter, History, Lease, List, Receipt, Renamed};
use postrider::{Error, Outbox, Subscription, Via};

use crate::fold::{fold_all, listed, report};
use crate::steps::*;
use crate::{Conn, Harness};

const NEW: &str = "bonus";

async fn rename(h: &impl Harness) -> Renamed {
    ruled(h.store().rename_consumer(LANE, NEW).await).expect("it is allowed")
}

async fn refused(h: &impl Harness, from: &str, to: &str) -> Refusal {
    ruled(h.store().rename_consumer(from, to).await).expect_err("it is refused")
}

async fn claim_new(h: &impl Harness) -> Lease {
    let claim = Claim { lane: NEW.into(), ..wanted(500) };
    h.store().claim(&claim).await.unwrap()
}

async fn claim_new_keyed(h: &impl Harness) -> Lease {
    let claim = Claim { lane: NEW.into(), ..wanted(500) };
    h.store().claim_keyed(&claim, DeadHead::Hold).await.unwrap()
}

/// The consumers with a subscription, by topic.
async fn subscribers(h: &impl Harness) -> Vec<(String, String)> {
    let stored = h.store().subscriptions(None).await.unwrap();
    stored.into_iter().map(|one| (one.subscription.topic, one.subscription.consumer)).collect()
}

/// The inbox row, the effect, and the end of a consumer's transaction. Returns whether the consumer had not seen any of the
/// events.
async fn consume<H: Harness>(h: &H, conn: &mut Conn<H>, consumer: &str, lease: &Lease) -> Result<bool, Error> {
    let ids: Vec<_> = lease.deliveries.iter().map(|claimed| claimed.envelope.event_id.to_string()).collect();
    let receipts =
        ids.iter().map(|id| Receipt { consumer, event_id: id, topic: TOPIC, tenant_id: None, idempotency_key: None });
    let new = h.store().receive_many(conn, &receipts.collect::<Vec<_>>()).await?;
    for _ in new.iter().filter(|new| **new) {
        h.add(conn, "effect").await.map_err(Error::TransactionLost)?;
    }
    let completed: Vec<_> = (lease.deliveries.iter().zip(&ids))
        .map(|(claimed, id)| Completed { event_id: id, delivery: claimed.id, result: None })
        .collect();
    let end = Completion { consumer, token: lease.token, history: History::Keep, completed: &completed };
    h.store().complete(conn, &end).await?;
    Ok(new.iter().all(|new| *new))
}

/// Subscriptions, deliveries in every state, attempts and the pause; statuses and lists stay as they were.
pub async fn everything_moves_to_the_new_name<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, "order.refunded", LANE, Via::Local).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, ["done", "failed", "dead", "held", "waiting"].map(draft)).await;
    let lease = claim(&h, 4).await;
    let [done, failing, dead, held] = lease.ids()[..] else { panic!("{lease:?}") };
    h.store().settle(lease.token, &[done], History::Keep).await.unwrap();
    h.store().retry(lease.token, &[failed(failing, HOUR)], History::Keep).await.unwrap();
    h.store().bury(lease.token, &[buried(dead)], History::Keep).await.unwrap();
    h.store().set_paused(LANE, true).await.unwrap();
    fold_all(&h).await;
    let before = h.store().counts().await.unwrap();
    let statuses = ["done", "failed", "dead", "held", "waiting"];
    let mut expected = Vec::new();
    for id in statuses {
        expected.push(find(&h, id).await.standing());
    }

    let renamed = rename(&h).await;
    assert_eq!(renamed, Renamed { subscriptions: 2, deliveries: 4, received: 0, attempts: 3 });
    let own = |consumer: &str, topic: &str| (topic.to_owned(), consumer.to_owned());
    assert_eq!(subscribers(&h).await, [own(NEW, TOPIC), own("other", TOPIC), own(NEW, "order.refunded")]);
    let after = h.store().counts().await.unwrap();
    assert_eq!((after.get(NEW), after.get(LANE)), (before.get(LANE), None));
    assert_eq!(after["other"], before["other"]);
    assert_eq!(h.store().paused().await.unwrap().into_iter().collect::<Vec<_>>(), [NEW]);
    for (id, expected) in statuses.into_iter().zip(expected) {
        let found = find(&h, id).await;
        assert_eq!(found.standing(), expected, "{id}");
        assert!(found.consumptions.iter().all(|one| one.consumer == NEW), "{id}");
        assert!(found.deliveries.iter().all(|one| one.lane != LANE), "{id}");
        assert_eq!(listed(&h, id).await, expected.status, "{id}");
    }
    for (consumer, events) in [(NEW, 5), (LANE, 0)] {
        let filter = Filter { consumer: Some(consumer.into()), ..Filter::default() };
        let page = h.store().list(&List::new(filter, 50)).await.unwrap();
        assert_eq!(page.events.len(), events, "listed by {consumer}");
    }
    assert_eq!(h.store().release(lease.token, &[held]).await.unwrap(), [held]);
    age(&h, 2 * HOUR).await;
    assert_eq!(ids(&claim_new(&h).await).len(), 3, "all but the dead one");
    assert!(claim(&h, 10).await.deliveries.is_empty());
    // New events reach the new name only.
    enqueue_one(&h, draft("later")).await;
    let lanes: Vec<_> = find(&h, "later").await.deliveries.into_iter().map(|one| one.lane).collect();
    assert_eq!(lanes, [NEW, "other"]);
}

/// A.7: the inbox moves too.
pub async fn what_was_consumed_is_not_consumed_again<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    h.make_counter("effect").await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let mut tx = h.store().begin().await.unwrap();
    assert!(consume(&h, &mut *tx, LANE, &lease).await.unwrap());
    h.store().commit(tx).await.unwrap();

    assert_eq!(rename(&h).await, Renamed { subscriptions: 1, deliveries: 0, received: 1, attempts: 1 });
    h.store().redrive("e", NEW, None).await.unwrap();
    let again = claim_new(&h).await;
    assert_eq!(ids(&again), ["e"]);
    let mut tx = h.store().begin().await.unwrap();
    assert!(!consume(&h, &mut *tx, NEW, &again).await.unwrap(), "it is in the inbox");
    h.store().commit(tx).await.unwrap();
    assert_eq!(h.counter("effect").await, 1);
    assert_eq!(listed(&h, "e").await, EventStatus::Consumed);
}

/// A consumer that claimed under the old name is rolled back, alone and in a batch: its inbox row would have the old name. The
/// effect happens once, under the new name.
pub async fn a_transaction_under_the_old_name_is_rolled_back<H: Harness>(h: H) {
    h.make_counter("effect").await;
    let mut effects = 0;
    for (from, to, events) in [(LANE, NEW, 1), (NEW, LANE, 3)] {
        subscribe(&h, TOPIC, from, Via::Local).await;
        enqueue(&h, (0..events).map(|n| draft(format!("{from}{n}")))).await;
        let claim_as = async |lane: &str| h.store().claim(&Claim { lane: lane.into(), ..wanted(10) }).await.unwrap();
        let lease = claim_as(from).await;
        ruled(h.store().rename_consumer(from, to).await).expect("it is allowed");
        let mut tx = h.store().begin().await.unwrap();
        let lost = consume(&h, &mut *tx, from, &lease).await.unwrap_err();
        assert!(matches!(lost, Error::LeaseLost), "{events}: {lost:?}");
        drop(tx);
        assert_eq!(h.counter("effect").await, effects);

        age(&h, HOUR).await;
        let lease = claim_as(to).await;
        let mut tx = h.store().begin().await.unwrap();
        assert!(consume(&h, &mut *tx, to, &lease).await.unwrap(), "nothing is left of the other transaction");
        h.store().commit(tx).await.unwrap();
        effects += events;
        assert_eq!(h.counter("effect").await, effects);
    }
    assert!(h.store().counts().await.unwrap().is_empty(), "nothing waits");
}

/// A consumer's transaction is open while the rename runs: whichever ends first, the effect happens once, and the inbox has it
/// under the new name.
pub async fn a_rename_beside_an_open_transaction_has_one_effect<H: Harness>(h: H) {
    h.make_counter("effect").await;
    for round in 1..=10 {
        let (from, to) = (format!("c{round}"), format!("c{}", round + 1));
        subscribe(&h, TOPIC, &from, Via::Local).await;
        enqueue_one(&h, draft(format!("e{round}"))).await;
        let claim_as = async |lane: &str| h.store().claim(&Claim { lane: lane.into(), ..wanted(10) }).await.unwrap();
        let lease = claim_as(&from).await;
        let mut tx = h.store().begin().await.unwrap();
        let renaming = tokio::spawn({
            let (h, from, to) = (h.clone(), from.clone(), to.clone());
            async move { h.store().rename_consumer(&from, &to).await }
        });
        match consume(&h, &mut *tx, &from, &lease).await {
            Ok(first) => {
                assert!(first);
                h.store().commit(tx).await.unwrap();
            }
            Err(Error::LeaseLost | Error::TransactionLost(_)) => drop(tx),
            Err(error) => panic!("{error:?}"),
        }
        ruled(renaming.await.unwrap()).expect("it is allowed");
        // Again under the new name, as a redrive would.
        age(&h, HOUR).await;
        h.store().redrive(&format!("e{round}"), &to, None).await.unwrap();
        let lease = claim_as(&to).await;
        let mut tx = h.store().begin().await.unwrap();
        consume(&h, &mut *tx, &to, &lease).await.unwrap();
        h.store().commit(tx).await.unwrap();
        assert_eq!(h.counter("effect").await, round, "round {round}");
    }
}

/// The token of a claim is good for the moved deliveries: what happened outside the database is not repeated.
pub async fn a_worker_may_still_write_what_it_holds<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["settled", "failed", "dead", "given-back"].map(draft)).await;
    let lease = claim(&h, 4).await;
    rename(&h).await;
    let [settled, failing, dead, given_back] = lease.ids()[..] else { panic!("{lease:?}") };
    assert_eq!(h.store().extend(lease.token, &lease.ids(), LEASE).await.unwrap().len(), 4);
    assert_eq!(h.store().settle(lease.token, &[settled], History::Keep).await.unwrap(), [settled]);
    assert_eq!(h.store().retry(lease.token, &[failed(failing, HOUR)], History::Keep).await.unwrap(), [failing]);
    assert_eq!(h.store().bury(lease.token, &[buried(dead)], History::Keep).await.unwrap(), [dead]);
    assert_eq!(h.store().release(lease.token, &[given_back]).await.unwrap(), [given_back]);
    for (id, status) in
        [("settled", EventStatus::Consumed), ("failed", EventStatus::Retrying), ("dead", EventStatus::Failed)]
    {
        let found = find(&h, id).await;
        assert_eq!(found.consumptions.iter().map(|one| one.consumer.as_str()).collect::<Vec<_>>(), [NEW], "{id}");
        assert_eq!(found.standing().status, status, "{id}");
    }
    assert_eq!(ids(&claim_new(&h).await), ["given-back"]);
}

/// F17: a key keeps its order over the rename, and a dead head still holds it.
pub async fn a_key_stays_in_order<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    enqueue(&h, keyed("b", 2)).await;
    bury_head(&h, "a1").await;
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["b1", "b2"], "a2 and a3 are parked behind a1, b is leased");
    rename(&h).await;
    enqueue(&h, [draft("a4").key("a"), draft("b3").key("b")]).await;
    assert!(claim_new_keyed(&h).await.deliveries.is_empty(), "a is held, b is leased");
    age(&h, HOUR).await;
    let rules = RedriveRules::default();
    h.store().redrive_event("a1", None, &rules).await.expect("it is allowed");
    let mut claimed = Vec::new();
    loop {
        let lease = claim_new_keyed(&h).await;
        if lease.deliveries.is_empty() {
            break;
        }
        claimed.extend(ids(&lease).into_iter().map(str::to_owned));
        let settled = h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
        assert_eq!(settled.len(), lease.deliveries.len());
    }
    let of = |key: &str| claimed.iter().filter(|id| id.starts_with(key)).cloned().collect::<Vec<_>>();
    assert_eq!(
        (of("a"), of("b")),
        (["a1", "a2", "a3", "a4"].map(String::from).into(), ["b1", "b2", "b3"].map(String::from).into())
    );
}

/// D.2: the old program registers again, the new one too: both find what the rename has written.
pub async fn a_restart_changes_nothing<H: Harness>(h: H) {
    let mut disabled = Subscription::new(TOPIC, LANE, Via::Local);
    (disabled.enabled, disabled.sort_order) = (false, 7);
    disabled.description = Some("points for orders".into());
    h.store().set_subscription(&disabled).await.unwrap();
    rename(&h).await;
    for consumer in [LANE, NEW] {
        h.store().register(&Subscription::new(TOPIC, consumer, Via::Local)).await.unwrap();
    }
    let stored = h.store().subscriptions(None).await.unwrap();
    let stored: Vec<_> = stored.into_iter().map(|one| one.subscription).collect();
    assert_eq!(stored, [Subscription { consumer: NEW.into(), ..disabled.clone() }]);
    // And back again.
    ruled(h.store().rename_consumer(NEW, LANE).await).expect("it is allowed");
    let stored = h.store().subscriptions(None).await.unwrap();
    assert_eq!(stored.into_iter().map(|one| one.subscription).collect::<Vec<_>>(), [disabled]);
}

/// A remote consumer reports under its new name.
pub async fn an_expected_report_comes_under_the_new_name<H: Harness>(h: H) {
    subscribe(&h, TOPIC, LANE, Via::External).await;
    enqueue_one(&h, draft("e")).await;
    h.store().append_consumption(&report("e", LANE, false, true)).await.unwrap();
    assert_eq!(rename(&h).await, Renamed { subscriptions: 1, deliveries: 0, received: 0, attempts: 2 });
    h.store().append_consumption(&report("e", NEW, true, false)).await.unwrap();
    let attempts: Vec<_> = find(&h, "e").await.consumptions.iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, [0, 1, 2]);
    assert_eq!(listed(&h, "e").await, EventStatus::Consumed);
}

/// A producer's transaction that is open during the rename may deliver to the old name. A second call moves that, although the
/// new name is in use by then.
pub async fn what_is_left_moves_with_a_second_call<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["before", "left"].map(draft)).await;
    let outbox = Outbox::new(h.store().clone());
    let mut tx = h.store().begin().await.unwrap();
    outbox.enqueue_many(&mut *tx, [draft("during")]).await.unwrap();
    let renaming = tokio::spawn({
        let h = h.clone();
        async move { h.store().rename_consumer(LANE, NEW).await }
    });
    h.store().commit(tx).await.unwrap();
    ruled(renaming.await.unwrap()).expect("it is allowed");
    // A delivery that is left for certain: its event had none for the new name.
    let lease = claim_new(&h).await;
    h.store().settle(lease.token, &lease.ids(), History::Omit).await.unwrap();
    h.store().redrive("left", LANE, None).await.unwrap();
    let again = rename(&h).await;
    assert_eq!(again.subscriptions, 0);
    let mut claimed: Vec<_> = ids(&lease).into_iter().map(str::to_owned).collect();
    claimed.extend(ids(&claim_new(&h).await).into_iter().map(str::to_owned));
    claimed.sort();
    assert_eq!(claimed, ["before", "during", "left", "left"]);
    assert_eq!(refused(&h, LANE, NEW).await, Refusal::NoSuchConsumer(LANE.into()), "nothing is left");
    // Two names of one event are two consumers.
    h.store().redrive("left", LANE, None).await.unwrap();
    assert_eq!(refused(&h, LANE, NEW).await, Refusal::NameInUse(NEW.into()));
    assert_eq!(find(&h, "left").await.deliveries.len(), 2, "nothing is written");
}

/// What has no name, a name that is taken, and a queue: nothing is written.
pub async fn bad_names_are_refused<H: Harness>(h: H) {
    assert_eq!(refused(&h, LANE, NEW).await, Refusal::NoSuchConsumer(LANE.into()));
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    for to in ["", "two words", "rabbitmq", "postrider-x", LANE] {
        let error = h.store().rename_consumer(LANE, to).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { field: "to", .. }), "{to}: {error:?}");
    }
    // A subscription, a delivery or an inbox row is use.
    subscribe(&h, "order.refunded", "subscribed", Via::Local).await;
    h.store().redrive("e", "delivered", None).await.unwrap();
    let mut tx = h.store().begin().await.unwrap();
    let receipt = Receipt { consumer: "received", event_id: "x", topic: TOPIC, tenant_id: None, idempotency_key: None };
    h.store().receive(&mut *tx, &receipt).await.unwrap();
    h.store().commit(tx).await.unwrap();
    for to in ["subscribed", "delivered", "received"] {
        assert_eq!(refused(&h, LANE, to).await, Refusal::NameInUse(to.into()));
    }
    subscribe(&h, TOPIC, "queued", Via::RabbitMq).await;
    assert_eq!(refused(&h, "queued", NEW).await, Refusal::BrokerQueue("queued".into()));
    assert_eq!(status(&h, "e").await, DeliveryStatus::New);
    assert!(subscribers(&h).await.contains(&(TOPIC.to_owned(), LANE.to_owned())));
}

/// Two operators at once: one rename happens.
pub async fn concurrent_renames_have_one_winner<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(20)).await;
    let renames = ["one", "two", "three"].map(|to| {
        let h = h.clone();
        async move { ruled(h.store().rename_consumer(LANE, to).await) }
    });
    let answers = together(renames).await;
    let won: Vec<_> = answers.iter().flatten().collect();
    assert!(matches!(&won[..], [one] if one.deliveries == 20), "{answers:?}");
    let lost = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(lost.into_iter().all(|refusal| *refusal == Refusal::NoSuchConsumer(LANE.into())), "{answers:?}");
    assert_eq!(subscribers(&h).await.len(), 1);
    assert_eq!(h.store().counts().await.unwrap().len(), 1);
}
