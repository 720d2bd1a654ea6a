//! `claim`: each delivery goes to one claimer at a time, the oldest first, up to the limit.

use std::collections::BTreeSet;

use postrider::entry::{self, DeliveryStatus, Outcome};
use postrider::prelude::*;
use postrider::store::{Claim, History};
use postrider::{Draft, Error, Shards, Via};
use tokio::time::timeout;

use crate::Harness;
use crate::steps::*;

/// F06 claim returns more than LIMIT: on a table of thousands, a claim neither returns nor leases more.
pub async fn limit_is_exact<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(5_000)).await;
    let mut leased = 0;
    for limit in [1, 1, 7, 500] {
        assert_eq!(claim(&h, limit).await.deliveries.len(), limit as usize);
        leased += u64::from(limit);
        let counts = h.store().counts().await.unwrap()[LANE];
        assert_eq!((counts.processing, counts.new), (leased, 5_000 - leased), "what was not returned is not leased");
    }
}

/// F59: a claim takes payloads up to its bytes, the oldest first, of a key a gapless run, and at least one delivery. The rest
/// is as it was before.
pub async fn a_claim_is_bounded_in_bytes<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let sized = |id: String, bytes: usize| {
        Draft::text(TOPIC, "application/json", format!("\"{}\"", "x".repeat(bytes - 2))).event_id(id)
    };
    // Small, large, small: the sizes of the first say nothing about the others.
    let sizes = [10, 10, 600_000, 10, 600_000, 1_000_000, 10, 10];
    for key in [None, Some("k")] {
        let name = |n: usize| format!("{}{n}", key.unwrap_or("free"));
        let drafts = sizes.iter().enumerate().map(|(n, size)| sized(name(n), *size));
        enqueue(&h, drafts.map(|draft| key.into_iter().fold(draft, Draft::key))).await;
        let mut expected = (0..sizes.len()).map(name);
        for taken in [4, 1, 1, 2] {
            let claim = Claim { bytes: 900_000, ..wanted(100) };
            let lease = match key {
                None => h.store().claim(&claim).await.unwrap(),
                Some(_) => h.store().claim_keyed(&claim, Default::default()).await.unwrap(),
            };
            assert_eq!(ids(&lease), expected.by_ref().take(taken).collect::<Vec<_>>(), "as many as fit");
            for claimed in &lease.deliveries {
                let stored = find(&h, claimed.envelope.event_id.as_str()).await.envelope.payload;
                assert!(claimed.envelope.payload == stored, "the payload is whole");
                assert_eq!(claimed.attempt, 1, "what did not fit before was not charged an attempt");
            }
            let counts = h.store().counts().await.unwrap()[LANE];
            assert_eq!(counts.processing, taken as u64, "what did not fit is released");
            settle(&h, &lease).await;
        }
        assert_eq!(expected.next(), None);
    }
}

/// A limit outside 1 to 500, or a lease of zero, is refused.
pub async fn limit_of_nothing_or_too_much_is_refused<H: Harness>(h: H) {
    for limit in [0, 501] {
        let refused = h.store().claim(&wanted(limit)).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { field: "limit", .. }), "{refused:?}");
        let refused = h.store().claim_keyed(&wanted(limit), Default::default()).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { field: "limit", .. }), "{refused:?}");
    }
    let no_time = Claim { lease: std::time::Duration::ZERO, ..wanted(1) };
    let refused = h.store().claim(&no_time).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { field: "lease", .. }), "{refused:?}");
}

/// B.1, B.2, F05: eight claimers over 20,000 deliveries. Each delivery is held by exactly one.
pub async fn eight_claimers_never_share_a_delivery<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(20_000)).await;
    let claimers = (0..8).map(|n| {
        let h = h.clone();
        async move {
            let mut mine = Vec::new();
            let claim = Claim { owner: format!("claimer-{n}"), ..wanted(250) };
            // Another claimer may hold locks on the last rows for a moment. An
            // empty claim is final only when no row is NEW.
            loop {
                let lease = h.store().claim(&claim).await.unwrap();
                assert!(lease.deliveries.len() <= 250);
                if lease.deliveries.is_empty() && h.store().counts().await.unwrap()[LANE].new == 0 {
                    return mine;
                }
                mine.extend(lease.deliveries.into_iter().map(|d| (d.id, d.attempt)));
            }
        }
    });
    let claimed: Vec<_> = together(claimers).await.into_iter().flatten().collect();
    assert_eq!(claimed.len(), 20_000);
    assert_eq!(claimed.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len(), 20_000);
    assert!(claimed.iter().all(|(_, attempt)| *attempt == 1));
}

/// A claimer working through a backlog also finds older deliveries that are
/// free again: released, or with an expired lease.
pub async fn a_backlog_hides_nothing_in_front_of_it<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(1_000)).await;
    let given_back = claim(&h, 200).await;
    let gone = Claim { lease: MINUTE, ..wanted(200) };
    let run_out = h.store().claim(&gone).await.unwrap();
    let held = claim(&h, 200).await;
    h.store().release(given_back.token, &given_back.ids()).await.unwrap();
    age(&h, 2 * MINUTE).await;
    let mut claimed = Vec::new();
    loop {
        let lease = claim(&h, 200).await;
        if lease.deliveries.is_empty() {
            break;
        }
        claimed.extend(lease.ids());
    }
    claimed.sort();
    claimed.dedup();
    assert_eq!(claimed.len(), 800, "all but what is held");
    assert!(given_back.ids().iter().chain(&run_out.ids()).all(|id| claimed.binary_search(id).is_ok()));
    settle(&h, &held).await;
}

/// B.2: a claimer takes the free rows and does not wait for locked ones.
pub async fn never_waits_for_locked_deliveries<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(150)).await;
    let Some(locks) = h.hold_locks(LANE, 100).await else {
        return skipped("this store allows no second writer");
    };
    let lease = timeout(PROMPTLY, claim(&h, 100)).await.expect("the claim waits for locks");
    let rest: Vec<String> = (100..150).map(|n| format!("e{n:05}")).collect();
    assert_eq!(ids(&lease), rest);
    let nothing = timeout(PROMPTLY, claim(&h, 100)).await.expect("the claim waits for locks");
    assert!(nothing.deliveries.is_empty());
    drop(locks);
    // The rollback may reach the server after the drop returns.
    let mut freed = 0;
    timeout(PROMPTLY, async {
        while freed < 100 {
            freed += claim(&h, 100).await.deliveries.len();
        }
    })
    .await
    .expect("what is unlocked can be claimed");
}

/// B.1, B.2: the timeline of the requirements document. T1: A takes 1, 2 and 3. T2: B skips them and takes 4, 5 and 6.
/// T3, T4: each holds its own under its name.
pub async fn timeline_of_two_instances<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(6)).await;
    let by = |owner: &str| Claim { owner: owner.into(), ..wanted(3) };
    let a = h.store().claim(&by("instance-A")).await.unwrap();
    let waiting = timeout(PROMPTLY, h.store().claim(&by("instance-B"))).await;
    let b = waiting.expect("B does not wait for A").unwrap();
    assert_eq!((ids(&a), ids(&b)), (vec!["e00000", "e00001", "e00002"], vec!["e00003", "e00004", "e00005"]));
    for (lease, owner) in [(&a, "instance-A"), (&b, "instance-B")] {
        for event_id in ids(lease) {
            let held = delivery(&h, event_id).await;
            assert_eq!((held.status, held.lock_owner.as_deref()), (DeliveryStatus::Processing, Some(owner)));
            assert!(held.lock_time < held.lock_until, "{held:?}");
        }
    }
    assert!(claim(&h, 3).await.deliveries.is_empty(), "nothing is left for a third");
    settle(&h, &a).await;
    settle(&h, &b).await;
}

/// Sorted by due time, then by sequence.
pub async fn oldest_come_first<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, [draft("third"), draft("fourth")]).await;
    let now = h.store().now().await.unwrap();
    enqueue(&h, [draft("second").deliver_at(now - HOUR), draft("first").deliver_at(now - 2 * HOUR)]).await;
    for expected in ["first", "second", "third", "fourth"] {
        assert_eq!(ids(&claim(&h, 1).await), [expected]);
    }
}

/// Deliveries with a key are claimed only by `claim_keyed`.
pub async fn keyed_deliveries_are_left_alone<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 2)).await;
    enqueue_one(&h, draft("unkeyed")).await;
    assert_eq!(ids(&claim(&h, 10).await), ["unkeyed"]);
}

/// A.6: a claim takes deliveries of its own lane only.
pub async fn other_lanes_are_left_alone<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, drafts(2)).await;
    let lease = claim(&h, 10).await;
    assert_eq!(lease.deliveries.len(), 2);
    settle(&h, &lease).await;
    let other = Claim { lane: "other".into(), ..wanted(10) };
    assert_eq!(h.store().claim(&other).await.unwrap().deliveries.len(), 2);
}

/// B.2: an extended lease protects its delivery as well.
pub async fn a_leased_delivery_is_not_claimed_again<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    assert!(claim(&h, 1).await.deliveries.is_empty());
    age(&h, 20 * MINUTE).await;
    h.store().extend(lease.token, &lease.ids(), LEASE).await.unwrap();
    age(&h, 20 * MINUTE).await;
    assert!(claim(&h, 1).await.deliveries.is_empty(), "it was extended");
    settle(&h, &lease).await;
}

/// B.3, F09: the lock expiry of the requirements document. A delivery with an expired lease is claimable again, with a
/// new token and the next attempt.
pub async fn lock_expiry_lets_another_instance_claim<H: Harness>(h: H) {
    let (zombie, successor) = expired_and_current_lease(&h).await;
    assert_eq!((zombie.deliveries[0].attempt, successor.deliveries[0].attempt), (1, 2));
    assert_eq!(zombie.deliveries[0].id, successor.deliveries[0].id);
    assert!(claim(&h, 1).await.deliveries.is_empty());
    settle(&h, &successor).await;
}

/// F03 attempts never rise: a handler that kills its process still uses up its attempts.
pub async fn attempts_count_at_the_claim_until_they_are_exhausted<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e").max_attempts(3)).await;
    let mut verdicts = Vec::new();
    for attempt in 1..=4 {
        let lease = claim(&h, 1).await;
        let claimed = &lease.deliveries[0];
        assert_eq!(claimed.attempt, attempt);
        let max = claimed.envelope.max_attempts.unwrap();
        verdicts.push(entry::before(claimed.attempt, max, claimed.expired));
        if *verdicts.last().unwrap() == Some(Outcome::Exhausted) {
            let mut burial = buried(claimed.id);
            burial.tried = false;
            h.store().bury(lease.token, &[burial], History::Omit).await.unwrap();
        }
        age(&h, HOUR).await;
    }
    assert_eq!(verdicts, [None, None, None, Some(Outcome::Exhausted)]);
    let dead = delivery(&h, "e").await;
    assert_eq!((dead.status, dead.attempts), (DeliveryStatus::Dead, 3));
}

/// G.2: a delay by duration and one by time, both on the database clock.
pub async fn a_delayed_event_waits_until_it_is_due<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let now = h.store().now().await.unwrap();
    enqueue(&h, [draft("delay").delay(HOUR), draft("at").deliver_at(now + HOUR), draft("now")]).await;
    assert_eq!(ids(&claim(&h, 10).await), ["now"]);
    age(&h, 50 * MINUTE).await;
    assert!(!ids(&claim(&h, 10).await).iter().any(|id| *id != "now"), "ten minutes early");
    age(&h, 11 * MINUTE).await;
    let mut due = claim(&h, 10).await;
    due.deliveries.retain(|d| d.envelope.event_id.as_str() != "now");
    assert_eq!(ids(&due), ["delay", "at"]);
}

/// D.9: the claim reports the expiry, by the database clock.
pub async fn an_expired_event_is_flagged<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let now = h.store().now().await.unwrap();
    let past = draft("past").expire_at(now - MINUTE);
    let batch = [past, draft("soon").expire_after(HOUR), draft("never"), draft("k1").key("k").expire_after(HOUR)];
    enqueue(&h, batch).await;
    let flags = |lease: &postrider::store::Lease| lease.deliveries.iter().map(|d| d.expired).collect::<Vec<_>>();
    assert_eq!(flags(&claim(&h, 10).await), [true, false, false]);
    assert_eq!(flags(&claim_keyed(&h, 10).await), [false]);
    age(&h, 2 * HOUR).await;
    assert_eq!(flags(&claim(&h, 10).await), [true, true, false]);
    assert_eq!(flags(&claim_keyed(&h, 10).await), [true]);
}

/// B.4: two disjoint subsets of shards share the work without overlap.
pub async fn a_subset_of_shards_gets_only_its_own<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(400)).await;
    let mut seen = 0;
    for shards in ["0-20,63", "21-62"] {
        let shards: Shards = shards.parse().unwrap();
        let claim = Claim { shards, ..wanted(500) };
        let lease = h.store().claim(&claim).await.unwrap();
        assert!(lease.deliveries.iter().all(|d| shards.contains(d.envelope.shard())));
        assert!(h.store().claim(&claim).await.unwrap().deliveries.is_empty());
        assert!(!lease.deliveries.is_empty());
        seen += lease.deliveries.len();
    }
    assert_eq!(seen, 400);
    let none = Claim { shards: std::iter::empty().collect(), ..wanted(500) };
    enqueue_one(&h, draft("one-more")).await;
    assert!(h.store().claim(&none).await.unwrap().deliveries.is_empty(), "no shards, no deliveries");
}

/// B.1: a claim returns only what it has leased; a mismatch is a warning.
pub async fn what_is_leased_and_cannot_be_read_is_a_warning<H: Harness>(h: H) {
    if h.dialect().is_none() {
        return skipped("this store reads what it leases in one step");
    }
    subscribe_lane(&h).await;
    enqueue(&h, drafts(3).into_iter().chain(keyed("a", 3))).await;
    let (lease, log) = logged(claim(&h, 1)).await;
    assert!(log.is_empty(), "{log}");
    h.store().release(lease.token, &lease.ids()).await.unwrap();
    let mut tx = h.store().begin().await.unwrap();
    h.execute(&mut *tx, "DELETE FROM postrider_event WHERE event_id IN ('e00001', 'a2')", &[]).await;
    h.store().commit(tx).await.unwrap();
    let (lease, log) = logged(claim(&h, 10)).await;
    assert_eq!(ids(&lease), ["e00000", "e00002"]);
    assert!(log.contains("WARN") && log.contains("leased=3 read=2") && log.contains(LANE), "{log}");
    let (lease, log) = logged(claim_keyed(&h, 10)).await;
    assert_eq!(ids(&lease), ["a1", "a3"]);
    assert!(log.contains("WARN") && log.contains("leased=3 read=2"), "{log}");
}
