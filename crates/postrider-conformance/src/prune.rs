//! `prune`: old finished rows are removed in small batches, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use postrider::prelude::*;
use postrider::store::{History, Key, KeyState, Prunable, Prune, Receipt, Redriven, Report};
use postrider::{Draft, Enqueued, Retention, Via};
use serde_json::json;

use crate::Harness;
use crate::steps::*;

/// Prunes in batches to the end. Returns the number of rows each batch removed.
async fn prune(h: &impl Harness, what: Prunable, older_than: Duration, limit: u32) -> Vec<u64> {
    let mut removed = Vec::new();
    let mut after = 0;
    loop {
        let batch = Prune { what, older_than, after, limit };
        let pruned = h.store().prune(&batch).await.unwrap();
        assert!(pruned.removed <= u64::from(limit));
        removed.push(pruned.removed);
        assert!(removed.len() < 1_000, "pruning does not end");
        match pruned.next {
            Some(next) => after = next,
            None => return removed,
        }
    }
}

async fn finish_all(h: &impl Harness) {
    loop {
        let lease = claim(h, 500).await;
        if lease.deliveries.is_empty() {
            return;
        }
        settle(h, &lease).await;
    }
}

/// F22: batches are limited, and rows that are kept are scanned once per pass only.
pub async fn a_batch_looks_at_no_more_than_its_limit<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(25)).await;
    finish_all(&h).await;
    enqueue(&h, (0..10).map(|n| draft(format!("waiting{n}")))).await;
    enqueue(&h, (0..25).map(|n| draft(format!("late{n}")).delay(Duration::ZERO))).await;
    let late = claim(&h, 500).await;
    let done = late.deliveries.iter().filter(|d| d.envelope.event_id.as_str().starts_with("late"));
    let done: Vec<_> = done.map(|d| d.id).collect();
    assert_eq!(h.store().settle(late.token, &done, History::Omit).await.unwrap().len(), 25);
    age(&h, 2 * HOUR).await;
    let removed = prune(&h, Prunable::Events, HOUR, 10).await;
    assert_eq!(removed.iter().sum::<u64>(), 50, "{removed:?}");
    assert!(removed.len() <= 7, "each batch goes on where the last ended: {removed:?}");
    assert!(is_stored(&h, "waiting9").await && !is_stored(&h, "late24").await);
    assert_eq!(prune(&h, Prunable::Events, HOUR, 100).await, [0]);
}

/// G.3: an event is kept while it has a delivery in any state, has no subscriber, or is young.
pub async fn waiting_unheard_and_young_events_are_kept<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["finished", "dead", "failed", "leased"].map(draft)).await;
    let lease = claim(&h, 10).await;
    let [finished, dead, failing, leased] = lease.ids()[..] else {
        panic!("{lease:?}");
    };
    h.store().settle(lease.token, &[finished], History::Keep).await.unwrap();
    h.store().bury(lease.token, &[buried(dead)], History::Keep).await.unwrap();
    h.store().retry(lease.token, &[failed(failing, 99 * HOUR)], History::Keep).await.unwrap();
    enqueue_one(&h, draft("new")).await;
    let unheard = Draft::json("order.other", &json!({})).unwrap().event_id("unheard");
    assert!(matches!(enqueue_one(&h, unheard).await, Enqueued::Unheard(_)));
    insert_plainly(&h, "by-hand").await;
    age(&h, 10 * HOUR).await;
    enqueue_one(&h, draft("young")).await;
    let young = claim(&h, 10).await;
    let young: Vec<_> = young
        .deliveries
        .iter()
        .filter(|d| d.envelope.event_id.as_str() == "young")
        .map(|d| (young.token, d.id))
        .collect();
    h.store().settle(young[0].0, &[young[0].1], History::Omit).await.unwrap();

    assert_eq!(prune(&h, Prunable::Events, HOUR, 1_000).await, [1]);
    assert!(!is_stored(&h, "finished").await);
    for kept in ["dead", "failed", "leased", "new", "unheard", "by-hand", "young"] {
        assert!(is_stored(&h, kept).await, "{kept}");
    }
    let _ = leased;
}

/// G.3: no attempt remains without its event.
pub async fn attempts_are_removed_with_their_event<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "remote", Via::External).await;
    enqueue_one(&h, draft("e")).await;
    let report = Report { event_id: "e".into(), consumer: "remote".into(), success: true, ..Report::default() };
    h.store().append_consumption(&report).await.unwrap();
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    age(&h, 2 * HOUR).await;
    assert_eq!(prune(&h, Prunable::Events, HOUR, 100).await, [1], "events are counted, not their attempts");
    assert_eq!(h.store().append_consumption(&report).await.unwrap(), postrider::store::Appended::NotExpected);
    assert_eq!(h.store().redrive("e", LANE, None).await.unwrap(), Redriven::UnknownEvent);
    // The new event with the same id has none of the old attempts.
    enqueue_one(&h, draft("e")).await;
    assert_eq!(find(&h, "e").await.consumptions.len(), 1, "attempt 0 of the new one");
}

/// A pruned id is no longer a duplicate. Retention must therefore be longer than any retry of a producer.
pub async fn a_pruned_id_may_be_used_again<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    finish_all(&h).await;
    age(&h, 2 * HOUR).await;
    prune(&h, Prunable::Events, HOUR, 100).await;
    assert!(matches!(enqueue_one(&h, draft("e").key("other")).await, Enqueued::Accepted(_)));
}

/// F21, F22: only rows older than the given age.
pub async fn old_inbox_rows_are_removed<H: Harness>(h: H) {
    let receive = async |event_id: &str| {
        let receipt = Receipt { consumer: LANE, event_id, topic: TOPIC, tenant_id: None, idempotency_key: None };
        let mut tx = h.store().begin().await.unwrap();
        let first = h.store().receive(&mut *tx, &receipt).await.unwrap();
        h.store().commit(tx).await.unwrap();
        first
    };
    for n in 0..7 {
        assert!(receive(&format!("old{n}")).await);
    }
    age(&h, 2 * HOUR).await;
    assert!(receive("young").await);
    let removed = prune(&h, Prunable::Inbox, HOUR, 3).await;
    assert_eq!(removed.iter().sum::<u64>(), 7, "{removed:?}");
    assert!(!receive("young").await, "it is still known");
    assert!(receive("old0").await, "it is forgotten");
}

/// F22: a key with a valid lease is kept, however old it is.
pub async fn old_keys_are_removed_unless_held<H: Harness>(h: H) {
    let begin = async |key: &str, lease: Duration| {
        let key = Key { scope: "orders", key };
        let mut tx = h.store().begin().await.unwrap();
        let state = h.store().begin_key(&mut *tx, &key, b"request", lease).await.unwrap();
        if let KeyState::Begun(token) = state {
            match key.key {
                "done" => drop(h.store().complete_key(&mut *tx, &key, token, "done").await.unwrap()),
                "failed" => drop(h.store().fail_key(&mut *tx, &key, token, "boom").await.unwrap()),
                _ => {}
            }
        }
        h.store().commit(tx).await.unwrap();
        state
    };
    begin("done", LEASE).await;
    begin("failed", LEASE).await;
    begin("abandoned", LEASE).await;
    begin("held", 99 * HOUR).await;
    age(&h, 2 * HOUR).await;
    begin("young", LEASE).await;
    let removed = prune(&h, Prunable::Keys, HOUR, 2).await;
    assert_eq!(removed.iter().sum::<u64>(), 3, "{removed:?}");
    assert_eq!(begin("held", LEASE).await, KeyState::InProgress);
    assert_eq!(begin("young", LEASE).await, KeyState::InProgress);
    for forgotten in ["done", "failed", "abandoned"] {
        assert!(matches!(begin(forgotten, LEASE).await, KeyState::Begun(_)), "{forgotten}");
    }
}

/// F22: an event is redriven either before or after it is pruned. A redrive is never lost.
pub async fn a_redrive_beside_the_pruner_is_not_lost<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(200)).await;
    finish_all(&h).await;
    age(&h, 2 * HOUR).await;
    let pruner = tokio::spawn({
        let h = h.clone();
        async move { prune(&h, Prunable::Events, HOUR, 5).await.iter().sum::<u64>() }
    });
    let mut redriven = Vec::new();
    // In reverse order, so that the two meet in the middle.
    for n in (0..200).rev() {
        let id = format!("e{n:05}");
        match h.store().redrive(&id, LANE, None).await.unwrap() {
            Redriven::Made => redriven.push(id),
            Redriven::UnknownEvent => {}
            other => panic!("{other:?}"),
        }
    }
    let removed = pruner.await.unwrap();
    let claimed = claim(&h, 500).await;
    redriven.reverse();
    assert_eq!(ids(&claimed).len(), redriven.len());
    assert!(redriven.iter().all(|id| ids(&claimed).contains(&id.as_str())), "what was redriven is delivered");
    // The pruner skips a locked event and removes it in its next pass.
    settle(&h, &claimed).await;
    let rest = prune(&h, Prunable::Events, HOUR, 500).await.iter().sum::<u64>();
    assert_eq!(removed + rest, 200);
}

const PRODUCERS: usize = 3;
const BATCHES: usize = 20;
const BATCH: usize = 20;

/// F22: pruning beside producers and claimers. Each event is delivered once and none is lost.
pub async fn pruning_beside_producers_and_claimers_loses_nothing<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let left = Arc::new(AtomicUsize::new(PRODUCERS * BATCHES * BATCH));
    let over = Arc::new(AtomicBool::new(false));
    let pruner = tokio::spawn({
        let (h, over) = (h.clone(), Arc::clone(&over));
        async move {
            let mut removed = 0;
            while !over.load(Ordering::SeqCst) {
                removed += prune(&h, Prunable::Events, Duration::ZERO, 50).await.iter().sum::<u64>();
                tokio::task::yield_now().await;
            }
            removed
        }
    });
    let producers = (0..PRODUCERS).map(|p| {
        let h = h.clone();
        async move {
            for batch in 0..BATCHES {
                enqueue(&h, (0..BATCH).map(|n| draft(format!("{p}-{batch}-{n}")))).await;
            }
        }
    });
    let producers = tokio::spawn(together(producers.collect::<Vec<_>>()));
    let claimers = (0..2).map(|_| {
        let (h, left) = (h.clone(), Arc::clone(&left));
        async move {
            let mut seen = Vec::new();
            while left.load(Ordering::SeqCst) > 0 {
                let lease = claim(&h, 50).await;
                seen.extend(ids(&lease).iter().map(ToString::to_string));
                let settled = h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
                assert_eq!(settled.len(), lease.deliveries.len());
                left.fetch_sub(settled.len(), Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
            seen
        }
    });
    let seen = together(claimers).await.concat();
    producers.await.unwrap();
    over.store(true, Ordering::SeqCst);
    let removed = pruner.await.unwrap();

    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    seen.into_iter().for_each(|id| *times.entry(id).or_default() += 1);
    assert_eq!(times.len(), PRODUCERS * BATCHES * BATCH, "none is lost");
    assert!(times.values().all(|n| *n == 1), "none came twice");
    age(&h, MINUTE).await;
    let rest = prune(&h, Prunable::Events, Duration::ZERO, 500).await.iter().sum::<u64>();
    assert_eq!((removed + rest) as usize, PRODUCERS * BATCHES * BATCH, "and all of it goes in the end");
}

/// A folder for this case. The case removes it at its end.
fn folder() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("postrider-archive-{}", uuid::Uuid::new_v4().simple()))
}

fn archiving(folder: &std::path::Path) -> Retention {
    Retention { finished: HOUR, archive: Some(folder.to_owned()), ..Retention::default() }
}

/// G.3: each event is archived with all attempts, in the file of its day, before it is removed.
pub async fn finished_events_are_archived_before_removal<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let metadata = serde_json::Map::from_iter([("by".to_owned(), json!("hand"))]);
    enqueue(&h, (0..3).map(|n| draft(format!("done{n}")).metadata(&metadata))).await;
    let lease = claim(&h, 10).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    enqueue_one(&h, draft("waiting")).await;
    age(&h, 48 * HOUR).await;
    enqueue_one(&h, draft("young")).await;
    let day = find(&h, "done0").await.created_at.date();
    let folder = folder();
    assert_eq!(archiving(&folder).prune(h.store()).await.unwrap(), 3);
    assert!(!is_stored(&h, "done0").await && is_stored(&h, "waiting").await && is_stored(&h, "young").await);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, [format!("events-{day}.jsonl").as_str()]);
    let text = std::fs::read_to_string(folder.join(&files[0])).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = lines.iter().map(|line| line["event"]["eventId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["done0", "done1", "done2"]);
    assert_eq!(lines[1]["event"]["payload"], json!({ "n": "done1" }));
    assert_eq!(lines[1]["event"]["metadata"], json!({ "by": "hand" }));
    assert_eq!(lines[1]["status"], "CONSUMED");
    assert_eq!(lines[1]["consumptions"][0]["consumerId"], LANE);
    assert_eq!(archiving(&folder).prune(h.store()).await.unwrap(), 0, "once");
    std::fs::remove_dir_all(folder).unwrap();
}

/// G.3: an event that cannot be archived is not removed.
pub async fn without_its_archive_nothing_is_removed<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("e")).await;
    finish_all(&h).await;
    age(&h, 2 * HOUR).await;
    let in_the_way = folder();
    std::fs::write(&in_the_way, "a file where the folder should be").unwrap();
    let refused = archiving(&in_the_way).prune(h.store()).await.unwrap_err();
    let why = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{refused} {why}").contains("cannot be written"), "{refused}: {why}");
    assert!(is_stored(&h, "e").await);
    std::fs::remove_file(in_the_way).unwrap();
}

/// F22: an event redriven after it was archived stays.
pub async fn what_is_not_finished_any_more_is_kept<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["e", "f"].map(draft)).await;
    finish_all(&h).await;
    age(&h, 2 * HOUR).await;
    let batch = Prune { what: Prunable::Events, older_than: HOUR, after: 0, limit: 100 };
    let finished = h.store().finished(&batch).await.unwrap();
    assert_eq!((finished.events.len(), finished.next), (2, None));
    h.store().redrive("f", LANE, None).await.unwrap();
    let sequences: Vec<i64> = finished.events.iter().map(|record| record.sequence).collect();
    assert_eq!(h.store().prune_events(&sequences).await.unwrap(), 1);
    assert!(!is_stored(&h, "e").await && is_stored(&h, "f").await);
    let half = h.store().finished(&Prune { limit: 1, ..batch }).await.unwrap();
    assert!(half.events.is_empty() && half.next.is_some(), "it waits, and is looked over: {half:?}");
}
