//! `claim_keyed`: deliveries of a key stay in order. The cases check the log that the consumer wrote, not what the
//! store reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::store::{Claim, DeadHead, DeliveryId, History, Lease, Redriven};
use postrider::{Shards, Via};
use tokio::time::timeout;

use crate::Harness;
use crate::steps::*;

/// A claim takes the first deliveries of each key, without a gap, in the order of the events.
pub async fn a_run_is_gapless_and_in_order<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    let lease = claim_keyed(&h, 2).await;
    assert_eq!(ids(&lease), ["a1", "a2"]);
    let sequences: Vec<i64> = lease.deliveries.iter().map(|d| d.id.sequence).collect();
    assert!(sequences.is_sorted() && sequences[0] != sequences[1], "{sequences:?}");
    settle(&h, &lease).await;
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a3"]);
}

/// Deliveries without a key are claimed only by `claim`.
pub async fn unkeyed_deliveries_are_left_alone<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("unkeyed")).await;
    assert!(claim_keyed(&h, 10).await.deliveries.is_empty());
}

/// F06: the limit holds over many keys too.
pub async fn limit_is_exact<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let many = (0..300).flat_map(|n| keyed(&format!("k{n}-"), 3));
    enqueue(&h, many).await;
    for limit in [1, 10, 100] {
        let lease = claim_keyed(&h, limit).await;
        assert!((1..=limit as usize).contains(&lease.deliveries.len()));
        let leased = h.store().counts().await.unwrap()[LANE].processing;
        assert_eq!(leased, lease.deliveries.len() as u64, "what was not returned is not leased");
        settle(&h, &lease).await;
    }
    // A single key can fill a claim.
    subscribe_lane(&h).await;
    let other = Claim { lane: "other".into(), ..wanted(100) };
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, keyed("hot", 150)).await;
    assert_eq!(h.store().claim_keyed(&other, DeadHead::Hold).await.unwrap().deliveries.len(), 100);
}

/// F17: while one claimer holds a part of a key, no other gets the rest.
pub async fn a_held_key_is_not_claimed_by_another<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 5)).await;
    let lease = claim_keyed(&h, 2).await;
    assert_eq!(ids(&lease), ["a1", "a2"]);
    assert!(claim_keyed(&h, 10).await.deliveries.is_empty());
    // The key stays held after its first delivery is settled.
    let first = [lease.deliveries[0].id];
    h.store().settle(lease.token, &first, History::Omit).await.unwrap();
    assert!(claim_keyed(&h, 10).await.deliveries.is_empty());
    h.store().settle(lease.token, &lease.ids(), History::Omit).await.unwrap();
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a3", "a4", "a5"]);
}

/// B.2, F05: a claim neither waits for a locked head nor takes the deliveries behind it.
pub async fn a_locked_head_is_neither_waited_for_nor_overtaken<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    enqueue(&h, keyed("b", 1)).await;
    let Some(locks) = h.hold_locks(LANE, 1).await else {
        return skipped("this store allows no second writer");
    };
    let claimed = timeout(PROMPTLY, claim_all_keyed(&h, DeadHead::Hold)).await;
    let claimed = claimed.expect("the claim waits for locks");
    assert_eq!(claimed.iter().flat_map(ids).collect::<Vec<_>>(), ["b1"]);
    drop(locks);
    // The rollback may reach the server after the drop returns.
    let freed = timeout(PROMPTLY, async {
        loop {
            let lease = claim_keyed(&h, 10).await;
            if !lease.deliveries.is_empty() {
                return lease;
            }
        }
    });
    assert_eq!(ids(&freed.await.expect("what is unlocked can be claimed")), ["a1", "a2", "a3"]);
}

/// B.3, F01: after its lease expires, a run is claimed again as a whole. The old token writes nothing.
pub async fn an_expired_run_is_claimed_again<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    let zombie = claim_keyed(&h, 2).await;
    age(&h, HOUR).await;
    let successor = claim_keyed(&h, 10).await;
    assert_eq!(ids(&successor), ["a1", "a2", "a3"]);
    nothing_is_written(&h, zombie.token, &zombie.ids(), "a1").await;
    nothing_is_written(&h, zombie.token, &zombie.ids(), "a2").await;
    settle(&h, &successor).await;
}

/// F17 order inverted on retry: the deliveries behind a failed one wait for it.
pub async fn a_failing_head_keeps_its_key_waiting<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    let lease = claim_keyed(&h, 1).await;
    assert_eq!(ids(&lease), ["a1"]);
    enqueue(&h, keyed("b", 1)).await;
    let failure = [failed(lease.deliveries[0].id, HOUR)];
    h.store().retry(lease.token, &failure, History::Omit).await.unwrap();
    let others = claim_all_keyed(&h, DeadHead::Hold).await;
    assert_eq!(others.iter().flat_map(ids).collect::<Vec<_>>(), ["b1"]);
    age(&h, 50 * MINUTE).await;
    assert!(claim_all_keyed(&h, DeadHead::Skip).await.iter().flat_map(ids).all(|id| id == "b1"));
    age(&h, 11 * MINUTE).await;
    let due = claim_all_keyed(&h, DeadHead::Hold).await;
    let due: Vec<&str> = due.iter().flat_map(ids).filter(|id| *id != "b1").collect();
    assert_eq!(due, ["a1", "a2", "a3"]);
}

/// G.2, F17: a delayed delivery holds those behind it, even if they are due.
pub async fn a_delayed_head_keeps_its_key_waiting<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, [draft("a1").key("a").delay(HOUR), draft("a2").key("a"), draft("b1").key("b")]).await;
    let others = claim_all_keyed(&h, DeadHead::Hold).await;
    assert_eq!(others.iter().flat_map(ids).collect::<Vec<_>>(), ["b1"]);
    for lease in &others {
        settle(&h, lease).await;
    }
    assert!(claim_all_keyed(&h, DeadHead::Hold).await.is_empty());
    age(&h, 61 * MINUTE).await;
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a1", "a2"]);
}

/// G.2, F17: a run ends before a delayed delivery, even if those behind it are due.
pub async fn a_run_ends_before_a_delay<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let delayed = draft("a3").key("a").delay(HOUR);
    enqueue(&h, [draft("a1").key("a"), draft("a2").key("a"), delayed, draft("a4").key("a"), draft("a5").key("a")])
        .await;
    let runs = claim_all_keyed(&h, DeadHead::Hold).await;
    assert_eq!(runs.iter().flat_map(ids).collect::<Vec<_>>(), ["a1", "a2"]);
    for lease in &runs {
        settle(&h, lease).await;
    }
    assert!(claim_all_keyed(&h, DeadHead::Hold).await.is_empty());
    age(&h, 61 * MINUTE).await;
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a3", "a4", "a5"]);
}

/// F18 one dead letter blocks its key: this is the default, and `counts` shows it.
pub async fn a_dead_head_holds_its_key<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    bury_head(&h, "a1").await;
    assert!(claim_all_keyed(&h, DeadHead::Hold).await.is_empty());
    age(&h, 9 * HOUR).await;
    assert!(claim_all_keyed(&h, DeadHead::Hold).await.is_empty());
    let counts = h.store().counts().await.unwrap()[LANE];
    assert_eq!((counts.dead, counts.held, counts.new), (1, 2, 2), "{counts:?}");
    assert!(delivery(&h, "a2").await.held && !delivery(&h, "a1").await.held);
    // A later event of the key waits as well.
    enqueue_one(&h, draft("a4").key("a")).await;
    assert!(claim_all_keyed(&h, DeadHead::Hold).await.is_empty());
    assert_eq!(h.store().counts().await.unwrap()[LANE].held, 3);
}

/// F18: the other policy continues without the dead delivery.
pub async fn a_dead_head_is_skipped_where_asked<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    bury_head(&h, "a1").await;
    let lease = h.store().claim_keyed(&wanted(10), DeadHead::Skip).await.unwrap();
    assert_eq!(ids(&lease), ["a2", "a3"]);
    settle(&h, &lease).await;
    let counts = h.store().counts().await.unwrap()[LANE];
    assert_eq!((counts.dead, counts.held, counts.new), (1, 0, 0), "{counts:?}");
}

/// F18: deliveries held under one policy are delivered under the other.
pub async fn a_change_of_policy_frees_held_deliveries<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    bury_head(&h, "a1").await;
    assert!(claim_all_keyed(&h, DeadHead::Hold).await.is_empty());
    assert_eq!(h.store().counts().await.unwrap()[LANE].held, 2);
    // One claim frees them; they may be returned only by the next.
    let mut freed = Vec::new();
    for _ in 0..2 {
        let lease = h.store().claim_keyed(&wanted(10), DeadHead::Skip).await.unwrap();
        freed.extend(ids(&lease).iter().map(ToString::to_string));
    }
    assert_eq!(freed, ["a2", "a3"]);
    assert_eq!(h.store().counts().await.unwrap()[LANE].held, 0);
}

/// F18: after an operator redrives the head, the key continues in order.
pub async fn a_redriven_dead_head_keeps_its_place_and_frees_its_followers<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 4)).await;
    bury_head(&h, "a1").await;
    assert!(claim_all_keyed(&h, DeadHead::Hold).await.is_empty());
    assert_eq!(h.store().redrive("a1", LANE, None).await.unwrap(), Redriven::Due);
    let lease = claim_keyed(&h, 10).await;
    assert_eq!(ids(&lease), ["a1", "a2", "a3", "a4"]);
    assert!(lease.deliveries.iter().all(|d| d.attempt == 1));
    assert_eq!(h.store().counts().await.unwrap()[LANE].held, 0);
    settle(&h, &lease).await;

    // A redriven delivery that was settled also keeps its place: the order is
    // that of the event sequence, not of the redrive.
    enqueue(&h, [draft("a5").key("a")]).await;
    assert_eq!(h.store().redrive("a2", LANE, None).await.unwrap(), Redriven::Made);
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a2", "a5"]);
}

/// D.8: the followers of a retried head are due together with it.
pub async fn a_redriven_failed_head_pulls_its_followers<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let late = draft("a4").key("a").delay(3 * HOUR);
    enqueue(&h, keyed("a", 3).into_iter().chain([late])).await;
    let lease = claim_keyed(&h, 1).await;
    let failure = [failed(lease.deliveries[0].id, HOUR)];
    h.store().retry(lease.token, &failure, History::Omit).await.unwrap();
    assert!(claim_all_keyed(&h, DeadHead::Hold).await.is_empty());
    assert_eq!(h.store().redrive("a1", LANE, None).await.unwrap(), Redriven::Due);
    assert_eq!(ids(&claim_keyed(&h, 10).await), ["a1", "a2", "a3"], "and not what is delayed by itself");
}

/// F17: when a delivery fails or is buried, those behind it are released and their attempts are not counted.
pub async fn a_failure_releases_the_rest_of_its_run_uncounted<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 4)).await;
    enqueue(&h, keyed("b", 2)).await;
    let leases = claim_all_keyed(&h, DeadHead::Hold).await;
    let holder = |id: &str| leases.iter().find(|lease| ids(lease).contains(&id)).unwrap();
    let row =
        |lease: &Lease, id: &str| lease.deliveries.iter().find(|d| d.envelope.event_id.as_str() == id).unwrap().id;
    let lease = holder("a1");
    h.store().settle(lease.token, &[row(lease, "a1")], History::Omit).await.unwrap();
    let failure = [failed(row(lease, "a2"), Duration::ZERO)];
    assert_eq!(h.store().retry(lease.token, &failure, History::Omit).await.unwrap(), [failure[0].id]);
    let after = |attempts, status| (attempts, status);
    for (id, expected) in [
        ("a2", after(1, DeliveryStatus::Failed)),
        ("a3", after(0, DeliveryStatus::New)),
        ("a4", after(0, DeliveryStatus::New)),
        // Another key of the same claim is not affected.
        ("b1", after(1, DeliveryStatus::Processing)),
        ("b2", after(1, DeliveryStatus::Processing)),
    ] {
        let row = delivery(&h, id).await;
        assert_eq!((row.attempts, row.status), expected, "{id}");
        assert_eq!(row.lock_owner.is_some(), id.starts_with('b'), "{id}");
    }
    let rest = [row(lease, "a3"), row(lease, "a4")];
    assert!(h.store().settle(lease.token, &rest, History::Omit).await.unwrap().is_empty());

    let lease = holder("b1");
    let burial = [buried(row(lease, "b1"))];
    h.store().bury(lease.token, &burial, History::Omit).await.unwrap();
    let b2 = delivery(&h, "b2").await;
    assert_eq!((b2.attempts, b2.status), (0, DeliveryStatus::New));
    let again = claim_keyed(&h, 10).await;
    assert_eq!(ids(&again), ["a2", "a3", "a4"]);
    let attempts: Vec<u32> = again.deliveries.iter().map(|d| d.attempt).collect();
    assert_eq!(attempts, [2, 1, 1]);
}

/// F18: two thousand deliveries behind a dead one do not delay other keys.
pub async fn followers_of_a_dead_head_do_not_starve_other_keys<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 1)).await;
    bury_head(&h, "a1").await;
    enqueue(&h, (2..=2_001).map(|n| draft(format!("a{n}")).key("a"))).await;
    enqueue(&h, keyed("b", 1)).await;
    let mut claims = 0;
    loop {
        claims += 1;
        let lease = claim_keyed(&h, 500).await;
        if ids(&lease) == ["b1"] {
            break;
        }
        assert!(lease.deliveries.is_empty(), "{:?}", ids(&lease));
        assert!(claims < 4, "b1 is starved");
    }
    // A held delivery is outside the index range that a claim scans.
    enqueue(&h, keyed("c", 1)).await;
    assert_eq!(ids(&claim_keyed(&h, 1).await), ["c1"]);
}

/// F18: a redrive runs while claimers mark the followers as held. Neither may miss the other's write.
pub async fn a_redrive_beside_claimers_strands_no_delivery<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    for round in 0..20 {
        let key = format!("k{round}-");
        enqueue(&h, keyed(&key, 10)).await;
        let head = format!("{key}1");
        bury_head(&h, &head).await;
        let redrive = tokio::spawn({
            let h = h.clone();
            async move { h.store().redrive(&head, LANE, None).await.unwrap() }
        });
        let claimers = (0..3).map(|_| {
            let h = h.clone();
            async move { claim_keyed(&h, 50).await }
        });
        let mut leases = together(claimers).await;
        assert_eq!(redrive.await.unwrap(), Redriven::Due);
        let mut handled = 0;
        while !leases.is_empty() {
            for lease in &leases {
                settle(&h, lease).await;
                handled += lease.deliveries.len();
            }
            leases = claim_all_keyed(&h, DeadHead::Hold).await;
        }
        assert_eq!(handled, 10, "round {round}: {:?}", h.store().counts().await.unwrap());
    }
}

/// DESIGN 6: keys that differ in case or in a space are different keys.
pub async fn keys_are_compared_byte_for_byte<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let keys = ["A", "a", "A ", "\u{e9}", "e\u{301}"];
    let first = keys.iter().enumerate().map(|(n, key)| draft(format!("{n}-1")).key(*key));
    let second = keys.iter().enumerate().map(|(n, key)| draft(format!("{n}-2")).key(*key));
    enqueue(&h, first.chain(second)).await;
    bury_head(&h, "0-1").await;
    let mut flowing: Vec<String> = Vec::new();
    for lease in claim_all_keyed(&h, DeadHead::Hold).await {
        flowing.extend(ids(&lease).iter().map(ToString::to_string));
    }
    flowing.sort();
    assert_eq!(flowing, ["1-1", "1-2", "2-1", "2-2", "3-1", "3-2", "4-1", "4-2"]);
}

/// A dead head blocks its key in its own lane only.
pub async fn a_key_is_ordered_within_its_lane_only<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, keyed("a", 2)).await;
    bury_head(&h, "a1").await;
    let other = Claim { lane: "other".into(), ..wanted(10) };
    let lease = h.store().claim_keyed(&other, DeadHead::Hold).await.unwrap();
    assert_eq!(ids(&lease), ["a1", "a2"]);
    settle(&h, &lease).await;
}

/// B.4: all deliveries of a key are in one shard.
pub async fn a_subset_of_shards_gets_only_its_own<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, (0..100).flat_map(|n| keyed(&format!("k{n}-"), 3))).await;
    let mut seen = BTreeSet::new();
    for shards in ["0-30", "31-63"] {
        let shards: Shards = shards.parse().unwrap();
        let claim = Claim { shards, ..wanted(500) };
        loop {
            let lease = h.store().claim_keyed(&claim, DeadHead::Hold).await.unwrap();
            if lease.deliveries.is_empty() {
                break;
            }
            for claimed in &lease.deliveries {
                assert!(shards.contains(claimed.envelope.shard()));
                assert!(seen.insert(claimed.id), "claimed twice");
            }
        }
    }
    assert_eq!(seen.len(), 300);
}

/// Claimers of a backlog return to keys that are free again, and do not touch keys that are held.
pub async fn a_backlog_hides_no_key_in_front_of_it<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, (0..1_200).map(|n| draft(format!("e{n}")).key(format!("key-{}", n % 100)))).await;
    let given_back = claim_keyed(&h, 200).await;
    let run_out = h.store().claim_keyed(&Claim { lease: MINUTE, ..wanted(200) }, DeadHead::Hold).await.unwrap();
    let held = claim_keyed(&h, 200).await;
    h.store().release(given_back.token, &given_back.ids()).await.unwrap();
    age(&h, 2 * MINUTE).await;
    let mut seen: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    loop {
        let lease = claim_keyed(&h, 200).await;
        if lease.deliveries.is_empty() {
            break;
        }
        for claimed in &lease.deliveries {
            seen.entry(claimed.envelope.key.clone().unwrap()).or_default().push(claimed.id.sequence);
        }
        settle(&h, &lease).await;
    }
    let keys = |lease: &Lease| -> BTreeSet<String> {
        lease.deliveries.iter().map(|claimed| claimed.envelope.key.clone().unwrap()).collect()
    };
    assert!(keys(&given_back).union(&keys(&run_out)).all(|key| seen.contains_key(key)), "they came back");
    assert!(keys(&held).iter().all(|key| !seen.contains_key(key)), "held keys are not claimed");
    assert_eq!(seen.len() + keys(&held).len(), 100);
    assert!(seen.values().all(|sequences| sequences.len() == 12 && sequences.is_sorted()), "{seen:?}");
}

/// F17, B.2: four claimers, random failures and one hot key. No key is held
/// twice at once, and the log of each key is in order.
pub async fn four_claimers_keep_the_order_of_every_key<H: Harness>(h: H) {
    consume_with_four(&h, 40, DeadHead::Hold).await;
    let counts = h.store().counts().await.unwrap();
    assert!(counts.is_empty(), "nothing is left: {counts:?}");
    the_log_is_in_order(&h, EVENTS).await;
}

/// F17, B.2: the same with large claims, which take the code path for a backlog.
pub async fn four_claimers_keep_the_order_of_a_backlog<H: Harness>(h: H) {
    consume_with_four(&h, 100, DeadHead::Hold).await;
    assert!(h.store().counts().await.unwrap().is_empty());
    the_log_is_in_order(&h, EVENTS).await;
}

/// F18: the same while some deliveries are buried and skipped.
pub async fn four_claimers_keep_the_order_where_dead_heads_are_skipped<H: Harness>(h: H) {
    let dead = consume_with_four(&h, 40, DeadHead::Skip).await;
    assert!(dead > 0, "the case is about dead ones");
    assert_eq!(h.store().counts().await.unwrap()[LANE].dead, dead as u64);
    the_log_is_in_order(&h, EVENTS - dead).await;
}

const EVENTS: usize = 2_000;

/// Half of the events share one hot key; the rest use thirty other keys.
async fn consume_with_four<H: Harness>(h: &H, limit: u32, policy: DeadHead) -> usize {
    subscribe_lane(h).await;
    let events = (0..EVENTS).map(|n| {
        let key = if n % 2 == 0 { "hot".into() } else { format!("key-{}", n % 31) };
        draft(format!("e{n}")).key(key)
    });
    enqueue(h, events).await;
    let scene =
        Arc::new(Scene { left: AtomicUsize::new(EVENTS), dead: AtomicUsize::new(0), holders: Mutex::default() });
    let claimers = (0..4).map(|n| {
        let (h, scene) = (h.clone(), Arc::clone(&scene));
        async move {
            let mut dice = Dice(n);
            let claim = Claim { owner: format!("claimer-{n}"), ..wanted(limit) };
            while scene.left.load(Ordering::SeqCst) > 0 {
                let lease = h.store().claim_keyed(&claim, policy).await.unwrap();
                consume(&h, &scene, &lease, policy, &mut dice).await;
                tokio::task::yield_now().await;
            }
        }
    });
    together(claimers).await;
    scene.dead.load(Ordering::SeqCst)
}

struct Scene {
    left: AtomicUsize,
    dead: AtomicUsize,
    /// The keys that are held now.
    holders: Mutex<BTreeSet<String>>,
}

/// Handles each run of a lease until a delivery of it fails.
async fn consume<H: Harness>(h: &H, scene: &Scene, lease: &Lease, policy: DeadHead, dice: &mut Dice) {
    let mut runs: BTreeMap<&str, Vec<(DeliveryId, i64)>> = BTreeMap::new();
    for claimed in &lease.deliveries {
        let key = claimed.envelope.key.as_deref().unwrap();
        runs.entry(key).or_default().push((claimed.id, claimed.id.sequence));
    }
    for key in runs.keys() {
        assert!(scene.holders.lock().unwrap().insert((*key).into()), "two hold {key} at once");
    }
    for (key, run) in runs {
        let done = run.iter().take_while(|_| !dice.one_in(15)).count();
        if done > 0 {
            let mut tx = h.store().begin().await.unwrap();
            for (_, sequence) in &run[..done] {
                h.write_down(&mut *tx, key, *sequence).await;
            }
            h.store().commit(tx).await.unwrap();
        }
        let whole = done == run.len();
        let give_back = || assert!(scene.holders.lock().unwrap().remove(key));
        if whole {
            // Before the settle, because the settle lets the next claimer take the key.
            give_back();
        }
        let settled: Vec<DeliveryId> = run[..done].iter().map(|(id, _)| *id).collect();
        let written = h.store().settle(lease.token, &settled, History::Omit).await.unwrap();
        assert_eq!(written.len(), done, "a valid lease settles in order");
        scene.left.fetch_sub(done, Ordering::SeqCst);
        if !whole {
            give_back();
            let id = run[done].0;
            if policy == DeadHead::Skip && dice.one_in(4) {
                let gone = h.store().bury(lease.token, &[buried(id)], History::Omit).await.unwrap();
                assert_eq!(gone, [id]);
                scene.dead.fetch_add(1, Ordering::SeqCst);
                scene.left.fetch_sub(1, Ordering::SeqCst);
            } else {
                let failure = [failed(id, Duration::ZERO)];
                let again = h.store().retry(lease.token, &failure, History::Omit).await.unwrap();
                assert_eq!(again, [id]);
            }
        }
    }
}

async fn the_log_is_in_order(h: &impl Harness, events: usize) {
    let log = h.written_down().await;
    assert_eq!(log.len(), events, "each was handled once");
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for (key, sequence) in &log {
        if let Some(before) = last.insert(key, *sequence) {
            assert!(before < *sequence, "{key}: {sequence} after {before}");
        }
    }
}
