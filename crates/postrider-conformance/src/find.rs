//! `find`, `counts`, `oldest_pending`, `next_due`, `now`: what operators and relays read.

use std::time::Duration;

use postrider::clock::ManualClock;
use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::{Claim, DeadHead, History, LaneCounts};
use postrider::{Outbox, Via};

use crate::Harness;
use crate::steps::*;

/// An unknown event is `None`, not an error.
pub async fn an_unknown_event_is_not_found<H: Harness>(h: H) {
    assert!(h.store().find("unknown").await.unwrap().is_none());
    assert!(h.store().find("").await.unwrap().is_none());
}

/// Sorted by lane and target; attempts by consumer and number.
pub async fn deliveries_are_listed_by_lane<H: Harness>(h: H) {
    for consumer in ["c", "a", "B"] {
        subscribe(&h, TOPIC, consumer, Via::Local).await;
    }
    subscribe(&h, TOPIC, "remote", Via::RabbitMq).await;
    enqueue_one(&h, draft("e")).await;
    h.store().redrive("e", "rabbitmq", Some("remote")).await.unwrap();
    let found = find(&h, "e").await;
    let places: Vec<_> = found.deliveries.iter().map(|d| (d.lane.as_str(), d.target.as_deref())).collect();
    assert_eq!(places, [("B", None), ("a", None), ("c", None), ("rabbitmq", None), ("rabbitmq", Some("remote"))]);
    for consumer in ["c", "a"] {
        let claim = Claim { lane: consumer.into(), ..wanted(1) };
        for _ in 0..2 {
            let lease = h.store().claim(&claim).await.unwrap();
            let failure = [failed(lease.deliveries[0].id, Duration::ZERO)];
            h.store().retry(lease.token, &failure, History::Keep).await.unwrap();
        }
    }
    let attempts = find(&h, "e").await.consumptions;
    let attempts: Vec<_> = attempts.iter().map(|c| (c.consumer.as_str(), c.attempt)).collect();
    assert_eq!(attempts, [("a", 1), ("a", 2), ("c", 1), ("c", 2), ("remote", 0)]);
}

/// D.5: readers see no difference between kinds of consumers: each begins with attempt 0, whose result is unknown.
pub async fn every_expected_consumer_begins_with_attempt_0<H: Harness>(h: H) {
    for (consumer, via) in
        [("local", Via::Local), ("pull", Via::Pull), ("remote", Via::External), ("queue", Via::RabbitMq)]
    {
        subscribe(&h, TOPIC, consumer, via).await;
    }
    enqueue_one(&h, draft("e")).await;
    let history = async || -> Vec<(String, u32, Option<bool>)> {
        let history = find(&h, "e").await.history();
        history.into_iter().map(|one| (one.consumer, one.attempt, one.success)).collect()
    };
    let expected = ["local", "pull", "queue", "remote"].map(|consumer| (consumer.to_owned(), 0, None));
    assert_eq!(history().await, expected);
    let lease = h.store().claim(&Claim { lane: "pull".into(), ..wanted(1) }).await.unwrap();
    h.store().retry(lease.token, &[failed(lease.deliveries[0].id, Duration::ZERO)], History::Keep).await.unwrap();
    let lease = h.store().claim(&Claim { lane: "pull".into(), ..wanted(1) }).await.unwrap();
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    let pull = [None, Some(false), Some(true)].into_iter().zip(0..).map(|(success, n)| ("pull".to_owned(), n, success));
    let [local, _, queue, remote] = expected;
    assert_eq!(history().await, [local].into_iter().chain(pull).chain([queue, remote]).collect::<Vec<_>>());
    let found = find(&h, "e").await;
    assert!(found.history().iter().filter(|one| one.attempt == 0).all(|one| one.created_at >= found.created_at));
    assert_eq!(found.standing().expected, 4, "nothing is expected twice");
}

/// A delivery shows the owner, start and end of its lease.
pub async fn a_lease_is_shown_with_its_owner_and_times<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let waiting = delivery(&h, "e").await;
    assert_eq!((waiting.status, waiting.attempts, waiting.held), (DeliveryStatus::New, 0, false));
    assert_eq!((waiting.lock_owner, waiting.lock_time, waiting.lock_until), (None, None, None));
    let claim = Claim { owner: "host-1/4711".into(), ..wanted(1) };
    h.store().claim(&claim).await.unwrap();
    let now = h.store().now().await.unwrap();
    let leased = delivery(&h, "e").await;
    assert_eq!((leased.status, leased.attempts), (DeliveryStatus::Processing, 1));
    assert_eq!(leased.lock_owner.as_deref(), Some("host-1/4711"));
    assert!(is_about((now - leased.lock_time.unwrap()).unsigned_abs(), Duration::ZERO));
    assert!(is_about((leased.lock_until.unwrap() - now).unsigned_abs(), LEASE));
    age(&h, HOUR).await;
    assert_eq!(status(&h, "e").await, DeliveryStatus::Processing, "until someone claims it again");
}

/// Counts are by lane. A held delivery counts under its status and again as held.
pub async fn counts_are_by_lane_and_status<H: Harness>(h: H) {
    assert!(h.store().counts().await.unwrap().is_empty());
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, drafts(10)).await;
    let lease = claim(&h, 6).await;
    let failures: Vec<_> = lease.ids()[..2].iter().map(|id| failed(*id, HOUR)).collect();
    h.store().retry(lease.token, &failures, History::Omit).await.unwrap();
    h.store().bury(lease.token, &[buried(lease.ids()[2])], History::Omit).await.unwrap();
    enqueue(&h, keyed("a", 3)).await;
    bury_head(&h, "a1").await;
    claim_all_keyed(&h, DeadHead::Hold).await;
    let counts = h.store().counts().await.unwrap();
    let expected = LaneCounts { new: 4 + 2, processing: 3, failed: 2, dead: 2, held: 2 };
    assert_eq!(counts[LANE], expected);
    let untouched = LaneCounts { new: 13, ..LaneCounts::default() };
    assert_eq!(counts["other"], untouched);
    assert_eq!(counts.len(), 2);
}

/// The oldest over all lanes, without delayed and dead deliveries.
pub async fn oldest_pending_is_the_wait_of_the_oldest_due<H: Harness>(h: H) {
    assert_eq!(h.store().oldest_pending().await.unwrap(), None);
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("dead")).await;
    let lease = claim(&h, 1).await;
    h.store().bury(lease.token, &[buried(lease.ids()[0])], History::Omit).await.unwrap();
    age(&h, 9 * HOUR).await;
    enqueue_one(&h, draft("delayed").delay(20 * HOUR)).await;
    assert_eq!(h.store().oldest_pending().await.unwrap(), None);

    enqueue_one(&h, draft("a1").key("a")).await;
    age(&h, 2 * HOUR).await;
    enqueue_one(&h, draft("e")).await;
    age(&h, HOUR).await;
    let wait = h.store().oldest_pending().await.unwrap().unwrap();
    assert!(is_about(wait, 3 * HOUR), "{wait:?}");
    settle(&h, &claim_keyed(&h, 1).await).await;
    let wait = h.store().oldest_pending().await.unwrap().unwrap();
    assert!(is_about(wait, HOUR), "{wait:?}");
}

/// The earliest of: due now, the end of a delay or retry, the expiry of a lease. Of one lane.
pub async fn next_due_is_the_time_until_something_can_be_claimed<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let next = async || h.store().next_due(&[LANE]).await.unwrap()[0];
    assert_eq!(next().await, None);
    enqueue_one(&h, draft("late").delay(5 * HOUR)).await;
    let wait = next().await.unwrap();
    assert!(is_about(wait, 5 * HOUR), "{wait:?}");
    enqueue_one(&h, draft("a1").key("a").delay(2 * HOUR)).await;
    let wait = next().await.unwrap();
    assert!(is_about(wait, 2 * HOUR), "{wait:?}");
    enqueue_one(&h, draft("now")).await;
    age(&h, MINUTE).await;
    assert_eq!(next().await, Some(Duration::ZERO), "it could be claimed a minute ago");
    let lease = claim(&h, 1).await;
    let wait = next().await.unwrap();
    assert!(is_about(wait, LEASE), "{wait:?}");
    let waits = h.store().next_due(&["other", LANE, "another"]).await.unwrap();
    assert!(matches!(waits[..], [None, Some(_), None]), "{waits:?}");
    h.store().bury(lease.token, &[buried(lease.ids()[0])], History::Omit).await.unwrap();
    let wait = next().await.unwrap();
    assert!(is_about(wait, 2 * HOUR - MINUTE), "{wait:?}");
}

/// B.6: all stored times come from the database's clock, whatever the clock of the process says; and that is roughly correct.
pub async fn times_are_the_databases<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let before = h.store().now().await.unwrap();
    let outbox = Outbox::new(h.store().clone()).clock(ManualClock::at(before + HOUR));
    let mut tx = h.store().begin().await.unwrap();
    outbox.enqueue(&mut *tx, draft("e")).await.unwrap();
    h.store().commit(tx).await.unwrap();
    let after = h.store().now().await.unwrap();
    let found = find(&h, "e").await;
    // Stores keep milliseconds, so a finer clock value may be truncated.
    let grain = Duration::from_millis(1);
    assert!(before - grain <= found.created_at && found.created_at <= after + grain);
    assert!(before - grain <= found.deliveries[0].due_at && found.deliveries[0].due_at <= after + grain);
    assert!(is_about((found.envelope.occurred_at - before).unsigned_abs(), HOUR), "the one time of the process");
    assert!(is_about((time::OffsetDateTime::now_utc() - after).unsigned_abs(), Duration::ZERO));
    assert!(found.created_at.offset().is_utc() && after.offset().is_utc());
}

/// Only committed events are visible to other transactions.
pub async fn sight_returns_committed_events_only<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("there")).await;
    let mut tx = h.store().begin().await.unwrap();
    Outbox::new(h.store().clone()).enqueue(&mut *tx, draft("open")).await.unwrap();
    assert_eq!(h.store().sight(&["open", "there", "never"]).await.unwrap(), ["there"]);
    h.store().commit(tx).await.unwrap();
    let mut sighted = h.store().sight(&["open", "there", "never"]).await.unwrap();
    sighted.sort();
    assert_eq!(sighted, ["open", "there"]);
}

/// The pause is stored, so it holds for every instance and after a restart.
pub async fn a_lane_is_paused_until_it_is_resumed<H: Harness>(h: H) {
    assert!(h.store().paused().await.unwrap().is_empty());
    for lane in ["points", "Points", "points"] {
        h.store().set_paused(lane, true).await.unwrap();
    }
    assert_eq!(h.store().paused().await.unwrap().into_iter().collect::<Vec<_>>(), ["Points", "points"]);
    h.store().set_paused("Points", false).await.unwrap();
    h.store().set_paused("unknown", false).await.unwrap();
    assert_eq!(h.store().paused().await.unwrap().into_iter().collect::<Vec<_>>(), ["points"]);
}
