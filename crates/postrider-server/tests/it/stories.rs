//! The story of a business key over HTTP.

use postrider::idempotency::Idempotency;
use postrider::prelude::*;
use postrider::store::access::Role;
use postrider::{Consumer, Effect, Event, Failure, Inbox, Received, Relay, Scope};
use postrider_server::secret::{self, Wanted};
use postrider_server::{Mask, Options};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::desk::{Desk, read};

#[derive(Serialize, Deserialize)]
struct Paid {
    id: String,
}

impl Event for Paid {
    const TOPIC: &'static str = "order.paid";
}

#[derive(Serialize, Deserialize)]
struct Refunded {
    id: String,
}

impl Event for Refunded {
    const TOPIC: &'static str = "order.refunded";
}

struct Spend;

impl<S: Enlist> Consumer<S> for Spend {
    const NAME: &'static str = "points";
    type Event = Paid;

    async fn handle(&self, _: &mut S::Conn, paid: Received<Paid>) -> Result<(), Failure> {
        paid.keep(&Effect::new("spent 200").moved("points of ada", "-200").key("points:7:commit"))?;
        Ok(())
    }
}

struct Revert;

impl<S: Enlist> Consumer<S> for Revert {
    const NAME: &'static str = "points";
    type Event = Refunded;

    async fn handle(&self, _: &mut S::Conn, refunded: Received<Refunded>) -> Result<(), Failure> {
        refunded.keep(&Effect::new("gave back 200").moved("points of ada", "+200").undoes("points:7:commit"))?;
        Ok(())
    }
}

/// Keeps free JSON, with something that not everyone may see.
struct Card;

impl<S: Enlist> Consumer<S> for Card {
    const NAME: &'static str = "card";
    type Event = Paid;

    async fn handle(&self, _: &mut S::Conn, paid: Received<Paid>) -> Result<(), Failure> {
        paid.keep(&json!({ "card": "4242", "ok": true }))?;
        Ok(())
    }
}

async fn deliver(desk: &Desk) {
    let inbox = Inbox::new(desk.store.clone()).consumer(Spend).consumer(Revert).consumer(Card);
    Relay::new(desk.store.clone(), inbox).drain().await.unwrap();
    while desk.store.fold(500).await.unwrap().more {}
}

/// An order that was paid and refunded, of this tenant.
async fn refunded_order(desk: &Desk, tenant: &str) {
    Inbox::new(desk.store.clone()).consumer(Spend).consumer(Revert).consumer(Card).register().await.unwrap();
    for step in ["paid", "refunded"] {
        let id = format!("{tenant}:{step}");
        let event = json!({ "eventId": id, "topic": format!("order.{step}"), "payload": { "id": id }, "key": "7",
            "aggregateType": "ORDER", "aggregateId": "7", "tenantId": tenant });
        desk.publish(event, 202).await;
        deliver(desk).await;
    }
}

/// G.11: events, deliveries, attempts, inbox and idempotency rows, repeats stopped and compensations in one answer, by key and by
/// aggregate; the net of what moved is 0.
#[tokio::test]
async fn a_story_is_one_answer() {
    let desk = Desk::open().await;
    refunded_order(&desk, "a").await;
    desk.store.redrive("a:paid", "points", None).await.unwrap();
    deliver(&desk).await;
    let mut tx = desk.store.begin().await.unwrap();
    let keys = Idempotency::new(desk.store.clone()).scope("points");
    let request = json!({});
    let work = keys.run_in(&mut *tx, "points:7:commit", &request, |_| Box::pin(async { Ok::<_, postrider::Error>(1) }));
    work.await.unwrap();
    desk.store.commit(tx).await.unwrap();
    for query in ["key=7", "aggregateType=ORDER&aggregateId=7"] {
        let story = read(desk.get("operator", &format!("/stories?{query}")).await, 200).await;
        assert_eq!((&story["key"], &story["aggregateType"], &story["cut"]), (&json!("7"), &json!("ORDER"), &json!(false)));
        let figures = json!({ "events": 2, "effects": 3, "attempts": 4, "repeatsStopped": 1, "twice": 0 });
        assert_eq!(story["figures"], figures);
        assert_eq!(story["assets"], json!([{ "asset": "points of ada", "net": "0", "balanced": true }]));
        let row = &story["idempotency"][0];
        assert_eq!((&row["scope"], &row["key"], &row["status"]), (&json!("points"), &json!("points:7:commit"), &json!("SUCCESS")));
        let [paid, refunded] = &story["events"].as_array().unwrap()[..] else { panic!("{story}") };
        assert_eq!((&paid["eventId"], &paid["status"], &paid["compensation"]), (&json!("a:paid"), &json!("CONSUMED"), &json!(false)));
        assert_eq!((&refunded["compensation"], &refunded["consumers"]), (&json!(true), &json!(["points"])));
        // Three attempts, and attempt 0 of both consumers.
        assert_eq!((paid["consumptions"].as_array().unwrap().len(), &paid["deliveries"]), (5, &json!([])));
        let spent = &paid["effects"][1];
        assert_eq!((&spent["consumerId"], &spent["effect"], &spent["state"]), (&json!("points"), &json!("spent 200"), &json!("done")));
        assert_eq!((&spent["delta"], &spent["repeatsStopped"], &spent["attempts"]), (&json!("-200"), &json!(1), &json!(2)));
        let back = &refunded["effects"][0];
        assert_eq!((&back["undoes"], &spent["undoneAt"]), (&json!(["a:paid"]), &back["at"]));
    }
    desk.close().await;
}

/// What is open says when it is tried next; what nothing is known about is not found; a wrong question is refused.
#[tokio::test]
async fn what_a_story_needs() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "puller", json!({})).await;
    desk.publish(json!({ "eventId": "e", "topic": "order.paid", "payload": 1, "key": "k/ 1" }), 202).await;
    while desk.store.fold(500).await.unwrap().more {}
    let story = read(desk.get("operator", "/stories?key=k%2F%201").await, 200).await;
    let effect = &story["events"][0]["effects"][0];
    assert_eq!((&effect["state"], &effect["consumerId"]), (&json!("waiting"), &json!("puller")));
    assert!(effect["dueAt"].is_string() && effect.get("effect").is_none() && effect.get("at").is_none(), "{effect}");
    read(desk.get("operator", "/stories?key=unknown").await, 404).await;
    read(desk.get("operator", "/stories?aggregateType=ORDER&aggregateId=1").await, 404).await;
    let long = "k".repeat(257);
    for wrong in ["", "?key=", "?aggregateType=ORDER", "?aggregateId=1", "?key=1&aggregateType=A&aggregateId=1", "?topic=t", &format!("?key={long}")] {
        read(desk.get("operator", &format!("/stories{wrong}")).await, 400).await;
    }
    read(desk.get("viewer", "/stories?key=1").await, 403).await;
    desk.close().await;
}

/// S5 S21 G.14: another tenant's rows are not shown, idempotency rows belong to none, and a kept result is masked like a payload.
#[tokio::test]
async fn a_story_shows_what_its_caller_may_see() {
    let mask = Mask::parse(&["$.card".into()]).unwrap();
    let desk = Desk::with(Options { mask, ..Options::default() }).await;
    for tenant in ["a", "b"] {
        refunded_order(&desk, tenant).await;
    }
    let mut tx = desk.store.begin().await.unwrap();
    let keys = Idempotency::new(desk.store.clone()).scope("b");
    let request = json!({});
    let work = keys.run_in(&mut *tx, "points:7:commit", &request, |_| Box::pin(async { Ok::<_, postrider::Error>(1) }));
    work.await.unwrap();
    desk.store.commit(tx).await.unwrap();
    let scope = Scope { tenants: vec!["a".into()], ..Scope::default() };
    let wanted = Wanted { scope, ..Wanted::new("scoped", Role::Operator) };
    let token = secret::create(&desk.store, &wanted).await.unwrap().0;
    let scoped = desk.client.get(format!("{}/api/v1/stories?key=7", desk.url)).bearer_auth(&token);
    let story = read(scoped.send().await.unwrap(), 200).await;
    let ids: Vec<_> = story["events"].as_array().unwrap().iter().map(|event| event["eventId"].clone()).collect();
    assert_eq!((ids, &story["idempotency"]), (vec![json!("a:paid"), json!("a:refunded")], &json!([])));
    assert!(!story.to_string().contains("b:"), "{story}");
    let all = read(desk.get("operator", "/stories?key=7").await, 200).await;
    assert_eq!((all["events"].as_array().unwrap().len(), all["idempotency"].as_array().unwrap().len()), (4, 1));
    let result = |story: &Value| story["events"][0]["effects"][0]["result"].clone();
    assert_eq!(result(&all), json!({ "card": "***", "ok": true }));
    let whole = read(desk.get("admin", "/stories?key=7").await, 200).await;
    assert_eq!(result(&whole), json!({ "card": "4242", "ok": true }));
    desk.close().await;
}

/// G.11: whatever one has at hand leads to the story: the event's id, its beginning, the key, or the id of the aggregate.
#[tokio::test]
async fn every_hit_leads_to_the_story() {
    let desk = Desk::open().await;
    desk.subscribe("order.paid", "puller", json!({})).await;
    let event = json!({ "eventId": "order:10492:paid", "topic": "order.paid", "payload": 1, "key": "key-10492",
        "aggregateType": "ORDER", "aggregateId": "10492", "traceId": "0af7651916cd43dd8448eb211c80319c" });
    desk.publish(event, 202).await;
    while desk.store.fold(500).await.unwrap().more {}
    for text in ["order:10492:paid", "order:1", "key-10492", "10492", "0af765", "0af7651916cd43dd8448eb211c80319c"] {
        let found = read(desk.get("operator", &format!("/search?q={text}")).await, 200).await;
        let hit = &found["hits"][0];
        let query = match hit["kind"].as_str().unwrap() {
            "key" => format!("key={}", hit["id"].as_str().unwrap()),
            "aggregate" => {
                let (kind, id) = hit["label"].as_str().unwrap().split_once(' ').unwrap();
                format!("aggregateType={kind}&aggregateId={id}")
            }
            "event" => format!("key={}", desk.show(hit["id"].as_str().unwrap()).await["key"].as_str().unwrap()),
            "trace" => {
                let trace = read(desk.get("operator", &format!("/traces/{}", hit["id"].as_str().unwrap())).await, 200).await;
                format!("key={}", trace["events"][0]["key"].as_str().unwrap())
            }
            other => panic!("{text}: {other}"),
        };
        let story = read(desk.get("operator", &format!("/stories?{query}")).await, 200).await;
        assert_eq!(story["events"][0]["eventId"], "order:10492:paid", "{text}");
    }
    desk.close().await;
}
