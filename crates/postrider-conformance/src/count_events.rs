//! `count_events`: how many events match, exactly or as an estimate. And `facets`, which divides them.

use postrider::entry::DeliveryStatus;
use postrider::facets;
use postrider::prelude::*;
use postrider::status::EventStatus;
use postrider::store::{Counted, Filter, History};
use postrider::{Draft, Outbox, Scope, Via};
use serde_json::json;

use crate::Harness;
use crate::fold::fold_all;
use crate::steps::*;

fn exactly(value: u64) -> Counted {
    Counted { value, exact: true }
}

/// CONTRACT: few events are counted exactly, folded or not.
pub async fn few_events_are_counted_exactly<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, (0..30).map(|n| draft(format!("e{n:02}")).tenant(["acme", "other"][n % 2]))).await;
    let lease = claim(&h, 10).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    let acme = Filter { tenant_id: Some("acme".into()), ..Filter::default() };
    let count = async |filter: Filter| h.store().count_events(&filter).await.unwrap();
    assert_eq!(count(acme.clone()).await, exactly(15), "not folded yet");
    fold_all(&h).await;
    assert_eq!(count(Filter::default()).await, exactly(30));
    assert_eq!(count(acme.clone()).await, exactly(15));
    assert_eq!(count(Filter { status: Some(EventStatus::Consumed), ..Filter::default() }).await, exactly(10));
    let open = vec![EventStatus::Pending, EventStatus::Consumed];
    assert_eq!(count(Filter { statuses: open, ..acme.clone() }).await, exactly(15));
    assert_eq!(count(Filter { delivery_status: Some(DeliveryStatus::New), ..acme }).await, exactly(10));
    let half = Filter { aggregate_id: Some("7".into()), ..Filter::default() };
    assert!(h.store().count_events(&half).await.is_err());
}

/// CONTRACT: the work is bounded: beyond 10,000 events a number is an estimate, and says so; what is rare stays exact.
pub async fn many_events_are_estimated_and_rare_ones_are_exact<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, (0..12_000).map(|n| draft(format!("e{n:05}")))).await;
    let lease = claim(&h, 3).await;
    let dead: Vec<_> = lease.ids().into_iter().map(buried).collect();
    h.store().bury(lease.token, &dead, History::Keep).await.unwrap();
    fold_all(&h).await;
    let counts = facets::counts(h.store(), &Filter::default()).await.unwrap();
    assert_eq!(counts.by_status[&EventStatus::Failed], exactly(3));
    let is_near = |counted: Counted| (11_500..=12_500).contains(&counted.value);
    let topic = counts.by_topic[TOPIC];
    assert!(is_near(counts.total) && is_near(topic) && !topic.exact, "{counts:?}");
    assert!(is_near(counts.by_consumer[LANE]), "{counts:?}");
}

/// D.13: facets of few events are what the events say.
pub async fn facets_divide_the_events<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "mail", Via::Local).await;
    let outbox = Outbox::new(h.store().clone()).service("shop");
    let mut tx = h.store().begin().await.unwrap();
    let shipped = Draft::json("order.shipped", &json!({})).unwrap().event_id("s");
    outbox.enqueue_many(&mut *tx, vec![draft("a").tenant("acme"), draft("b"), shipped]).await.unwrap();
    h.store().commit(tx).await.unwrap();
    let lease = claim(&h, 1).await;
    h.store().bury(lease.token, &[buried(lease.ids()[0])], History::Keep).await.unwrap();
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        let counts = facets::counts(h.store(), &Filter::default()).await.unwrap();
        assert_eq!(counts.total, exactly(3));
        let of = |facet: &std::collections::BTreeMap<String, Counted>, name: &str| facet.get(name).copied();
        assert_eq!(counts.by_status.get(&EventStatus::Partial), Some(&exactly(1)));
        assert_eq!(counts.by_status.get(&EventStatus::Pending), Some(&exactly(2)));
        assert_eq!(of(&counts.by_topic, TOPIC), Some(exactly(2)));
        assert_eq!(of(&counts.by_topic, "order.shipped"), Some(exactly(1)));
        assert_eq!(
            (of(&counts.by_consumer, LANE), of(&counts.by_consumer, "mail")),
            (Some(exactly(2)), Some(exactly(2)))
        );
        assert_eq!(
            (of(&counts.by_service, "shop"), of(&counts.by_tenant, "acme")),
            (Some(exactly(3)), Some(exactly(1)))
        );
    }
}

/// D.3: every topic that is subscribed to or has new events, with its events, subscribers and unheard events.
pub async fn topics_show_who_subscribes_and_what_waits<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "mail", Via::Local).await;
    subscribe(&h, "order.silent", "mail", Via::Local).await;
    enqueue(&h, [draft("a"), draft("b")]).await;
    enqueue(&h, ["x", "y", "z"].map(|id| Draft::json("order.lonely", &json!({})).unwrap().event_id(id))).await;
    fold_all(&h).await;
    let topics = facets::topics(h.store(), &Scope::default()).await.unwrap();
    let rows: Vec<_> =
        topics.iter().map(|one| (one.topic.as_str(), one.events.value, one.subscribers, one.unheard.value)).collect();
    assert_eq!(rows, [("order.lonely", 3, 0, 3), (TOPIC, 2, 2, 0), ("order.silent", 0, 1, 0)]);
    assert!(topics[1].last_seen_at.is_some() && topics[2].last_seen_at.is_none());
    subscribe(&h, "*", "everything", Via::Local).await;
    let topics = facets::topics(h.store(), &Scope::default()).await.unwrap();
    let subscribers: Vec<_> = topics.iter().map(|one| one.subscribers).collect();
    assert_eq!(subscribers, [1, 3, 2], "{topics:?}");
}
