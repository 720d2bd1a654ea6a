//! The helpers for users' tests: they find enqueued events, and their panic messages list what is stored instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use postrider::testing::{Peek, assert_enqueued, deliver_twice, drain, refute_enqueued};
use postrider::{Consumer, Draft, Enlist, Event, Failure, Inbox, LaneOptions, Outbox, OutsideConsumer, Received, Via};
use serde::{Deserialize, Serialize};

use crate::steps::*;
use crate::{Conn, Harness};

/// The event that [`draft`] writes.
#[derive(Serialize, Deserialize)]
struct Paid {
    n: String,
}

impl Event for Paid {
    const TOPIC: &'static str = TOPIC;
}

struct Count<H>(H);

impl<H: Harness> Consumer<H::Store> for Count<H> {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, tx: &mut Conn<H>, _: Received<Paid>) -> Result<(), Failure> {
        Ok(self.0.add(tx, "effects").await?)
    }
}

/// Counts its calls and fails after the given number of them.
#[derive(Clone)]
struct Mail {
    calls: Arc<AtomicU32>,
    fails_after: u32,
}

impl Mail {
    fn failing_after(calls: u32) -> Self {
        Self { calls: Arc::default(), fails_after: calls }
    }
}

impl OutsideConsumer for Mail {
    const NAME: &'static str = "mail";
    type Event = Paid;

    async fn handle(&self, _: Received<Paid>) -> Result<(), Failure> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.fails_after {
            Ok(())
        } else {
            Err(Failure::retry("the mail server is down"))
        }
    }
}

/// The panic message of a failing check.
async fn panic_message(check: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(check).await.expect_err("it fails").into_panic();
    *panic.downcast::<String>().expect("with a text")
}

/// Lists the committed events of the topic, complete and in order. Uncommitted events and other topics are left out.
pub async fn what_was_enqueued_is_listed<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, [draft("a").key("k").trace("4bf92f3577b34da6a3ce929d0e0e4736", None), draft("b"), draft("c")]).await;
    enqueue(&h, [Draft::text("Order.paid", "text/plain", "7").event_id("other")]).await;
    insert_plainly(&h, "by-hand").await;
    let mut tx = h.store().begin().await.unwrap();
    Outbox::new(h.store().clone()).enqueue(&mut tx, draft("open")).await.unwrap();
    let listed = h.store().enqueued(TOPIC).await.unwrap();
    drop(tx);
    assert_eq!(listed.iter().map(|event| event.event_id.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "by-hand"]);
    assert_eq!(listed[0], find(&h, "a").await.envelope);
    assert!(h.store().enqueued("nothing").await.unwrap().is_empty());
}

/// An event is found also after it was consumed.
pub async fn an_enqueued_event_is_asserted<H: Harness>(h: H) {
    h.make_counter("effects").await;
    enqueue(&h, drafts(3)).await;
    assert_enqueued::<Paid>(h.store(), |paid| paid.n == "e00001").await;
    drain(h.store(), Inbox::new(h.store().clone()).consumer(Count(h.clone()))).await;
    assert_eq!(assert_enqueued::<Paid>(h.store(), |_| true).await.n, "e00000", "the first");
}

/// The message lists the enqueued events and names the calling line.
pub async fn a_missing_event_is_reported_with_those_enqueued<H: Harness>(h: H) {
    let store = h.store().clone();
    let text = panic_message(async move { drop(assert_enqueued::<Paid>(&store, |_| true).await) }).await;
    assert!(text.contains("nothing was enqueued on order.paid") && text.contains("testing.rs:"), "{text}");
    enqueue(&h, drafts(25)).await;
    let store = h.store().clone();
    let text = panic_message(async move { drop(assert_enqueued::<Paid>(&store, |paid| paid.n == "x").await) }).await;
    assert!(text.contains(r#"e00000  {"n":"e00000"}"#) && text.contains("… and 5 more"), "{text}");
    assert_eq!(text.lines().count(), 1 + 20 + 1, "{text}");
}

/// Passes if no event matches, and otherwise lists those that match. An event that cannot be decoded counts as a match.
pub async fn an_event_is_refuted<H: Harness>(h: H) {
    refute_enqueued::<Paid>(h.store(), |_| true).await;
    enqueue(&h, drafts(3)).await;
    refute_enqueued::<Paid>(h.store(), |paid| paid.n == "x").await;
    let store = h.store().clone();
    let text = panic_message(async move { refute_enqueued::<Paid>(&store, |paid| paid.n == "e00002").await }).await;
    assert!(text.contains("e00002") && !text.contains("e00001"), "{text}");
    insert_plainly(&h, "by-hand").await;
    let store = h.store().clone();
    let text = panic_message(async move { refute_enqueued::<Paid>(&store, |paid| paid.n == "x").await }).await;
    assert!(text.contains("by-hand") && text.contains("cannot be decoded: missing field `n`"), "{text}");
}

/// `drain` consumes what is due, and returns the failed and the delayed deliveries.
pub async fn drain_returns_what_is_left<H: Harness>(h: H) {
    h.make_counter("effects").await;
    let inbox = || Inbox::new(h.store().clone()).consumer(Count(h.clone())).outside(Mail::failing_after(0));
    enqueue(&h, [draft("now"), draft("later").delay(HOUR)]).await;
    let left = drain(h.store(), inbox()).await;
    assert_eq!(h.counter("effects").await, 1);
    assert_eq!((left[LANE].new, left["mail"].new, left["mail"].failed), (1, 1, 1), "{left:?}");
    age(&h, 2 * HOUR).await;
    let left = drain(h.store(), inbox()).await;
    assert_eq!(h.counter("effects").await, 2);
    assert_eq!((left.get(LANE), left["mail"].failed), (None, 2), "{left:?}");
}

/// A.7: the second delivery has no second transactional effect, but calls an outside consumer again. The same holds for
/// lanes without history.
pub async fn delivered_twice_has_one_effect<H: Harness>(h: H) {
    h.make_counter("effects").await;
    let mail = Mail::failing_after(9);
    let without = LaneOptions { history: postrider::store::History::Omit, ..LaneOptions::default() };
    enqueue(&h, [draft("e")]).await;
    let inbox = || {
        let inbox = Inbox::new(h.store().clone()).consumer(Count(h.clone()));
        inbox.outside_with(mail.clone(), without.clone())
    };
    deliver_twice(h.store(), inbox, "e").await;
    assert_eq!(h.counter("effects").await, 1);
    assert_eq!(mail.calls.load(Ordering::Relaxed), 2);
    assert!(find(&h, "e").await.deliveries.is_empty());
}

/// `deliver_twice` fails for an event that was not consumed, and the message gives the reason.
pub async fn what_was_not_consumed_is_not_delivered_twice<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "mail", Via::Local).await;
    enqueue(&h, [draft("e"), draft("f")]).await;
    let twice = |event_id: &'static str, mail: Mail| {
        let store = h.store().clone();
        panic_message(async move {
            deliver_twice(&store, || Inbox::new(store.clone()).outside(mail.clone()), event_id).await;
        })
    };
    let text = twice("unknown", Mail::failing_after(9)).await;
    assert!(text.contains("there is no event unknown"), "{text}");
    // The failed call above has delivered both events once.
    let text = twice("e", Mail::failing_after(0)).await;
    assert!(text.contains("was not consumed the second time"), "{text}");
    assert!(text.contains("mail is Failed after 1 attempts: the mail server is down"), "{text}");
    enqueue(&h, [draft("g")]).await;
    let text = twice("g", Mail::failing_after(0)).await;
    assert!(text.contains("no consumer has consumed g") && text.contains("the mail server is down"), "{text}");
}
