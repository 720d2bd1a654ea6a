//! What operators read: counters per minute, failures in groups, lease holders, waiting times of lanes.

use std::time::Duration;

use postrider::Via;
use postrider::failures::failures;
use postrider::prelude::*;
use postrider::store::{Claim, Failed, Filter, History, JobPlan, JobStart, NewOperation, Prunable, Prune, Steer};
use time::OffsetDateTime;

use crate::Harness;
use crate::fold::{fold_all, report};
use crate::steps::*;

/// The sums of created, sent, consumed, failed and dead over the last two hours.
async fn counted(h: &impl Harness) -> [u64; 5] {
    let now = h.store().now().await.unwrap();
    let minutes = h.store().figures(now - 2 * HOUR, now + HOUR).await.unwrap();
    assert!(minutes.windows(2).all(|pair| pair[0].at < pair[1].at), "{minutes:?}");
    assert!(minutes.iter().all(|minute| minute.at.second() == 0 && minute.at.nanosecond() == 0));
    minutes.iter().fold([0; 5], |sum, minute| {
        let each = [minute.created, minute.sent, minute.consumed, minute.failed, minute.dead];
        std::array::from_fn(|n| sum[n] + each[n])
    })
}

/// D.13: each change is counted once, however often it is folded.
pub async fn minutes_count_each_change_once<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["done", "dead", "retried"].map(draft)).await;
    fold_all(&h).await;
    assert_eq!(counted(&h).await, [3, 0, 0, 0, 0]);
    let lease = claim(&h, 3).await;
    let [done, dead, retried] = lease.ids()[..] else { panic!("{lease:?}") };
    h.store().settle(lease.token, &[done], History::Keep).await.unwrap();
    h.store().bury(lease.token, &[buried(dead)], History::Keep).await.unwrap();
    h.store().retry(lease.token, &[failed(retried, Duration::ZERO)], History::Keep).await.unwrap();
    for _ in 0..2 {
        fold_all(&h).await;
        assert_eq!(counted(&h).await, [3, 3, 1, 1, 1]);
    }
    let again = claim(&h, 1).await;
    h.store().retry(again.token, &[failed(again.ids()[0], HOUR)], History::Keep).await.unwrap();
    fold_all(&h).await;
    assert_eq!(counted(&h).await, [3, 3, 1, 1, 1], "it is retried still");
    // An event that finished before the first fold counts as well.
    enqueue_one(&h, draft("quick")).await;
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    fold_all(&h).await;
    assert_eq!(counted(&h).await, [4, 4, 2, 1, 1]);
    age(&h, 3 * HOUR).await;
    assert_eq!(counted(&h).await, [0; 5], "in their time");
}

/// D.13: grouped by consumer and kind of error, the largest group first. A failure that succeeded later is not listed.
pub async fn failures_are_grouped_by_consumer_and_kind<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "remote", Via::External).await;
    enqueue(&h, drafts(6)).await;
    let lease = claim(&h, 6).await;
    for (n, id) in lease.ids().into_iter().enumerate() {
        let error = if n < 4 { format!("no wallet {n}") } else { "timeout".into() };
        let failure = Failed { id, after: HOUR, error, code: Some("E1".into()) };
        h.store().retry(lease.token, &[failure], History::Keep).await.unwrap();
    }
    for n in 0..2 {
        let failure = report(&format!("e{n:05}"), "remote", false, false);
        h.store().append_consumption(&failure).await.unwrap();
    }
    fold_all(&h).await;
    let found = failures(h.store(), &postrider::Scope::default()).await.unwrap();
    let groups: Vec<_> =
        found.groups.iter().map(|g| (g.consumer.as_str(), g.fingerprint.as_str(), g.events, g.dead)).collect();
    assert_eq!(groups, [(LANE, "no wallet #", 4, 0), (LANE, "timeout", 2, 0), ("remote", "", 2, 2)]);
    assert!(!found.cut);
    let wallet = &found.groups[0];
    assert!(wallet.sample.starts_with("no wallet ") && wallet.code.as_deref() == Some("E1"), "{wallet:?}");
    assert!(wallet.first_at <= wallet.last_at);
    assert!(is_stored(&h, &wallet.sample_event_id).await);
    for n in 0..2 {
        h.store().append_consumption(&report(&format!("e{n:05}"), "remote", true, false)).await.unwrap();
    }
    fold_all(&h).await;
    assert_eq!(
        failures(h.store(), &postrider::Scope::default()).await.unwrap().groups.len(),
        2,
        "what went well since is no failure"
    );
}

/// CONTRACT: each lease is listed with its owner while it runs.
pub async fn holdings_list_each_lease_with_its_owner<H: Harness>(h: H) {
    let store = h.store();
    assert!(store.holdings().await.unwrap().is_empty());
    subscribe_lane(&h).await;
    enqueue(&h, drafts(3)).await;
    let claimed = store.claim(&Claim { owner: "a".into(), ..wanted(2) }).await.unwrap();
    store.acquire_lease("postrider.rollup", "b", LEASE).await.unwrap().unwrap();
    let slot = store.now().await.unwrap() + HOUR;
    store
        .plan_job(&JobPlan { name: "reaper", schedule: "0 0 * * * ?", zone: "UTC", next_slot: Some(slot) })
        .await
        .unwrap();
    let start = JobStart { name: "reaper", slot: None, next_slot: Some(slot), owner: "c", lease: LEASE };
    store.begin_job(&start).await.unwrap().unwrap();
    store.create_operation(&NewOperation::redrive("op", Filter::default())).await.unwrap();
    store.claim_operation("d", LEASE).await.unwrap().unwrap();
    let held = store.holdings().await.unwrap();
    let listed: Vec<_> =
        held.iter().map(|one| (one.owner.as_str(), one.kind.as_str(), one.name.as_str(), one.count)).collect();
    let expected = [
        ("a", "lane", LANE, 2),
        ("b", "lease", "postrider.rollup", 1),
        ("c", "job", "reaper", 1),
        ("d", "operation", "op", 1),
    ];
    assert_eq!(listed, expected);
    let now = OffsetDateTime::now_utc();
    assert!(held.iter().all(|one| is_about((one.until - now).unsigned_abs(), LEASE)), "{held:?}");
    store.release(claimed.token, &claimed.ids()).await.unwrap();
    assert_eq!(store.holdings().await.unwrap().len(), 3);
    age(&h, HOUR).await;
    assert!(store.holdings().await.unwrap().is_empty(), "an expired lease has no holder");
}

/// CONTRACT: how long the oldest delivery of each lane has been due.
pub async fn oldest_due_is_the_longest_wait_of_each_lane<H: Harness>(h: H) {
    for lane in ["a", "b", "c"] {
        subscribe(&h, TOPIC, lane, Via::Local).await;
    }
    enqueue_one(&h, draft("keyed").key("k")).await;
    age(&h, HOUR).await;
    enqueue_one(&h, draft("e")).await;
    enqueue_one(&h, draft("delayed").delay(HOUR)).await;
    let keyed = Claim { lane: "b".into(), ..wanted(10) };
    let lease = h.store().claim_keyed(&keyed, postrider::store::DeadHead::Hold).await.unwrap();
    h.store().settle(lease.token, &lease.ids(), History::Omit).await.unwrap();
    let waits = h.store().oldest_due(&["a", "b", "unknown"]).await.unwrap();
    assert!(waits[0].is_some_and(|wait| is_about(wait, HOUR)), "{waits:?}");
    assert!(waits[1].is_some_and(|wait| is_about(wait, Duration::ZERO)), "{waits:?}");
    assert_eq!(waits[2], None);
}

/// A.5: a dead delivery is listed with its event, its error, its time and the number of deliveries behind it.
pub async fn dead_letters_tell_what_waits_behind_them<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, keyed("a", 3)).await;
    enqueue(&h, keyed("b", 1)).await;
    enqueue_one(&h, draft("plain")).await;
    assert!(h.store().dead_letters(LANE, 10).await.unwrap().is_empty());
    let plain = claim(&h, 1).await;
    h.store().bury(plain.token, &[buried(plain.ids()[0])], History::Omit).await.unwrap();
    let keyed = h.store().claim_keyed(&wanted(10), postrider::store::DeadHead::Hold).await.unwrap();
    let first = keyed.deliveries.iter().find(|one| one.envelope.event_id.as_str() == "a1").unwrap();
    let (head, trace) = (first.id, first.envelope.trace_id.clone());
    h.store().bury(keyed.token, &[buried(head)], History::Keep).await.unwrap();
    let dead = h.store().find_dead(&[head, keyed.ids()[1]]).await.unwrap();
    let [letter] = &dead[..] else { panic!("only one of them is dead: {dead:?}") };
    assert_eq!((letter.id, letter.consumer.as_str(), letter.event_id.as_str()), (head, LANE, "a1"));
    assert_eq!((letter.topic.as_str(), letter.key.as_deref(), &letter.trace_id), (TOPIC, Some("a"), &trace));
    assert_eq!((letter.attempts, letter.error.as_deref(), letter.code.as_deref()), (1, Some("boom"), Some("E1")));
    assert_eq!(letter.held, 2, "two of its key, in its lane");
    let now = h.store().now().await.unwrap();
    assert!((now - letter.died_at).abs() < MINUTE, "{letter:?} at {now}");
    let all = h.store().dead_letters(LANE, 10).await.unwrap();
    let mut listed: Vec<_> = all.iter().map(|one| (one.event_id.as_str(), one.held)).collect();
    listed.sort_unstable();
    assert_eq!(listed, [("a1", 2), ("plain", 0)]);
    assert_eq!(h.store().dead_letters(LANE, 1).await.unwrap().len(), 1, "no more than its limit");
    assert!(h.store().dead_letters("other", 10).await.unwrap().is_empty());
    h.store().redrive("a1", LANE, None).await.unwrap();
    assert!(h.store().find_dead(&[head]).await.unwrap().is_empty(), "it is redriven");
}

/// G.3: old finished operations and old figures are removed; running operations stay.
pub async fn old_operations_and_figures_are_pruned<H: Harness>(h: H) {
    let store = h.store();
    for id in ["old", "running"] {
        store.create_operation(&NewOperation::redrive(id, Filter::default())).await.unwrap();
    }
    store.steer_operation("old", Steer::Cancel).await.unwrap().unwrap();
    enqueue_one(&h, draft("e")).await;
    fold_all(&h).await;
    age(&h, 24 * HOUR).await;
    store.create_operation(&NewOperation::redrive("young", Filter::default())).await.unwrap();
    store.steer_operation("young", Steer::Cancel).await.unwrap().unwrap();
    enqueue_one(&h, draft("f")).await;
    fold_all(&h).await;
    let prune = |what| Prune { what, older_than: HOUR, after: 0, limit: 100 };
    assert_eq!(store.prune(&prune(Prunable::Operations)).await.unwrap().removed, 1);
    let left: Vec<_> = store.operations(None, 10).await.unwrap().into_iter().map(|one| one.request.id).collect();
    assert_eq!(left, ["young", "running"]);
    assert_eq!(store.prune(&prune(Prunable::Figures)).await.unwrap().removed, 1);
    let now = store.now().await.unwrap();
    assert_eq!(store.figures(now - 48 * HOUR, now + HOUR).await.unwrap().len(), 1);
}
