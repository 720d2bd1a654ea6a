//! `publish`: for callers that have no transaction of their own.

use postrider::prelude::*;
use postrider::store::NewEvent;
use postrider::{Bus, Draft, Enqueued, Error, Unheard, Via};

use crate::Harness;
use crate::steps::*;

fn bus(h: &impl Harness) -> Bus {
    Bus::new(h.store().clone())
}

fn prepared(h: &impl Harness, drafts: impl IntoIterator<Item = Draft>) -> Vec<NewEvent> {
    drafts.into_iter().map(|draft| bus(h).prepare(draft).unwrap()).collect()
}

/// D.4: the event is stored with its deliveries and expected consumers before it is sent.
pub async fn a_subscribed_event_is_stored_with_its_deliveries<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "member-service", Via::External).await;
    let published = bus(&h).publish(&prepared(&h, [draft("e")])).await.unwrap();
    assert!(matches!(&published[..], [Enqueued::Accepted(id)] if id.as_str() == "e"), "{published:?}");
    let found = find(&h, "e").await;
    assert_eq!((found.deliveries.len(), found.consumptions.len()), (1, 1));
    assert_eq!(ids(&claim(&h, 10).await), ["e"]);
}

/// D.3: nothing is stored or sent, and the outcome is `Skipped`.
pub async fn an_event_without_subscribers_is_skipped<H: Harness>(h: H) {
    let published = bus(&h).publish(&prepared(&h, [draft("e")])).await.unwrap();
    assert!(matches!(&published[..], [Enqueued::Skipped(_)]), "{published:?}");
    assert!(h.store().find("e").await.unwrap().is_none());
    let kept = h.store().publish(&prepared(&h, [draft("e")]), Unheard::Keep).await.unwrap();
    assert!(matches!(&kept[..], [Enqueued::Unheard(_)]), "where it is asked for: {kept:?}");
}

/// A.3
pub async fn the_same_event_twice_is_a_duplicate<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let published = bus(&h).publish(&prepared(&h, [draft("e"), draft("e")])).await.unwrap();
    assert!(matches!(&published[..], [Enqueued::Accepted(_), Enqueued::Duplicate(_)]), "{published:?}");
    let again = bus(&h).publish(&prepared(&h, [draft("e")])).await.unwrap();
    assert!(matches!(&again[..], [Enqueued::Duplicate(_)]), "{again:?}");
}

/// One invalid event refuses the whole batch.
pub async fn a_batch_is_one_transaction<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    bus(&h).publish(&prepared(&h, [draft("taken")])).await.unwrap();
    let other = Draft::json(TOPIC, &serde_json::json!({ "other": true })).unwrap().event_id("taken");
    let refused = bus(&h).publish(&prepared(&h, [draft("a"), other, draft("b")])).await;
    assert!(matches!(refused, Err(Error::IdConflict { event_id }) if event_id == "taken"));
    assert!(h.store().find("a").await.unwrap().is_none(), "nothing of it is written");
    assert!(h.store().find("b").await.unwrap().is_none());
    assert_eq!(ids(&claim(&h, 10).await), ["taken"]);
}

/// A.3: the same for concurrent calls.
pub async fn concurrent_duplicates_store_one_event<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let publishers = (0..8).map(|_| {
        let h = h.clone();
        async move { bus(&h).publish(&prepared(&h, [draft("e")])).await.unwrap().remove(0) }
    });
    let published = together(publishers).await;
    let accepted = published.iter().filter(|one| matches!(one, Enqueued::Accepted(_))).count();
    let duplicates = published.iter().filter(|one| matches!(one, Enqueued::Duplicate(_))).count();
    assert_eq!((accepted, duplicates), (1, 7));
    assert_eq!(claim(&h, 10).await.deliveries.len(), 1);
}

/// A batch has at most 1,000 events.
pub async fn a_batch_stops_at_its_limit<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    assert_eq!(bus(&h).publish(&[]).await.unwrap(), []);
    let published = bus(&h).publish(&prepared(&h, drafts(1_000))).await.unwrap();
    assert!(published.iter().all(|one| matches!(one, Enqueued::Accepted(_))));
    let refused = bus(&h).publish(&prepared(&h, drafts(1_001))).await;
    assert!(matches!(refused, Err(Error::TooLarge { field: "events", .. })));
}

/// D.10: an event with a parent and no trace continues the parent's, which is stored, or in the same batch.
pub async fn a_child_without_a_trace_continues_its_parents<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    bus(&h).publish(&prepared(&h, [draft("root").trace("t-1", None)])).await.unwrap();
    let mut drafts = [
        draft("child").parent("root"),
        draft("grandchild").parent("child"),
        draft("elsewhere").parent("root").trace("t-2", None),
        draft("named").parent("root").metadata_json(r#"{"traceId":"t-3"}"#),
        draft("orphan").parent("unknown"),
        draft("new-child").parent("new-root"),
        draft("new-root"),
        draft("alone"),
        draft("egg").parent("hen"),
        draft("hen").parent("egg"),
    ];
    bus(&h).inherit_traces(&mut drafts, &postrider::Scope::default()).await.unwrap();
    bus(&h).publish(&prepared(&h, drafts)).await.unwrap();
    let trace = async |id: &str| find(&h, id).await.envelope.trace_id.unwrap();
    for (id, expected) in [("child", "t-1"), ("grandchild", "t-1"), ("elsewhere", "t-2"), ("named", "t-3")] {
        assert_eq!(trace(id).await, expected, "{id}");
    }
    assert_eq!(trace("new-child").await, trace("new-root").await);
    assert_eq!(trace("egg").await, trace("hen").await);
    let apart = [trace("orphan").await, trace("new-root").await, trace("alone").await, trace("egg").await];
    assert_eq!(std::collections::BTreeSet::from(apart).len(), 4, "each has a trace of its own");
}
