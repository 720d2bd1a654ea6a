//! `received`, `keys_named`, and the stories that are told from them: what consumers keep is read back, by event and key.

use postrider::idempotency::Idempotency;
use postrider::prelude::*;
use postrider::status::ConsumerState;
use postrider::store::{DeadHead, History, ReceivedEvent};
use postrider::story::{Story, Subject, Undone, read};
use postrider::{
    Aggregate, BatchConsumer, Consumer, Draft, Effect, Event, Failure, Inbox, LaneOptions, OutsideConsumer, Received,
    Relay, Scope, Via,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Harness;
use crate::fold::fold_all;
use crate::steps::*;

#[derive(Serialize, Deserialize)]
struct Paid {
    n: String,
}

impl Event for Paid {
    const TOPIC: &'static str = TOPIC;
}

#[derive(Serialize, Deserialize)]
struct Refunded {
    n: String,
}

impl Event for Refunded {
    const TOPIC: &'static str = "order.refunded";
}

/// Spends and earns: two effects, each under a key.
struct Spend;

impl<S: Enlist> Consumer<S> for Spend {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, _: &mut S::Conn, paid: Received<Paid>) -> Result<(), Failure> {
        let spent = Effect::new("spent 200").moved("points of ada", -200).key("points:7:commit");
        let earned = Effect::new("earned 129").moved("points of ada", "+129").key("points:7:earn");
        paid.keep(&[spent, earned])?;
        Ok(())
    }
}

/// Undoes both.
struct Revert;

impl<S: Enlist> Consumer<S> for Revert {
    const NAME: &'static str = LANE;
    type Event = Refunded;

    async fn handle(&self, _: &mut S::Conn, refunded: Received<Refunded>) -> Result<(), Failure> {
        let back = Effect::new("gave back 200, took back 129").moved("points of ada", 71);
        refunded.keep(&back.undoes("points:7:commit").undoes("points:7:earn"))?;
        refunded.keep_key("points:7:revert")?;
        Ok(())
    }
}

/// Has its effect outside of the database, and keeps it.
struct Stock;

impl OutsideConsumer for Stock {
    const NAME: &'static str = "stock";
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        paid.keep(&Effect::new("took 1").moved("P-31", -1))?;
        paid.keep_key(format!("{}-DEDUCT", paid.n))?;
        Ok(())
    }
}

/// Keeps nothing.
struct Mail;

impl OutsideConsumer for Mail {
    const NAME: &'static str = "mail";
    type Event = Paid;

    async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Takes many events at once, and keeps free JSON about each.
struct Report;

impl<S: Enlist> BatchConsumer<S> for Report {
    const NAME: &'static str = "report";
    type Event = Paid;

    async fn handle(&self, _: &mut S::Conn, events: Vec<Received<Paid>>) -> Result<(), Failure> {
        for paid in &events {
            paid.keep(&json!({ "lines": 3 }))?;
        }
        Ok(())
    }
}

fn inbox<H: Harness>(h: &H) -> Inbox<H::Store> {
    Inbox::new(h.store().clone()).consumer(Spend).consumer(Revert).outside(Stock).outside(Mail).batch(Report)
}

async fn drain<H: Harness>(h: &H) {
    Relay::new(h.store().clone(), inbox(h)).drain().await.unwrap();
    fold_all(h).await;
}

fn about(id: &str, topic: &str) -> Draft {
    Draft::json(topic, &json!({ "n": id })).unwrap().event_id(id).key("7").aggregate(Aggregate::new("ORDER", "7"))
}

async fn told(h: &impl Harness, subject: Subject, scope: &Scope) -> Story {
    read(h.store(), &subject, scope).await.unwrap()
}

async fn story(h: &impl Harness) -> Story {
    told(h, Subject::Key("7".into()), &Scope::default()).await
}

/// The effects of one event: consumer, words and key.
fn effects(story: &Story, event: usize) -> Vec<(&str, Option<&str>, Option<&str>)> {
    let all = story.events[event].effects.iter();
    all.map(|one| {
        (
            one.consumer.as_str(),
            one.effect.as_ref().map(|effect| effect.effect.as_str()),
            one.idempotency_key.as_deref(),
        )
    })
    .collect()
}

/// G.11: what each kind of consumer keeps is read back with its event, by the key and by the aggregate.
pub async fn effects_are_kept_and_read_back<H: Harness>(h: H) {
    inbox(&h).register().await.unwrap();
    enqueue_one(&h, about("paid", TOPIC)).await;
    enqueue_one(&h, draft("other").key("8")).await;
    drain(&h).await;
    let by_key = story(&h).await;
    let by_aggregate = told(&h, Subject::Aggregate(Aggregate::new("ORDER", "7")), &Scope::default()).await;
    for story in [&by_key, &by_aggregate] {
        assert_eq!((story.events.len(), story.cut), (1, false));
        assert_eq!(story.aggregate, Some(Aggregate::new("ORDER", "7")));
        assert_eq!(
            effects(story, 0),
            [
                ("mail", None, None),
                (LANE, Some("spent 200"), Some("points:7:commit")),
                (LANE, Some("earned 129"), Some("points:7:earn")),
                ("report", None, Some("paid")),
                ("stock", Some("took 1"), Some("paid-DEDUCT")),
            ]
        );
        let nets: Vec<_> = story.assets.iter().map(|one| (one.asset.as_str(), one.net.as_deref())).collect();
        assert_eq!(nets, [("points of ada", Some("-71")), ("P-31", Some("-1"))]);
        let report = &story.events[0].effects[3];
        assert_eq!((report.result.as_deref(), report.state), (Some(r#"{"lines":3}"#), ConsumerState::Ok));
        assert_eq!((story.figures.events, story.figures.effects, story.figures.attempts), (1, 5, 4));
        assert!(story.events[0].effects.iter().all(|one| one.at.is_some()), "{story:?}");
    }
    let nothing = told(&h, Subject::Key("unknown".into()), &Scope::default()).await;
    assert!(nothing.events.is_empty() && nothing.assets.is_empty() && nothing.keys.is_empty());
}

/// G.11: a compensation is connected with what it undoes, and everything came back.
pub async fn a_compensation_undoes_its_effects<H: Harness>(h: H) {
    inbox(&h).register().await.unwrap();
    enqueue_one(&h, about("paid", TOPIC)).await;
    drain(&h).await;
    enqueue_one(&h, about("refunded", "order.refunded")).await;
    drain(&h).await;
    let story = story(&h).await;
    let [paid, refunded] = &story.events[..] else { panic!("two: {story:?}") };
    assert!(!paid.compensation && refunded.compensation);
    let undone: Vec<_> = paid.effects.iter().filter(|one| one.consumer == LANE).map(|one| one.undone).collect();
    assert_eq!(undone, [refunded.effects[0].at.map(Undone::At); 2]);
    assert_eq!(refunded.effects[0].undoes, ["paid"]);
    let points = story.assets.iter().find(|one| one.asset == "points of ada").unwrap();
    assert_eq!((points.net.as_deref(), points.balanced), (Some("0"), true));
}

/// G.11: repeats that the inbox stopped, and the rows of business keys, are in the story. An outside consumer that is called again
/// keeps its last result, and has one row.
pub async fn repeats_and_keys_are_told<H: Harness>(h: H) {
    inbox(&h).register().await.unwrap();
    enqueue_one(&h, about("paid", TOPIC)).await;
    drain(&h).await;
    for _ in 0..2 {
        h.store().redrive("paid", LANE, None).await.unwrap();
        h.store().redrive("paid", "stock", None).await.unwrap();
        drain(&h).await;
    }
    for (scope, key) in [("points", "points:7:commit"), ("orders", "7"), ("points", "points:8:commit")] {
        let mut tx = h.store().begin().await.unwrap();
        let keys = Idempotency::new(h.store().clone()).scope(scope);
        let done = keys.run_in(&mut *tx, key, &json!({}), |_| Box::pin(async { Ok::<_, postrider::Error>(1) })).await;
        done.unwrap();
        h.store().commit(tx).await.unwrap();
    }
    let story = story(&h).await;
    let mut named: Vec<_> =
        story.keys.iter().map(|row| (row.scope.as_str(), row.key.as_str(), row.status.as_str())).collect();
    named.sort_unstable();
    assert_eq!(named, [("orders", "7", "SUCCESS"), ("points", "points:7:commit", "SUCCESS")]);
    assert_eq!((story.figures.repeats_stopped, story.figures.twice), (2, 0));
    let of = |consumer: &str| story.events[0].effects.iter().find(|one| one.consumer == consumer).unwrap();
    assert_eq!((of(LANE).repeats_stopped, of(LANE).attempts), (2, 3));
    assert_eq!((of("stock").repeats_stopped, of("stock").attempts), (0, 3));
    assert_eq!(of("stock").idempotency_key.as_deref(), Some("paid-DEDUCT"));
    assert_eq!(story.assets[1].net.as_deref(), Some("-1"), "once");
}

/// What is not done yet says how it stands and when it is tried next. A dead delivery has no next try.
pub async fn open_deliveries_are_told<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, ["paid", "refunded"].map(|id| about(id, TOPIC))).await;
    let lease = claim_keyed(&h, 1).await;
    h.store().retry(lease.token, &[failed(lease.deliveries[0].id, HOUR)], History::Keep).await.unwrap();
    fold_all(&h).await;
    let open = story(&h).await;
    let one = |event: usize| &open.events[event].effects[0];
    assert_eq!((one(0).state, one(0).attempts, one(0).due_at.is_some()), (ConsumerState::Retrying, 1, true));
    assert_eq!((one(1).state, one(1).attempts, one(1).key_state.as_deref()), (ConsumerState::Waiting, 0, None));
    assert_eq!((open.figures.effects, open.figures.attempts), (0, 1));
    age(&h, 2 * HOUR).await;
    let lease = h.store().claim_keyed(&wanted(1), DeadHead::Hold).await.unwrap();
    h.store().bury(lease.token, &[buried(lease.deliveries[0].id)], History::Keep).await.unwrap();
    let dead = story(&h).await;
    assert_eq!((dead.events[0].effects[0].state, dead.events[0].effects[0].due_at), (ConsumerState::Failed, None));
}

/// S5 G.14: events, effects and keys outside the scope do not exist.
pub async fn rows_of_other_tenants_are_not_told<H: Harness>(h: H) {
    inbox(&h).register().await.unwrap();
    enqueue(&h, ["7", "8"].map(|tenant| about(tenant, TOPIC).tenant(tenant))).await;
    drain(&h).await;
    for tenant in ["7", "8"] {
        h.store().redrive(tenant, LANE, None).await.unwrap();
    }
    drain(&h).await;
    let mut tx = h.store().begin().await.unwrap();
    let run = Idempotency::new(h.store().clone()).scope("tenant-8");
    run.run_in(&mut *tx, "points:7:commit", &json!({}), |_| Box::pin(async { Ok::<_, postrider::Error>(1) }))
        .await
        .unwrap();
    h.store().commit(tx).await.unwrap();
    let subject = || Subject::Key("7".into());
    let all = told(&h, subject(), &Scope::default()).await;
    assert_eq!((all.events.len(), all.figures.repeats_stopped, all.keys.len()), (2, 2, 1));
    let tenants = Scope { tenants: vec!["7".into()], ..Scope::default() };
    let inside = told(&h, subject(), &tenants).await;
    assert_eq!((inside.events.len(), inside.figures.repeats_stopped), (1, 1));
    assert_eq!(inside.events[0].record.envelope.tenant_id.as_deref(), Some("7"));
    assert!(inside.keys.is_empty(), "no row of a key says whose it is");
    assert_eq!(inside.figures.effects, 5);
    let consumers = Scope { consumers: vec![LANE.into()], ..Scope::default() };
    let mine = told(&h, subject(), &consumers).await;
    assert!(mine.events.iter().all(|event| event.consumers == [LANE]), "{mine:?}");
    assert!(mine.events.iter().flat_map(|event| &event.effects).all(|one| one.consumer == LANE));
    let topics = Scope { topics: vec!["order.refunded".into()], ..Scope::default() };
    assert!(told(&h, subject(), &topics).await.events.is_empty());
}

/// A story has its newest 200 events, and says so.
pub async fn a_long_story_is_cut<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, (0..203).map(|n| about(&format!("e{n:03}"), TOPIC))).await;
    fold_all(&h).await;
    let story = story(&h).await;
    assert_eq!((story.events.len(), story.cut, story.figures.events), (200, true, 200));
    let first = |story: &Story| story.events[0].record.envelope.event_id.to_string();
    assert_eq!(first(&story), "e003");
    let last = story.events.last().unwrap().record.envelope.event_id.to_string();
    assert_eq!(last, "e202", "in the order of time");
}

/// A lane without history leaves its inbox row alone, and that is enough.
pub async fn a_lane_without_history_is_told<H: Harness>(h: H) {
    let options = LaneOptions { history: History::Omit, ..LaneOptions::default() };
    let inbox = || Inbox::new(h.store().clone()).consumer_with(Spend, options.clone()).consumer(Revert);
    inbox().register().await.unwrap();
    enqueue_one(&h, about("paid", TOPIC)).await;
    fold_all(&h).await;
    Relay::new(h.store().clone(), inbox()).drain().await.unwrap();
    let story = story(&h).await;
    let words: Vec<_> = effects(&story, 0).into_iter().map(|(_, words, _)| words).collect();
    assert_eq!(words, [Some("spent 200"), Some("earned 129")]);
    assert!(story.events[0].effects.iter().all(|one| one.state == ConsumerState::Ok));
}

/// Names are compared byte for byte, and a renamed consumer keeps its results.
pub async fn rows_are_found_by_exact_names<H: Harness>(h: H) {
    inbox(&h).register().await.unwrap();
    subscribe(&h, TOPIC, "extra", Via::Pull).await;
    enqueue_one(&h, about("paid", TOPIC)).await;
    drain(&h).await;
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(consumer, event)| ((*consumer).to_owned(), (*event).to_owned())).collect()
    };
    let wrong =
        pairs(&[("Points", "paid"), (LANE, "Paid"), (LANE, "paid "), ("", ""), ("stock", "unknown"), ("mail", "paid")]);
    assert_eq!(h.store().received(&wrong).await.unwrap(), Vec::<ReceivedEvent>::new());
    let found = h.store().received(&pairs(&[("stock", "paid"), (LANE, "paid")])).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(h.store().received(&[]).await.unwrap().is_empty());
    let keys: Vec<String> = ["points:7:COMMIT", "", "points:7"].map(str::to_owned).into();
    assert!(h.store().keys_named(&keys).await.unwrap().is_empty());
    h.store().rename_consumer(LANE, "bonus").await.unwrap();
    fold_all(&h).await;
    let story = story(&h).await;
    assert_eq!(effects(&story, 0)[0], ("bonus", Some("spent 200"), Some("points:7:commit")));
}
