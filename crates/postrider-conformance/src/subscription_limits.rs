//! Rate, timeout and attempts of a subscription, and its `via`: a running relay obeys them, and follows each change.

use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::status::ConsumerState;
use postrider::store::History;
use postrider::{Event, Failure, Inbox, LaneOptions, OutsideConsumer, Received, Relay, RetryPolicy, Subscription, Via};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::Harness;
use crate::steps::*;

#[derive(Serialize, Deserialize)]
struct Paid {
    n: String,
}

impl Event for Paid {
    const TOPIC: &'static str = TOPIC;
}

/// Sends the name of each event, and then waits for ever, fails, or is done.
struct Sends(mpsc::UnboundedSender<String>, Then);

#[derive(Clone, Copy)]
enum Then {
    Done,
    Hang,
    Fail,
}

impl OutsideConsumer for Sends {
    const NAME: &'static str = LANE;
    type Event = Paid;

    async fn handle(&self, paid: Received<Paid>) -> Result<(), Failure> {
        self.0.send(paid.n.clone())?;
        match self.1 {
            Then::Done => Ok(()),
            Then::Hang => std::future::pending().await,
            Then::Fail => Err(Failure::retry("not today")),
        }
    }
}

/// A relay with one consumer, until the case ends.
struct Running {
    tries: mpsc::UnboundedReceiver<String>,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<postrider::Result<()>>,
}

impl Running {
    fn start(h: &impl Harness, then: Then) -> Self {
        let (sender, tries) = mpsc::unbounded_channel();
        let retry = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
        let options = LaneOptions { retry, ..LaneOptions::default() };
        let inbox = Inbox::new(h.store().clone()).outside_with(Sends(sender, then), options);
        let (stop, stopped) = oneshot::channel();
        let relay = Relay::new(h.store().clone(), inbox);
        let ended = tokio::spawn(relay.run(async { stopped.await.unwrap_or_default() }));
        Self { tries, stop, ended }
    }

    async fn next(&mut self) -> String {
        self.tries.recv().await.expect("the relay runs")
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

fn limited(change: impl FnOnce(&mut Subscription)) -> Subscription {
    let mut subscription = Subscription::new(TOPIC, LANE, Via::Local);
    change(&mut subscription);
    subscription
}

/// Waits until the delivery of an event has this status, or is gone.
async fn until(h: &impl Harness, event_id: &str, status: Option<DeliveryStatus>) {
    while find(h, event_id).await.deliveries.first().map(|one| one.status) != status {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// One per second, and without a limit once it is taken away.
pub async fn a_rate_is_kept_and_changed_while_the_relay_runs<H: Harness>(h: H) {
    h.store().set_subscription(&limited(|one| one.rate_per_second = Some(1))).await.unwrap();
    enqueue(&h, drafts(100)).await;
    let mut running = Running::start(&h, Then::Done);
    running.next().await;
    let began = Instant::now();
    running.next().await;
    running.next().await;
    assert!(began.elapsed() > Duration::from_millis(1_500), "{:?}", began.elapsed());
    h.store().set_subscription(&limited(|_| {})).await.unwrap();
    for _ in 3..100 {
        running.next().await;
    }
    assert!(began.elapsed() < Duration::from_secs(60), "the limit would take 97 s");
    running.stop().await;
}

/// F50: ten thousand deliveries failed while a service was away, and all their retries are due when it returns. Its rate is
/// kept; at most a second's worth comes on top, which the rate had saved up.
pub async fn retries_that_are_due_together_keep_the_rate<H: Harness>(h: H) {
    const RATE: usize = 50;
    h.store().set_subscription(&limited(|one| one.rate_per_second = Some(RATE as u32))).await.unwrap();
    for batch in 0..10 {
        enqueue(&h, (0..1_000).map(|n| draft(format!("{batch}-{n}")))).await;
    }
    for _ in 0..20 {
        let lease = claim(&h, 500).await;
        let failures: Vec<_> = lease.ids().into_iter().map(|id| failed(id, 10 * MINUTE)).collect();
        assert_eq!(h.store().retry(lease.token, &failures, History::Omit).await.unwrap().len(), 500);
    }
    age(&h, HOUR).await;

    let began = Instant::now();
    let mut back = Running::start(&h, Then::Done);
    let mut times = Vec::new();
    while began.elapsed() < Duration::from_secs(4) {
        back.next().await;
        times.push(began.elapsed());
    }
    back.stop().await;
    for second in 1..=4 {
        let tried = times.iter().filter(|time| time.as_secs() < second as u64).count();
        assert!(tried <= RATE * (second + 1), "{tried} in the first {second} s");
    }
    assert!(times.len() > RATE, "the retries go on: {}", times.len());
}

/// A try ends after the time of its subscription, not after that of its lane; the event's topic counts before `*`.
pub async fn a_timeout_is_kept<H: Harness>(h: H) {
    h.store().set_subscription(&limited(|one| one.timeout_seconds = Some(1))).await.unwrap();
    let all = Subscription { timeout_seconds: Some(3_000), ..Subscription::new("*", LANE, Via::Local) };
    h.store().set_subscription(&all).await.unwrap();
    enqueue_one(&h, draft("e").max_attempts(1)).await;
    let mut running = Running::start(&h, Then::Hang);
    running.next().await;
    until(&h, "e", Some(DeliveryStatus::Dead)).await;
    let attempt = find(&h, "e").await.consumptions.remove(0);
    assert_eq!(attempt.code.as_deref(), Some("timeout"));
    let error = attempt.error.unwrap_or_default();
    assert!(error.starts_with("the consumer took longer than 1s"), "{error}");
    running.stop().await;
}

/// The last attempt is the one that the subscription names, unless the event names another; a change counts at once.
pub async fn attempts_are_limited<H: Harness>(h: H) {
    h.store().set_subscription(&limited(|one| one.max_attempts = Some(2))).await.unwrap();
    enqueue(&h, [draft("as subscribed"), draft("as written").max_attempts(3)]).await;
    let running = Running::start(&h, Then::Fail);
    for (id, attempts) in [("as subscribed", 2), ("as written", 3)] {
        until(&h, id, Some(DeliveryStatus::Dead)).await;
        assert_eq!(find(&h, id).await.consumptions.len(), attempts, "{id}");
    }
    h.store().set_subscription(&limited(|one| one.max_attempts = Some(4))).await.unwrap();
    // The relay reads the subscriptions every second: one of the next events is tried under the new limit.
    for n in 0.. {
        let id = format!("later {n}");
        enqueue_one(&h, draft(&*id)).await;
        until(&h, &id, Some(DeliveryStatus::Dead)).await;
        if find(&h, &id).await.consumptions.len() == 4 {
            break;
        }
    }
    running.stop().await;
}

/// F64: a consumer in code rests while its events go another way, and begins when they come back; nothing is lost.
pub async fn a_lane_rests_while_its_consumer_has_another_via<H: Harness>(h: H) {
    subscribe(&h, TOPIC, LANE, Via::Pull).await;
    enqueue(&h, drafts(3)).await;
    let (sender, mut tries) = mpsc::unbounded_channel();
    let inbox = Inbox::new(h.store().clone()).outside(Sends(sender, Then::Done));
    Relay::new(h.store().clone(), inbox).drain().await.unwrap();
    assert!(tries.try_recv().is_err(), "they are for those who pull");
    let mut running = Running::start(&h, Then::Done);
    let lease = claim(&h, 1).await;
    assert_eq!(ids(&lease), ["e00000"]);
    settle(&h, &lease).await;
    subscribe(&h, TOPIC, LANE, Via::Local).await;
    let mut delivered = [running.next().await, running.next().await];
    delivered.sort();
    assert_eq!(delivered, ["e00001", "e00002"]);
    running.stop().await;
}

/// F64: what waits for a removed consumer is delivered by a relay that still has it.
pub async fn what_waits_for_a_removed_consumer_is_delivered<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(2)).await;
    assert!(h.store().remove_subscription(TOPIC, LANE).await.unwrap());
    let mut running = Running::start(&h, Then::Done);
    let mut delivered = [running.next().await, running.next().await];
    delivered.sort();
    assert_eq!(delivered, ["e00000", "e00001"]);
    running.stop().await;
    assert!(h.store().subscriptions(None).await.unwrap().is_empty(), "it stays removed");
}

/// F64: a delivery in the lane of a consumer that is reached another way by now (its producer wrote it while the `via` changed)
/// is moved by the next relay.
pub async fn a_relay_moves_what_was_written_late<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "mail", Via::External).await;
    enqueue_one(&h, draft("e")).await;
    h.store().redrive("e", "mail", None).await.unwrap();
    assert_eq!(find(&h, "e").await.deliveries.len(), 1, "in the lane that is not served");
    let running = Running::start(&h, Then::Done);
    until(&h, "e", None).await;
    assert_eq!(find(&h, "e").await.consumers().get("mail"), Some(&ConsumerState::Waiting), "its report is expected");
    running.stop().await;
}
