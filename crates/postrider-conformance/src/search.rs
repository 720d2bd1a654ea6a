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

/// G.11: keys and aggregates by their beginning, from six characters up; also where many begin alike, by a longer beginning.
pub async fn keys_and_aggregates_are_found_by_their_beginning<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let wanted = draft("wanted").key("order-000001-green").aggregate(Aggregate::new("ORDER", "customer-000001-green"));
    let alike = (0..230).map(|n| draft(format!("e{n}")).key(format!("order-9{n:05}-blue")));
    enqueue(&h, std::iter::once(wanted).chain(alike)).await;
    enqueue_one(&h, draft("same").key("basket-77").aggregate(Aggregate::new("BASKET", "basket-77"))).await;
    enqueue_one(&h, draft("short").key("abcdef")).await;
    fold_all(&h).await;
    let key = || hit(Kind::Key, "order-000001-green", "order-000001-green");
    for text in ["order-000001", "order-000001-", "order-000001-green"] {
        assert_eq!(hits(&h, text).await, [key()], "{text}");
    }
    let aggregate = hit(Kind::Aggregate, "customer-000001-green", "ORDER customer-000001-green");
    for text in ["custom", "customer-0", "customer-000001-gr"] {
        assert_eq!(hits(&h, text).await, std::slice::from_ref(&aggregate), "{text}");
    }
    let both = [hit(Kind::Key, "basket-77", "basket-77"), hit(Kind::Aggregate, "basket-77", "BASKET basket-77")];
    assert_eq!(hits(&h, "basket").await, both);
    assert_eq!(hits(&h, "abcdef").await, [hit(Kind::Key, "abcdef", "abcdef")]);
    for nothing in ["order-000001-red", "custo", "Custom", "baske", "order-9000001"] {
        assert_eq!(hits(&h, nothing).await, [], "{nothing}");
    }
    assert_eq!(hits(&h, "order-").await.len(), 20, "the newest of many");
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
