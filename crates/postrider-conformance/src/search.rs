//! `search`: what a text names.

use postrider::search::{Kind, search};
use postrider::{Aggregate, Draft};
use serde_json::json;

use crate::Harness;
use crate::fold::fold_all;
use crate::steps::*;

async fn hits(h: &impl Harness, text: &str) -> Vec<(Kind, String, String)> {
    let hits = search(h.store(), text, 20, &postrider::Scope::default()).await.unwrap();
    hits.into_iter().map(|hit| (hit.kind, hit.id, hit.label)).collect()
}

fn hit(kind: Kind, id: &str, label: &str) -> (Kind, String, String) {
    (kind, id.into(), label.into())
}

/// Two orders in one trace, and one in another.
async fn some_events(h: &impl Harness) {
    subscribe_lane(h).await;
    let order = |id: &str, n: i64| draft(id).aggregate(Aggregate::new("ORDER", n)).key(format!("order-{n}"));
    enqueue(
        h,
        [
            order("order:10492:paid", 10_492).trace("4bf92f3577b34da6a3ce929d0e0e4736", None),
            order("order:10492:sent", 10_492).trace("4bf92f3577b34da6a3ce929d0e0e4736", None),
            order("order:20", 20).trace("4bf92f0000000000000000000000ffff", None),
            draft("e1"),
            // Its trace begins like the aggregate's id, which is too short to name it.
            Draft::json(TOPIC, &json!({}))
                .unwrap()
                .event_id("100%_off")
                .aggregate(Aggregate::new("COUPON", 20))
                .trace("20bf92f3577b34da6a3ce929d0e0e473", None),
        ],
    )
    .await;
}

/// CONTRACT: whole ids of events, traces, keys and aggregates, the latter without their type.
pub async fn whole_ids_are_found<H: Harness>(h: H) {
    some_events(&h).await;
    assert_eq!(hits(&h, "e1").await, [hit(Kind::Event, "e1", TOPIC)], "an event is found at once");
    fold_all(&h).await;
    assert_eq!(hits(&h, "order:20").await, [hit(Kind::Event, "order:20", TOPIC)]);
    assert_eq!(hits(&h, "order-20").await, [hit(Kind::Key, "order-20", "order-20")]);
    let aggregates = [hit(Kind::Aggregate, "20", "COUPON 20"), hit(Kind::Aggregate, "20", "ORDER 20")];
    assert_eq!(hits(&h, "20").await, aggregates);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    assert_eq!(hits(&h, trace).await, [hit(Kind::Trace, trace, trace)], "once, although it has two events");
    let found = search(h.store(), "e1", 20, &postrider::Scope::default()).await.unwrap();
    assert_eq!(found[0].event.as_ref().unwrap().envelope.payload, "", "payloads are left out");
}

/// CONTRACT: beginnings of ids and traces, from six characters up.
pub async fn beginnings_are_found_from_six_characters_up<H: Harness>(h: H) {
    some_events(&h).await;
    fold_all(&h).await;
    let paid_and_sent = [hit(Kind::Event, "order:10492:sent", TOPIC), hit(Kind::Event, "order:10492:paid", TOPIC)];
    assert_eq!(hits(&h, "order:1").await, paid_and_sent);
    assert_eq!(hits(&h, "order:").await.len(), 3);
    assert_eq!(hits(&h, "100%_").await, []);
    let of_trace = hits(&h, "4bf92f").await;
    assert_eq!(of_trace.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), [Kind::Trace, Kind::Trace]);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    assert_eq!(hits(&h, "4bf92f3577").await, [hit(Kind::Trace, trace, trace)]);
    assert_eq!(hits(&h, "4bf92").await, []);
}

/// A text is compared byte for byte: signs of patterns mean themselves.
pub async fn signs_of_patterns_mean_themselves<H: Harness>(h: H) {
    some_events(&h).await;
    fold_all(&h).await;
    assert_eq!(hits(&h, "100%_off").await, [hit(Kind::Event, "100%_off", TOPIC)]);
    for nothing in
        ["order%", "order:_", "______", "ORDER:20", "order:20 ", "'; --", "\u{10ffff}\u{10ffff}aaaa", "a\0b", ""]
    {
        assert_eq!(hits(&h, nothing).await, [], "{nothing:?}");
    }
}

/// Consumers and topics are found by a part of their name.
pub async fn consumers_and_topics_are_found_by_a_part<H: Harness>(h: H) {
    some_events(&h).await;
    assert_eq!(hits(&h, &TOPIC[1..]).await, [hit(Kind::Topic, TOPIC, TOPIC)]);
    assert_eq!(hits(&h, LANE).await, [hit(Kind::Consumer, LANE, LANE)]);
}
