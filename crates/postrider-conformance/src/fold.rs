//! `fold`: lists end up with the status that the rows imply, whatever the order of changes and however often it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider::prelude::*;
use postrider::status::EventStatus::{self, Consumed, Expired, Failed, Partial, Pending, Retrying, Sent};
use postrider::store::{Appended, Claim, Completed, Completion, History, Receipt, Record, Report};
use postrider::{Rollup, RollupOptions, Via};

use crate::Harness;
use crate::steps::*;

pub(crate) async fn fold_all(h: &impl Harness) {
    while h.store().fold(500).await.unwrap().more {}
}

/// The status in lists after everything is folded. It equals the status computed from the rows.
pub(crate) async fn listed(h: &impl Harness, event_id: &str) -> EventStatus {
    fold_all(h).await;
    let found = find(h, event_id).await;
    let listed = found.listed.unwrap_or_else(|| panic!("{event_id} has no status"));
    assert_eq!(listed, found.standing().status, "{found:?}");
    listed
}

pub(crate) fn report(event_id: &str, consumer: &str, success: bool, will_retry: bool) -> Report {
    Report { event_id: event_id.into(), consumer: consumer.into(), success, will_retry, ..Report::default() }
}

async fn append_report(h: &impl Harness, event_id: &str, consumer: &str, success: bool, will_retry: bool) {
    let appended = h.store().append_consumption(&report(event_id, consumer, success, will_retry)).await.unwrap();
    assert!(matches!(appended, Appended::Attempt(_)), "{appended:?}");
}

async fn three_remote_consumers(h: &impl Harness) {
    for consumer in ["a", "b", "c"] {
        subscribe(h, TOPIC, consumer, Via::External).await;
    }
}

/// D.6: an event is PENDING from the start, also without subscribers. The roll-up writes its status row.
pub async fn a_new_event_is_pending<H: Harness>(h: H) {
    enqueue_one(&h, draft("unheard")).await;
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    insert_plainly(&h, "plain").await;
    assert_eq!(find(&h, "e").await.listed, None, "not folded yet");
    for id in ["unheard", "e", "plain"] {
        assert_eq!(listed(&h, id).await, Pending, "{id}");
    }
    assert_eq!(h.store().fold(500).await.unwrap().events, 0, "and then there is nothing to do");
    h.store().route(10).await.unwrap();
    fold_all(&h).await;
    let standing = find(&h, "unheard").await.standing();
    assert_eq!((standing.status, standing.expected), (Pending, 1));
}

/// D.6: the statuses of an event with one local consumer.
pub async fn a_lane_takes_its_event_through_the_table<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    let failure = [failed(lease.deliveries[0].id, Duration::ZERO)];
    h.store().retry(lease.token, &failure, History::Keep).await.unwrap();
    assert_eq!(listed(&h, "e").await, Retrying);
    assert_eq!(find(&h, "e").await.standing().last_error.as_deref(), Some("boom"));
    let lease = claim(&h, 1).await;
    h.store().bury(lease.token, &[buried(lease.deliveries[0].id)], History::Keep).await.unwrap();
    assert_eq!(listed(&h, "e").await, Failed);
    h.store().redrive("e", LANE, None).await.unwrap();
    assert_eq!(listed(&h, "e").await, Retrying, "redriven, and not sent since");
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    assert_eq!(listed(&h, "e").await, Consumed);
    let standing = find(&h, "e").await.standing();
    assert_eq!((standing.expected, standing.consumed, standing.failed, standing.redrives), (1, 1, 0, 1));
    assert_eq!(standing.last_error, None, "it went well since");
    assert!(standing.sent_at <= standing.last_sent_at, "{standing:?}");
}

/// D.6: the statuses of an event with remote consumers.
pub async fn reports_take_their_event_through_the_table<H: Harness>(h: H) {
    three_remote_consumers(&h).await;
    enqueue_one(&h, draft("e")).await;
    assert_eq!(listed(&h, "e").await, Pending, "not known to be sent");
    append_report(&h, "e", "a", true, false).await;
    assert_eq!(listed(&h, "e").await, Sent);
    append_report(&h, "e", "b", false, true).await;
    assert_eq!(listed(&h, "e").await, Retrying);
    append_report(&h, "e", "b", false, false).await;
    assert_eq!(listed(&h, "e").await, Partial);
    append_report(&h, "e", "a", false, false).await;
    assert_eq!(listed(&h, "e").await, Partial, "a success is final");
    append_report(&h, "e", "c", true, false).await;
    append_report(&h, "e", "b", true, false).await;
    assert_eq!(listed(&h, "e").await, Consumed);
    append_report(&h, "e", "b", false, true).await;
    assert_eq!(listed(&h, "e").await, Consumed, "and so is this");
}

/// D.4: stored, then confirmed by the broker, then SENT. If the broker delivery is buried, FAILED.
pub async fn the_broker_takes_its_event_through_the_table<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "member", Via::RabbitMq).await;
    subscribe(&h, TOPIC, "message", Via::RabbitMq).await;
    enqueue(&h, ["e", "dead"].map(draft)).await;
    let broker = Claim { lane: "rabbitmq".into(), ..wanted(10) };
    let lease = h.store().claim(&broker).await.unwrap();
    let [e, dead] = lease.ids()[..] else { panic!("{lease:?}") };
    h.store().bury(lease.token, &[buried(dead)], History::Keep).await.unwrap();
    assert_eq!(listed(&h, "dead").await, Failed);
    assert_eq!(listed(&h, "e").await, Pending);
    h.store().settle(lease.token, &[e], History::Keep).await.unwrap();
    assert_eq!(listed(&h, "e").await, Sent);
    assert_eq!(find(&h, "e").await.standing().expected, 2, "the broker is not a consumer");
    append_report(&h, "e", "member", false, false).await;
    append_report(&h, "e", "message", true, false).await;
    assert_eq!(listed(&h, "e").await, Partial);
    // D.8: a redrive for one consumer. A broker confirmation does not mean that a consumer has received the event.
    h.store().redrive("e", "rabbitmq", Some("member")).await.unwrap();
    h.store().redrive("e", "rabbitmq", None).await.unwrap();
    assert_eq!(listed(&h, "e").await, Retrying);
    let lease = h.store().claim(&broker).await.unwrap();
    assert_eq!(h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap().len(), 2);
    assert_eq!(listed(&h, "e").await, Partial, "until it reports");
    append_report(&h, "e", "member", true, false).await;
    assert_eq!(listed(&h, "e").await, Consumed);
}

/// D.9: an event becomes EXPIRED by time alone, unless every consumer has succeeded.
pub async fn time_alone_expires_an_event<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["early", "late"].map(|id| draft(id).expire_after(HOUR))).await;
    enqueue_one(&h, draft("never")).await;
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    assert_eq!((listed(&h, "early").await, listed(&h, "late").await), (Consumed, Pending));
    age(&h, 2 * HOUR).await;
    assert_eq!((listed(&h, "early").await, listed(&h, "late").await), (Consumed, Expired));
    assert_eq!(listed(&h, "never").await, Pending);
    assert_eq!(h.store().fold(500).await.unwrap().events, 0, "once");
}

/// Without history no mark is written: the detail view is correct, but lists keep the old status.
pub async fn without_history_there_is_no_mark<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    fold_all(&h).await;
    settle(&h, &claim(&h, 1).await).await;
    assert_eq!(h.store().fold(500).await.unwrap().events, 0);
    let found = find(&h, "e").await;
    assert_eq!((found.listed, found.standing().status), (Some(Pending), Sent));
}

/// D.6: the start time of a status does not change while the status stays the same.
pub async fn a_status_has_the_time_at_which_it_began<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "a", Via::External).await;
    enqueue_one(&h, draft("e")).await;
    let found = find(&h, "e").await;
    let since = found.standing().updated_at;
    assert_eq!((found.listed_at, found.status_at(&found.standing())), (None, since), "not folded yet");
    append_report(&h, "e", "a", false, true).await;
    assert_eq!(listed(&h, "e").await, Retrying);
    let since = find(&h, "e").await.listed_at.unwrap();
    append_report(&h, "e", "a", false, true).await;
    let (status, found) = (listed(&h, "e").await, find(&h, "e").await);
    assert_eq!((status, found.status_at(&found.standing())), (Retrying, since));
    age(&h, Duration::from_secs(60)).await;
    let since = find(&h, "e").await.listed_at.unwrap();
    append_report(&h, "e", "a", true, false).await;
    let found = find(&h, "e").await;
    assert_eq!(found.status_at(&found.standing()), found.standing().updated_at, "not folded, and known all the same");
    assert_eq!(listed(&h, "e").await, Consumed);
    let now = find(&h, "e").await.listed_at.unwrap();
    assert!(now > since, "{now} after {since}");
}

/// An independent implementation of the status table, used to check the result.
fn expected(found: &Record) -> EventStatus {
    let mut last: BTreeMap<&str, Vec<(bool, bool)>> = BTreeMap::new();
    for one in &found.consumptions {
        let reports = last.entry(&one.consumer).or_default();
        if let Some(success) = one.success {
            reports.push((success, one.will_retry));
        }
    }
    let ok = last.values().filter(|reports| reports.iter().any(|(success, _)| *success)).count();
    let open: Vec<_> = last.values().filter(|reports| !reports.iter().any(|(success, _)| *success)).collect();
    let retrying = open.iter().any(|reports| reports.last().is_some_and(|(_, will_retry)| *will_retry));
    let failed = open.iter().filter(|reports| reports.last().is_some_and(|(_, will_retry)| !will_retry)).count();
    let reported = last.values().any(|reports| !reports.is_empty());
    if ok == last.len() {
        Consumed
    } else if retrying {
        Retrying
    } else if failed == last.len() {
        Failed
    } else if failed > 0 {
        Partial
    } else if reported {
        Sent
    } else {
        Pending
    }
}

/// D.7: callbacks in random order, some repeated, with folds between and beside them.
pub async fn any_order_of_callbacks_and_folds_ends_in_the_same_status<H: Harness>(h: H) {
    three_remote_consumers(&h).await;
    let mut dice = Dice(7);
    let mut seen: BTreeMap<EventStatus, u32> = BTreeMap::new();
    for n in 0..60 {
        let id = format!("e{n}");
        enqueue_one(&h, draft(&id)).await;
        let mut callbacks = Vec::new();
        for consumer in ["a", "b", "c"] {
            let tries = if n % 5 == 4 {
                0
            } else {
                [1, 2, 3].into_iter().filter(|_| dice.one_in(2)).count().max(usize::from(n % 10 == 0 || n % 5 == 3))
            };
            for attempt in 0..tries {
                // Per ten events: one only succeeds, two never succeed, two have
                // no retry, two neither, two have no report.
                let success = n % 10 == 0 || dice.one_in(3) && n % 5 != 1 && n % 5 != 3;
                let will_retry = !success && dice.one_in(2) && n % 5 != 2 && n % 5 != 3;
                let callback_id = Some(format!("{consumer}{attempt}"));
                let one = Report { callback_id, ..report(&id, consumer, success, will_retry) };
                callbacks.push(one.clone());
                if dice.one_in(3) {
                    callbacks.push(one);
                }
            }
        }
        // A deterministic shuffle.
        for at in (1..callbacks.len()).rev() {
            let other = (0..at).filter(|_| dice.one_in(2)).count();
            callbacks.swap(at, other);
        }
        let folder = (n % 3 == 0).then(|| {
            let h = h.clone();
            tokio::spawn(async move { fold_all(&h).await })
        });
        for one in callbacks {
            h.store().append_consumption(&one).await.unwrap();
            if dice.one_in(2) {
                h.store().fold(1).await.unwrap();
            }
        }
        if let Some(folder) = folder {
            folder.await.unwrap();
        }
        let word = listed(&h, &id).await;
        let found = find(&h, &id).await;
        assert_eq!(word, expected(&found), "{:?}", found.consumptions);
        *seen.entry(word).or_default() += 1;
    }
    assert_eq!(seen.len(), 6, "too few of the table's lines were met: {seen:?}");
}

/// D.5, D.7: 64 concurrent callbacks for one event, with two concurrent folds.
pub async fn sixty_four_callbacks_at_once<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "a", Via::External).await;
    subscribe(&h, TOPIC, "b", Via::External).await;
    enqueue_one(&h, draft("e")).await;
    let before = find(&h, "e").await;
    let callbacks = (0..64).map(|n| {
        let h = h.clone();
        async move {
            let consumer = ["a", "b"][n % 2];
            h.store().append_consumption(&report("e", consumer, n == 40 || n == 41, true)).await.unwrap();
        }
    });
    let folders = (0..2).map(|_| {
        let h = h.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                h.store().fold(3).await.unwrap();
            }
        })
    });
    let folders: Vec<_> = folders.collect();
    together(callbacks).await;
    for folder in folders {
        folder.await.unwrap();
    }
    assert_eq!(listed(&h, "e").await, Consumed);
    let after = find(&h, "e").await;
    for consumer in ["a", "b"] {
        let numbers = after.consumptions.iter().filter(|one| one.consumer == consumer).map(|one| one.attempt);
        assert_eq!(numbers.collect::<Vec<_>>(), (0..=32).collect::<Vec<_>>());
    }
    assert_eq!(format!("{:?}", before.envelope), format!("{:?}", after.envelope), "the event row is untouched");
    assert_eq!((before.routing, before.created_at), (after.routing, after.created_at));
}

/// D.7: a mark whose transaction commits after later marks were folded.
pub async fn a_mark_that_commits_late_is_folded<H: Harness>(h: H) {
    if !h.features().concurrent_transactions {
        return skipped("one writer at a time: no mark can be older than a fold and committed after it");
    }
    subscribe_lane(&h).await;
    enqueue(&h, ["slow", "quick"].map(draft)).await;
    fold_all(&h).await;
    let lease = claim(&h, 2).await;
    let [slow, quick] = lease.ids()[..] else { panic!("{lease:?}") };
    let mut tx = h.store().begin().await.unwrap();
    let receipt = Receipt { consumer: LANE, event_id: "slow", topic: TOPIC, tenant_id: None, idempotency_key: None };
    h.store().receive(&mut *tx, &receipt).await.unwrap();
    let completed = [Completed { event_id: "slow", delivery: slow, result: None }];
    let completion = Completion { consumer: LANE, token: lease.token, history: History::Keep, completed: &completed };
    h.store().complete(&mut *tx, &completion).await.unwrap();
    h.store().settle(lease.token, &[quick], History::Keep).await.unwrap();
    let folding = tokio::time::timeout(PROMPTLY, h.store().fold(500));
    folding.await.expect("a fold waits for no consumer").unwrap();
    let words = (find(&h, "quick").await.listed, find(&h, "slow").await.listed);
    assert_eq!(words, (Some(Consumed), Some(Pending)));
    h.store().commit(tx).await.unwrap();
    assert_eq!(listed(&h, "slow").await, Consumed);
}

/// D.7: a fold aborted inside a batch loses nothing.
pub async fn a_folder_killed_half_way_loses_nothing<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "a", Via::External).await;
    enqueue(&h, drafts(40)).await;
    for n in 0..40 {
        append_report(&h, &format!("e{n:05}"), "a", n % 2 == 0, false).await;
        let folder = tokio::spawn({
            let h = h.clone();
            async move { h.store().fold(7).await }
        });
        // The abort may hit any statement of the fold.
        tokio::time::sleep(Duration::from_micros(n * 150)).await;
        folder.abort();
        let _ = folder.await;
    }
    fold_all(&h).await;
    for n in 0..40 {
        let word = if n % 2 == 0 { Consumed } else { Failed };
        assert_eq!(find(&h, &format!("e{n:05}")).await.listed, Some(word), "{n}");
    }
}

/// D.7: another instance continues after the holder dies, and releases the lease when it stops.
pub async fn another_roll_up_goes_on_when_one_dies<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "a", Via::External).await;
    let store: Arc<dyn Store> = Arc::new(h.store().clone());
    let options = RollupOptions { poll: Duration::from_millis(5), lease: MINUTE, ..RollupOptions::default() };
    let rollup = || Rollup::new(Arc::clone(&store)).options(options.clone());
    let comes_to = async |event_id: &str, word: EventStatus| {
        while find(&h, event_id).await.listed != Some(word) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let first = tokio::spawn(rollup().run(std::future::pending()));
    enqueue_one(&h, draft("e")).await;
    comes_to("e", Pending).await;
    append_report(&h, "e", "a", true, false).await;
    comes_to("e", Consumed).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    enqueue_one(&h, draft("f")).await;
    append_report(&h, "f", "a", false, false).await;
    assert!(store.acquire_lease("postrider.rollup", "other", MINUTE).await.unwrap().is_none(), "the dead one holds it");
    age(&h, HOUR).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let second = tokio::spawn(rollup().run(async { drop(stopped.await) }));
    comes_to("f", Failed).await;
    drop(stop);
    second.await.unwrap().unwrap();
    assert!(store.acquire_lease("postrider.rollup", "other", MINUTE).await.unwrap().is_some(), "it was given back");
}

/// Retention: a pruned event leaves no status row, and its id can be used again.
pub async fn a_pruned_event_leaves_no_status<H: Harness>(h: H) {
    use postrider::store::{Prunable, Prune};
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    assert_eq!(listed(&h, "e").await, Consumed);
    age(&h, 2 * HOUR).await;
    let prune = Prune { what: Prunable::Events, older_than: HOUR, after: 0, limit: 100 };
    assert_eq!(h.store().prune(&prune).await.unwrap().removed, 1);
    enqueue_one(&h, draft("e")).await;
    assert_eq!(find(&h, "e").await.listed, None);
    assert_eq!(listed(&h, "e").await, Pending);
}
