//! What tests of users are written with: it says what is there, and what is not, in words that help.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use postrider::testing::{Peek, assert_enqueued, deliver_twice, drain, refute_enqueued};
use postrider::{Consumer, Draft, Enlist, Event, Failure, Inbox, LaneOptions, Outbox, OutsideConsumer, Received, Via};
use serde::{Deserialize, Serialize};

use crate::steps::*;
use crate::{Conn, Harness};

/// What [`draft`] writes.
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

/// Counts its calls, and fails from a certain one on.
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
        match self.calls.fetch_add(1, Ordering::Relaxed) < self.fails_after {
            true => Ok(()),
            false => Err(Failure::retry("the mail server is down")),
        }
    }
}

/// What a check says that fails.
async fn complaint(check: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(check).await.expect_err("it fails").into_panic();
    *panic.downcast::<String>().expect("with a text")
}

/// Committed events of the topic, whole and in order; neither others nor what is not committed.
pub async fn what_was_enqueued_is_listed<H: Harness>(h: H) {
    somebody_listens(&h).await;
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

/// Found also once it is consumed.
pub async fn an_enqueued_event_is_asserted<H: Harness>(h: H) {
    h.make_counter("effects").await;
    enqueue(&h, drafts(3)).await;
    assert_enqueued::<Paid>(h.store(), |paid| paid.n == "e00001").await;
    drain(h.store(), Inbox::new(h.store().clone()).consumer(Count(h.clone()))).await;
    assert_eq!(assert_enqueued::<Paid>(h.store(), |_| true).await.n, "e00000", "the first");
}

/// The text lists what was enqueued instead, and names the line that asked.
pub async fn a_missing_event_is_told_with_what_there_is<H: Harness>(h: H) {
    let store = h.store().clone();
    let text = complaint(async move { drop(assert_enqueued::<Paid>(&store, |_| true).await) }).await;
    assert!(text.contains("nothing was enqueued on order.paid") && text.contains("testing.rs:"), "{text}");
    enqueue(&h, drafts(25)).await;
    let store = h.store().clone();
    let text = complaint(async move { drop(assert_enqueued::<Paid>(&store, |paid| paid.n == "x").await) }).await;
    assert!(text.contains(r#"e00000  {"n":"e00000"}"#) && text.contains("… and 5 more"), "{text}");
    assert_eq!(text.lines().count(), 1 + 20 + 1, "{text}");
}

/// Passes where none fits, and tells which do. What cannot be read might be one.
pub async fn an_event_is_refuted<H: Harness>(h: H) {
    refute_enqueued::<Paid>(h.store(), |_| true).await;
    enqueue(&h, drafts(3)).await;
    refute_enqueued::<Paid>(h.store(), |paid| paid.n == "x").await;
    let store = h.store().clone();
    let text = complaint(async move { refute_enqueued::<Paid>(&store, |paid| paid.n == "e00002").await }).await;
    assert!(text.contains("e00002") && !text.contains("e00001"), "{text}");
    insert_plainly(&h, "by-hand").await;
    let store = h.store().clone();
    let text = complaint(async move { refute_enqueued::<Paid>(&store, |paid| paid.n == "x").await }).await;
    assert!(text.contains("by-hand") && text.contains("cannot be decoded: missing field `n`"), "{text}");
}

/// What is due is consumed; what failed, and what is due later, is left.
pub async fn drain_tells_what_is_left<H: Harness>(h: H) {
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

/// A.7: a consumer's effect happens once; one whose effect is elsewhere is called again. Lanes that keep no history too.
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

/// An event that nobody consumed was not delivered twice, and the text says why not.
pub async fn what_was_not_consumed_is_not_delivered_twice<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "mail", Via::Local).await;
    enqueue(&h, [draft("e"), draft("f")]).await;
    let twice = |event_id: &'static str, mail: Mail| {
        let store = h.store().clone();
        complaint(async move {
            deliver_twice(&store, || Inbox::new(store.clone()).outside(mail.clone()), event_id).await;
        })
    };
    let text = twice("unknown", Mail::failing_after(9)).await;
    assert!(text.contains("there is no event unknown"), "{text}");
    // That has delivered both once.
    let text = twice("e", Mail::failing_after(0)).await;
    assert!(text.contains("was not consumed the second time"), "{text}");
    assert!(text.contains("mail is Failed after 1 attempts: the mail server is down"), "{text}");
    enqueue(&h, [draft("g")]).await;
    let text = twice("g", Mail::failing_after(0)).await;
    assert!(text.contains("nobody has consumed g") && text.contains("the mail server is down"), "{text}");
}
