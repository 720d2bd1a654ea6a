//! `set_dead_head`, `dead_keys`, `key_front`: a person lets a key go on behind its dead events, or stops it again.

use std::sync::Arc;
use std::time::Duration;

use postrider::prelude::*;
use postrider::store::access::{NewAudit, audited, explain};
use postrider::store::{Claim, DeadHead, DeadKey, History, KeyFront, Redriven};
use postrider::{Consumer, Error, Event, Failure, Inbox, Received, Relay, Via};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::steps::*;
use crate::{Conn, Harness};

async fn set(h: &impl Harness, key: &str, rule: DeadHead) -> DeadKey {
    h.store().set_dead_head(LANE, key, rule).await.unwrap().expect("an event of the key is dead")
}

/// What is claimed next, which is settled at once.
async fn next(h: &impl Harness, limit: u32) -> Vec<String> {
    let lease = claim_keyed(h, limit).await;
    settle(h, &lease).await;
    ids(&lease).into_iter().map(str::to_owned).collect()
}

async fn held(h: &impl Harness) -> u64 {
    h.store().counts().await.unwrap()[LANE].held
}

/// F18: the followers go on in their order, stop again, and go on again. Each is delivered once.
pub async fn a_skipped_key_goes_on_and_stops_again<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 4)).await;
    bury_head(&h, "a1").await;
    assert!(next(&h, 10).await.is_empty(), "the dead head holds");
    assert_eq!(held(&h).await, 3);

    let skipped = set(&h, "a", DeadHead::Skip).await;
    assert_eq!((skipped.event_id.as_str(), skipped.topic.as_str(), skipped.dead), ("a1", TOPIC, 1));
    assert_eq!((skipped.rule, skipped.waiting, skipped.skipped_at.is_some()), (DeadHead::Skip, 3, true));
    assert_eq!(held(&h).await, 0, "they are in the claim's sight");
    assert_eq!(next(&h, 1).await, ["a2"]);

    let stopped = set(&h, "a", DeadHead::Hold).await;
    assert_eq!((stopped.rule, stopped.waiting, stopped.skipped_at), (DeadHead::Hold, 2, None));
    assert!(next(&h, 10).await.is_empty(), "it holds again");
    assert_eq!(held(&h).await, 2);

    set(&h, "a", DeadHead::Skip).await;
    assert_eq!(next(&h, 10).await, ["a3", "a4"]);
    assert!(next(&h, 10).await.is_empty());
    let counts = h.store().counts().await.unwrap()[LANE];
    assert_eq!((counts.dead, counts.new, counts.held), (1, 0, 0), "the dead one is still there");
    assert!(delivery(&h, "a1").await.skipped_at.is_some());
}

/// What a worker has goes on: the effect of a leased delivery happens once, whatever becomes of its key meanwhile.
pub async fn what_is_leased_goes_on_when_its_key_stops<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 4)).await;
    bury_head(&h, "a1").await;
    set(&h, "a", DeadHead::Skip).await;
    let lease = claim_keyed(&h, 2).await;
    assert_eq!(ids(&lease), ["a2", "a3"]);
    set(&h, "a", DeadHead::Hold).await;
    settle(&h, &lease).await;
    assert!(next(&h, 10).await.is_empty(), "a4 waits");
}

/// A skip is about the events that are dead now: the next one stops the key again.
pub async fn a_later_dead_event_stops_the_key_again<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    bury_head(&h, "a1").await;
    set(&h, "a", DeadHead::Skip).await;
    bury_head(&h, "a2").await;
    assert!(next(&h, 10).await.is_empty());
    let [key] = &h.store().dead_keys(LANE, 10).await.unwrap()[..] else { panic!("one") };
    assert_eq!((key.event_id.as_str(), key.dead, key.rule, key.skipped_at), ("a1", 2, DeadHead::Hold, None));
    set(&h, "a", DeadHead::Skip).await;
    assert_eq!(next(&h, 10).await, ["a3"]);
}

/// A redriven head has its place in front again, and holds its key again if it dies again.
pub async fn a_redriven_head_is_in_front_again<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    bury_head(&h, "a1").await;
    set(&h, "a", DeadHead::Skip).await;
    assert_eq!(next(&h, 1).await, ["a2"]);
    assert_eq!(h.store().redrive("a1", LANE, None).await.unwrap(), Redriven::Due);
    assert_eq!(delivery(&h, "a1").await.skipped_at, None);
    assert!(h.store().dead_keys(LANE, 10).await.unwrap().is_empty());
    let lease = claim_keyed(&h, 10).await;
    assert_eq!(ids(&lease), ["a1", "a3"]);
    h.store().bury(lease.token, &[buried(lease.deliveries[0].id)], History::Omit).await.unwrap();
    assert!(next(&h, 10).await.is_empty(), "it holds as any dead one");
}

/// Other keys, and the same key in other lanes, stay as they are.
pub async fn other_keys_and_lanes_stay_as_they_are<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "other", Via::Local).await;
    enqueue(&h, keyed("a", 2).into_iter().chain(keyed("b", 2)).chain(keyed("A", 2))).await;
    for id in ["a1", "b1", "A1"] {
        bury_head(&h, id).await;
    }
    let other = Claim { lane: "other".into(), ..wanted(500) };
    let lease = h.store().claim_keyed(&other, DeadHead::Hold).await.unwrap();
    let first = lease.deliveries.iter().find(|one| one.envelope.event_id.as_str() == "a1").unwrap().id;
    h.store().bury(lease.token, &[buried(first)], History::Omit).await.unwrap();
    h.store().release(lease.token, &lease.ids()).await.unwrap();

    set(&h, "a", DeadHead::Skip).await;
    assert_eq!(next(&h, 10).await, ["a2"]);
    let lease = h.store().claim_keyed(&other, DeadHead::Hold).await.unwrap();
    assert!(!ids(&lease).contains(&"a2"), "{:?}", ids(&lease));
    let rules: Vec<_> =
        h.store().dead_keys(LANE, 10).await.unwrap().into_iter().map(|one| (one.key, one.rule, one.waiting)).collect();
    let expected = [("a", DeadHead::Skip, 0), ("b", DeadHead::Hold, 1), ("A", DeadHead::Hold, 1)];
    assert_eq!(rules, expected.map(|(key, rule, waiting)| (key.to_owned(), rule, waiting)));
    assert_eq!(h.store().dead_keys(LANE, 2).await.unwrap().len(), 2, "no more than asked for");
    assert!(h.store().dead_keys("unknown", 2).await.unwrap().is_empty());
}

/// Without a dead event there is nothing to let go on, and nothing is recorded. A repeated call changes nothing.
pub async fn only_a_key_with_a_dead_event_is_changed<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 2).into_iter().chain(keyed("b", 2))).await;
    bury_head(&h, "b1").await;
    for (lane, key) in [(LANE, "a"), (LANE, "unknown"), ("unknown", "b"), (LANE, "B")] {
        for rule in [DeadHead::Skip, DeadHead::Hold] {
            assert_eq!(h.store().set_dead_head(lane, key, rule).await.unwrap(), None, "{lane} {key}");
        }
    }
    for wrong in ["", "a\u{7}", &"k".repeat(257)] {
        let error = h.store().set_dead_head(LANE, wrong, DeadHead::Skip).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { field: "key", .. }), "{error:?}");
    }
    assert_eq!(set(&h, "b", DeadHead::Hold).await.rule, DeadHead::Hold, "it held before");
    let first = set(&h, "b", DeadHead::Skip).await;
    age(&h, HOUR).await;
    let again = set(&h, "b", DeadHead::Skip).await;
    assert!(again.skipped_at < first.skipped_at, "since the first time");
    assert_eq!(next(&h, 10).await.len(), 3);
}

/// S20: the record says who changed what, and what was there before.
pub async fn a_change_is_recorded_with_before_and_after<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 3)).await;
    bury_head(&h, "a1").await;
    for (rule, word, before) in [(DeadHead::Skip, "skip", "hold"), (DeadHead::Hold, "hold", "skip")] {
        let record =
            NewAudit { actor: "ada", action: "key", target: Some("points"), outcome: "200", ..NewAudit::default() };
        let work = async {
            explain(Some("the account is closed"), Some("key=a"));
            h.store().set_dead_head(LANE, "a", rule).await.unwrap();
        };
        assert!(audited(&record, work).await.written, "in the transaction of the change");
        let [record] = &h.store().audit(None, 1).await.unwrap()[..] else { panic!("one") };
        assert_eq!((record.actor.as_str(), record.reason.as_deref()), ("ada", Some("the account is closed")));
        let state =
            |state: &Option<String>| serde_json::from_str::<serde_json::Value>(state.as_deref().unwrap()).unwrap();
        assert_eq!((&state(&record.before)["deadHead"], &state(&record.before)["key"]), (&before.into(), &"a".into()));
        assert_eq!((&state(&record.after)["deadHead"], &state(&record.after)["waiting"]), (&word.into(), &2.into()));
    }
}

/// What a delivery waits for: a dead event that holds it, or the one whose turn comes first.
pub async fn a_delivery_names_what_it_waits_for<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, keyed("a", 4).into_iter().chain(keyed("b", 1))).await;
    let front = async |id: &str, key: &str, rule: DeadHead| -> Option<KeyFront> {
        let sequence = find(&h, id).await.sequence;
        h.store().key_front(LANE, key, sequence, rule).await.unwrap()
    };
    let is = |front: Option<KeyFront>| front.map(|one| (one.event_id, one.topic, one.dead, one.ahead));
    let named = |id: &str, dead, ahead| Some((id.to_owned(), TOPIC.to_owned(), dead, ahead));
    assert_eq!(is(front("a3", "a", DeadHead::Hold).await), named("a1", false, 2));
    assert_eq!(is(front("a1", "a", DeadHead::Hold).await), None);
    assert_eq!(is(front("b1", "b", DeadHead::Hold).await), None);
    bury_head(&h, "a1").await;
    assert_eq!(is(front("a3", "a", DeadHead::Hold).await), named("a1", true, 1));
    assert_eq!(is(front("a3", "a", DeadHead::Skip).await), named("a2", false, 1));
    assert_eq!(is(front("a2", "a", DeadHead::Skip).await), None);
    set(&h, "a", DeadHead::Skip).await;
    assert_eq!(is(front("a3", "a", DeadHead::Hold).await), named("a2", false, 1));
    assert_eq!(is(front("a2", "a", DeadHead::Hold).await), None);
}

/// F17, F18: operators skip and hold keys while workers claim. Whatever is parked is freed again, each event is delivered once, and
/// the order of each key is kept.
pub async fn skips_beside_claimers_lose_nothing<H: Harness>(h: H) {
    const KEYS: [&str; 4] = ["a", "b", "c", "d"];
    const EACH: usize = 60;
    subscribe_lane(&h).await;
    enqueue(&h, KEYS.into_iter().flat_map(|key| keyed(key, EACH))).await;
    for key in KEYS {
        bury_head(&h, &format!("{key}1")).await;
    }
    let done = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let claimers = (0..3).map(|_| {
        let (h, done) = (h.clone(), Arc::clone(&done));
        let work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            while done.load(std::sync::atomic::Ordering::SeqCst) < KEYS.len() * (EACH - 1) {
                let lease = claim_keyed(&h, 7).await;
                if lease.deliveries.is_empty() {
                    tokio::task::yield_now().await;
                    continue;
                }
                let mut tx = h.store().begin().await.unwrap();
                for one in &lease.deliveries {
                    h.write_down(&mut *tx, one.envelope.key.as_deref().unwrap(), one.id.sequence).await;
                }
                h.store().commit(tx).await.unwrap();
                settle(&h, &lease).await;
                done.fetch_add(lease.deliveries.len(), std::sync::atomic::Ordering::SeqCst);
            }
        });
        work
    });
    let operators = KEYS.into_iter().map(|key| {
        let h = h.clone();
        let work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            for round in 0..11 {
                let rule = if round % 2 == 0 { DeadHead::Skip } else { DeadHead::Hold };
                set(&h, key, rule).await;
                tokio::task::yield_now().await;
            }
        });
        work
    });
    together(claimers.chain(operators)).await;
    let mut log = h.written_down().await;
    assert_eq!(log.len(), KEYS.len() * (EACH - 1));
    log.sort_by_key(|(key, _)| key.clone());
    assert!(log.is_sorted(), "each key in its order, and each event once: {log:?}");
}

#[derive(Serialize, Deserialize)]
struct Paid {
    n: String,
}

impl Event for Paid {
    const TOPIC: &'static str = TOPIC;
}

/// Has an effect, except of the first event of a key.
struct Count<H>(H);

impl<H: Harness> Consumer<H::Store> for Count<H> {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, paid: Received<Paid>) -> Result<(), Failure> {
        if paid.n.ends_with('1') {
            return Err(Failure::reject("the account is closed"));
        }
        self.0.add(tx, "effect").await?;
        Ok(())
    }
}

/// F18: relays that run obey within a look, without a restart.
pub async fn a_running_relay_obeys<H: Harness>(h: H) {
    h.make_counter("effect").await;
    subscribe_lane(&h).await;
    let inbox = Inbox::new(h.store().clone()).consumer(Count(h.clone()));
    let (stop, stopped) = oneshot::channel::<()>();
    let relay = Relay::new(h.store().clone(), inbox);
    let ended = tokio::spawn(relay.run(async { stopped.await.unwrap_or_default() }));
    let until = async |what: &str, expected: (u64, i64)| {
        let started = std::time::Instant::now();
        loop {
            let dead = h.store().counts().await.unwrap().get(LANE).map_or(0, |counts| counts.dead);
            if (dead, h.counter("effect").await) == expected {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    enqueue(&h, keyed("a", 3)).await;
    until("the head dies", (1, 0)).await;
    set(&h, "a", DeadHead::Skip).await;
    until("its followers have their effect", (1, 2)).await;
    set(&h, "a", DeadHead::Hold).await;
    enqueue_one(&h, draft("a9").key("a")).await;
    enqueue_one(&h, draft("b9").key("b")).await;
    until("another key goes on", (1, 3)).await;
    assert_eq!(delivery(&h, "a9").await.attempts, 0, "it waits");
    set(&h, "a", DeadHead::Skip).await;
    until("it goes on again", (1, 4)).await;
    let _ = stop.send(());
    ended.await.unwrap().unwrap();
}
