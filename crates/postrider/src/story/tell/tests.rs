//! Stories of rows, without a store.

// A failed unwrap fails the test.
#![allow(clippy::unwrap_used)]

use time::OffsetDateTime;
use time::macros::datetime;

use super::{Rows, tell};
use crate::effect::Effect;
use crate::entry::DeliveryStatus;
use crate::envelope::Envelope;
use crate::event::{Aggregate, EventId};
use crate::status::{ConsumerState, Kept, Record};
use crate::store::{Consumption, Delivery, DeliveryId, ReceivedEvent, Repeat, Routing, StoredKey};
use crate::story::{Story, Subject, Undone};

const NOON: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);

fn minute(minute: i64) -> OffsetDateTime {
    NOON + time::Duration::minutes(minute)
}

/// Rows of one order.
#[derive(Default)]
struct Order(Vec<Record>, Vec<ReceivedEvent>, Vec<Repeat>, Vec<StoredKey>);

impl Order {
    fn event(mut self, id: &str) -> Self {
        let mut envelope = Envelope::new(EventId::stored(id.into()), "order", "{}", NOON);
        envelope.key = Some("7".into());
        envelope.aggregate = Some(Aggregate::new("ORDER", "7"));
        self.0.push(Record {
            sequence: self.0.len() as i64 + 1,
            routing: Routing::Routed,
            created_at: NOON,
            expired: false,
            listed: None,
            listed_at: None,
            kept: Kept::default(),
            envelope,
            deliveries: Vec::new(),
            consumptions: Vec::new(),
        });
        self
    }

    fn attempt(&mut self, consumer: &str, success: bool) -> u32 {
        let record = self.0.last_mut().unwrap();
        let attempt = record.consumptions.iter().filter(|one| one.consumer == consumer).count() as u32 + 1;
        record.consumptions.push(Consumption {
            consumer: consumer.into(),
            attempt,
            success: Some(success),
            will_retry: !success,
            consumed_at: Some(minute(i64::from(attempt))),
            error: None,
            code: None,
            created_at: NOON,
        });
        attempt
    }

    /// A consumer that is done, with what it has kept.
    fn done(mut self, consumer: &str, key: Option<&str>, kept: &[Effect]) -> Self {
        let attempt = self.attempt(consumer, true);
        self.1.push(ReceivedEvent {
            consumer: consumer.into(),
            event_id: self.0.last().unwrap().envelope.event_id.to_string(),
            received_at: minute(i64::from(attempt)),
            idempotency_key: key.map(Into::into),
            result: Some(serde_json::to_string(kept).unwrap()),
        });
        self
    }

    /// A consumer that tries again, or has given up.
    fn open(mut self, consumer: &str, status: DeliveryStatus) -> Self {
        self.attempt(consumer, false);
        let record = self.0.last_mut().unwrap();
        if status == DeliveryStatus::Dead {
            record.consumptions.last_mut().unwrap().will_retry = false;
        }
        record.deliveries.push(Delivery {
            id: DeliveryId::new(record.sequence, 1),
            lane: consumer.into(),
            target: None,
            shard: 0,
            status,
            held: false,
            attempts: 1,
            due_at: minute(30),
            lock_owner: None,
            lock_time: None,
            lock_until: None,
            last_error: None,
            skipped_at: None,
        });
        self
    }

    fn told(self) -> Story {
        let Self(records, received, repeats, keys) = self;
        tell(&Subject::Key("7".into()), Rows { records, received, repeats, keys }, false)
    }
}

fn net(story: &Story) -> Vec<(&str, &str)> {
    story.assets.iter().map(|asset| (asset.asset.as_str(), asset.net.as_deref().unwrap_or("?"))).collect()
}

/// G.11: a compensation names what it undoes by its key or by its event. What is not done yet waits, and the net shows it.
#[test]
fn a_compensation_is_connected_with_what_it_undoes() {
    let paid = Order::default()
        .event("paid")
        .done("wallet", Some("wallet:7:commit"), &[Effect::new("paid 40").moved("wallet", "-40.00")])
        .done(
            "points",
            None,
            &[
                Effect::new("spent 200").moved("points", -200).key("points:7:commit"),
                Effect::new("earned 129").moved("points", "+129").key("points:7:earn"),
            ],
        )
        .done("stock", None, &[Effect::new("took 1").moved("P-31", -1)]);
    let back = Effect::new("gave back 40").moved("wallet", "+40.00").undoes("wallet:7:commit");
    let returned = Effect::new("put back 1").moved("P-31", 1).undoes("paid");
    let refunded = paid.event("refunded").done("wallet", None, &[back]).done("stock", None, &[returned]);
    let open = refunded.open("points", DeliveryStatus::Failed).told();
    assert_eq!(net(&open), [("points", "-71"), ("P-31", "0"), ("wallet", "0.00")]);
    let [paid, refunded] = &open.events[..] else { panic!("two") };
    assert!(!paid.compensation && refunded.compensation);
    let undone: Vec<_> = paid.effects.iter().map(|effect| (effect.consumer.as_str(), effect.undone)).collect();
    let at = Some(Undone::At(minute(1)));
    let waits = Some(Undone::Waits);
    assert_eq!(undone, [("points", waits), ("points", waits), ("stock", at), ("wallet", at)]);
    let undoes: Vec<_> = refunded.effects.iter().map(|effect| (effect.consumer.as_str(), &effect.undoes[..])).collect();
    let paid_id = &["paid".to_owned()][..];
    assert_eq!(undoes, [("points", &[][..]), ("stock", paid_id), ("wallet", paid_id)]);
    let points = &refunded.effects[0];
    assert_eq!((points.state, points.due_at, points.at), (ConsumerState::Retrying, Some(minute(30)), None));
    assert_eq!((open.figures.events, open.figures.effects, open.figures.attempts), (2, 6, 6));
}

/// G.11: several effects of one consumer may be undone by one.
#[test]
fn one_effect_may_undo_several() {
    let kept = [
        Effect::new("spent 200").moved("points", -200).key("spend"),
        Effect::new("earned 129").moved("points", "+129").key("earn"),
    ];
    let back = Effect::new("gave back 200, took back 129").moved("points", 71).undoes("spend").undoes("earn");
    let told =
        Order::default().event("paid").done("points", None, &kept).event("refunded").done("points", None, &[back]);
    let story = told.told();
    assert!(story.events[0].effects.iter().all(|effect| effect.undone.is_some()), "{story:?}");
    assert_eq!(story.events[1].effects[0].undoes, ["paid"], "once");
    assert_eq!(net(&story), [("points", "0")]);
    assert!(story.assets[0].balanced);
}

/// A key that no effect of the story has is shown as it was written; a cycle and a name of its own event connect nothing.
#[test]
fn what_names_nothing_stays_a_name() {
    let alone = Order::default().event("e").done(
        "wallet",
        Some("k"),
        &[Effect::new("back").undoes("k").undoes("e").undoes("gone")],
    );
    let story = alone.told();
    assert_eq!(story.events[0].effects[0].undoes, ["k", "e", "gone"]);
    assert_eq!(story.events[0].effects[0].undone, None);
}

/// Keys, repeats and results belong to their own consumer; without a stored key the inbox row is the record.
#[test]
fn rows_are_joined_by_consumer_and_event() {
    let mut order = Order::default().event("e").done("a", Some("a:7"), &[]).done("b", None, &[Effect::new("did b")]);
    order.1[0].result = Some(r#"{"plain": true}"#.into());
    order.2.push(Repeat { consumer: "a".into(), event_id: "e".into(), repeats: 3, repeated_at: NOON });
    for (scope, status, at) in [("old", "FAILED", 1), ("new", "PROCESSING", 2)] {
        order.3.push(StoredKey {
            scope: scope.into(),
            key: "a:7".into(),
            status: status.into(),
            updated_at: minute(at),
        });
    }
    let story = order.told();
    let [a, b] = &story.events[0].effects[..] else { panic!("one each") };
    assert_eq!((a.idempotency_key.as_deref(), a.key_state.as_deref()), (Some("a:7"), Some("PROCESSING")));
    assert_eq!((a.result.as_deref(), a.repeats_stopped), (Some(r#"{"plain": true}"#), 3));
    assert_eq!((b.idempotency_key.as_deref(), b.key_state.as_deref()), (Some("e"), Some("SUCCESS")));
    assert_eq!((b.result.as_deref(), b.repeats_stopped), (None, 0));
    assert_eq!((story.figures.repeats_stopped, story.figures.twice), (3, 0));
    assert_eq!(story.aggregate, Some(Aggregate::new("ORDER", "7")));
}

/// G.13: two successes that no redrive and no stopped repeat explains are an effect too many, and so are two events under one key.
#[test]
fn an_effect_too_many_is_counted() {
    let twice = Order::default().event("e").done("a", None, &[]);
    let mut again = twice;
    again.attempt("a", true);
    assert_eq!(again.told().figures.twice, 1);
    let one_key = Order::default().event("e1").done("a", Some("k"), &[]).event("e2").done("a", Some("k"), &[]);
    assert_eq!(one_key.told().figures.twice, 1);
}

/// A consumer that gave up is shown as such, and has no next try.
#[test]
fn a_dead_delivery_has_no_next_try() {
    let story = Order::default().event("e").open("a", DeliveryStatus::Dead).told();
    let [effect] = &story.events[0].effects[..] else { panic!("one") };
    assert_eq!((effect.state, effect.due_at), (ConsumerState::Failed, None));
    assert_eq!(story.figures.effects, 0);
}

/// A safety net that does the same operation again, under its key, tells the same effect: it counts once.
#[test]
fn an_operation_under_one_key_counts_once() {
    let kept = [Effect::new("paid 40").moved("wallet", "-40.00").key("wallet:7:commit")];
    let mut order =
        Order::default().event("paid").done("wallet", None, &kept).event("success").done("net", None, &kept);
    order.1[1].received_at = minute(9);
    let story = order.told();
    let again: Vec<bool> = story.events.iter().flat_map(|event| &event.effects).map(|effect| effect.again).collect();
    assert_eq!(again, [false, true]);
    assert_eq!(net(&story), [("wallet", "-40.00")]);
    assert_eq!((story.figures.effects, story.figures.twice), (1, 0));
}
