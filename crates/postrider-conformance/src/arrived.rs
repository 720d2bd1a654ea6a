//! `arrived`: whether a plain `INSERT` waits for the router, and how soon a relay notices.

use std::time::Duration;

use postrider::prelude::*;
use postrider::{Failure, Inbox, OutsideConsumer, RawEvent, Received, Relay, RelayOptions, Via};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::Harness;
use crate::steps::*;

/// Only a plain insert arrives, and only until it is routed or found to be unheard.
pub async fn only_plain_inserts_arrive<H: Harness>(h: H) {
    assert!(!h.store().arrived().await.unwrap());
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("enqueued")).await;
    assert!(!h.store().arrived().await.unwrap());
    insert_plainly(&h, "inserted").await;
    assert!(h.store().arrived().await.unwrap());
    h.store().route(10).await.unwrap();
    assert!(!h.store().arrived().await.unwrap());
}

/// Reports each event that it receives.
struct Report(mpsc::UnboundedSender<String>);

impl OutsideConsumer for Report {
    const NAME: &'static str = LANE;
    const TOPICS: &'static [&'static str] = &[TOPIC];
    type Event = RawEvent;

    async fn handle(&self, event: Received<RawEvent>) -> Result<(), Failure> {
        Ok(self.0.send(event.envelope().event_id.to_string())?)
    }
}

/// A.19: a plain insert reaches its consumer soon, although the relay is idle and nothing wakes it. The bound is generous: an
/// idle relay of the default options asks every 20 ms, and would need some 200 ms by its poll alone.
pub async fn an_idle_relay_finds_a_plain_insert_soon<H: Harness>(h: H) {
    assert!(RelayOptions::default().arrivals <= Duration::from_millis(20));
    subscribe(&h, TOPIC, LANE, Via::Local).await;
    let (reports, mut reported) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let relay = Relay::new(h.store().clone(), Inbox::new(h.store().clone()).outside(Report(reports)));
    let relay = tokio::spawn(relay.run(async { stopped.await.unwrap_or_default() }));
    let mut waits = Vec::new();
    for n in 0..21_u64 {
        // Long enough for the pauses between looks to grow, and not in step with them.
        tokio::time::sleep(Duration::from_millis(400 + 37 * (n % 8))).await;
        let id = format!("e{n}");
        insert_plainly(&h, &id).await;
        let inserted = Instant::now();
        assert_eq!(reported.recv().await.unwrap(), id);
        waits.push(inserted.elapsed());
    }
    stop.send(()).unwrap();
    relay.await.unwrap().unwrap();
    waits.sort_unstable();
    let median = waits[waits.len() / 2];
    assert!(median < Duration::from_millis(60), "{median:?} of {waits:?}");
}
