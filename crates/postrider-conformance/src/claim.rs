//! `claim`: each delivery to one claimer at a time, the oldest first, no more than asked for.

use std::collections::BTreeSet;

use postrider::entry::{self, DeliveryStatus, Outcome};
use postrider::store::{Claim, History};
use postrider::{Error, Shards, Store, Via};
use tokio::time::timeout;

use crate::Harness;
use crate::steps::*;

/// F06 claim returns more than LIMIT: neither returned nor leased, on a table of thousands.
pub async fn limit_is_exact<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue(&h, drafts(5_000)).await;
    let mut leased = 0;
    for limit in [1, 1, 7, 500] {
        assert_eq!(claim(&h, limit).await.deliveries.len(), limit as usize);
        leased += u64::from(limit);
        let counts = h.store().counts().await.unwrap()[LANE];
        assert_eq!((counts.processing, counts.new), (leased, 5_000 - leased), "what was not returned is not leased");
    }
}

/// Everything has a limit.
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

/// B.1, B.2, F05: eight claimers over 20,000 deliveries; each delivery is held by exactly one.
pub async fn eight_claimers_never_share_a_delivery<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue(&h, drafts(20_000)).await;
    let claimers = (0..8).map(|n| {
        let h = h.clone();
        async move {
            let mut mine = Vec::new();
            let claim = Claim { owner: format!("claimer-{n}"), ..wanted(250) };
            // Others may hold locks on the last few for a moment: an empty claim ends it only when all are leased.
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

/// Claims of a backlog come back to what is free again in front of it: given back, or left by somebody who died.
pub async fn a_backlog_hides_nothing_in_front_of_it<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// B.2: a claimer takes what is free and never waits for what another has locked.
pub async fn never_waits_for_locked_deliveries<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue(&h, drafts(150)).await;
    let Some(locks) = h.hold_locks(LANE, 100).await else {
        return skipped("nobody can hold locks beside a claimer");
    };
    let lease = timeout(PROMPTLY, claim(&h, 100)).await.expect("the claim waits for locks");
    let rest: Vec<String> = (100..150).map(|n| format!("e{n:05}")).collect();
    assert_eq!(ids(&lease), rest);
    let nothing = timeout(PROMPTLY, claim(&h, 100)).await.expect("the claim waits for locks");
    assert!(nothing.deliveries.is_empty());
    drop(locks);
    // The rollback may reach the server a moment after the drop.
    let mut freed = 0;
    timeout(PROMPTLY, async {
        while freed < 100 {
            freed += claim(&h, 100).await.deliveries.len();
        }
    })
    .await
    .expect("what is unlocked can be claimed");
}

/// By due time, then in the order in which they were written.
pub async fn oldest_come_first<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue(&h, [draft("third"), draft("fourth")]).await;
    let now = h.store().now().await.unwrap();
    enqueue(&h, [draft("second").deliver_at(now - HOUR), draft("first").deliver_at(now - 2 * HOUR)]).await;
    for expected in ["first", "second", "third", "fourth"] {
        assert_eq!(ids(&claim(&h, 1).await), [expected]);
    }
}

/// What has a key is claimed as a run only.
pub async fn keyed_deliveries_are_left_alone<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue(&h, keyed("a", 2)).await;
    enqueue_one(&h, draft("unkeyed")).await;
    assert_eq!(ids(&claim(&h, 10).await), ["unkeyed"]);
}

/// A.6: a lane is one consumer's.
pub async fn other_lanes_are_left_alone<H: Harness>(h: H) {
    somebody_listens(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, drafts(2)).await;
    let lease = claim(&h, 10).await;
    assert_eq!(lease.deliveries.len(), 2);
    settle(&h, &lease).await;
    let other = Claim { lane: "other".into(), ..wanted(10) };
    assert_eq!(h.store().claim(&other).await.unwrap().deliveries.len(), 2);
}

/// B.2: also when the lease was extended.
pub async fn a_leased_delivery_is_not_claimed_again<H: Harness>(h: H) {
    somebody_listens(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    assert!(claim(&h, 1).await.deliveries.is_empty());
    age(&h, 20 * MINUTE).await;
    h.store().extend(lease.token, &lease.ids(), LEASE).await.unwrap();
    age(&h, 20 * MINUTE).await;
    assert!(claim(&h, 1).await.deliveries.is_empty(), "it was extended");
    settle(&h, &lease).await;
}

/// B.3, F09: an expired lease makes the delivery claimable, under another token, for another attempt.
pub async fn an_expired_lease_is_claimed_again<H: Harness>(h: H) {
    let (zombie, heir) = a_zombie_and_its_heir(&h).await;
    assert_eq!((zombie.deliveries[0].attempt, heir.deliveries[0].attempt), (1, 2));
    assert_eq!(zombie.deliveries[0].id, heir.deliveries[0].id);
    assert!(claim(&h, 1).await.deliveries.is_empty());
    settle(&h, &heir).await;
}

/// F03 attempts never rise: a handler that kills its process uses its attempts up all the same.
pub async fn attempts_count_at_the_claim_until_they_are_exhausted<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// G.2: by a delay of the database's clock, or at a time.
pub async fn a_delayed_event_waits_until_it_is_due<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// D.9: whoever claims it is told, by the database's clock.
pub async fn an_expired_event_says_so<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// B.4: two disjoint subsets share the work, and neither gets the other's.
pub async fn a_subset_of_shards_gets_only_its_own<H: Harness>(h: H) {
    somebody_listens(&h).await;
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
