//! `worker produce`: business changes and their events, committed together.

use std::error::Error;
use std::time::Duration;

use clap::Args;
use postrider::{Draft, Inbox, Outbox, Relay, RelayOptions};
use postrider_proof::effect::Effect;
use tokio::io::AsyncBufReadExt;

use crate::consume::{Done, Renamed};
use crate::points::{Point, Stops};

#[derive(Args)]
pub(crate) struct Produce {
    /// Number of events.
    count: u32,
    /// Number of the first event.
    #[arg(long, default_value_t = 0)]
    from: u32,
    /// Number of events per transaction.
    #[arg(long, default_value_t = 1)]
    together: u32,
    /// Delays their delivery.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Begins each transaction only after a line on stdin.
    #[arg(long)]
    on_request: bool,
    /// Also runs a relay without consumers, which notifies other processes of new events.
    #[arg(long)]
    announce: bool,
    /// Writes the payload of the newer version.
    #[arg(long)]
    newer: bool,
}

pub(crate) async fn produce<S: Effect>(store: S, stops: Stops, produce: Produce) -> Result<(), Box<dyn Error>> {
    let outbox = Outbox::new(store.clone()).service("worker");
    let mut requests = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    if produce.announce {
        let options = RelayOptions { poll: Duration::from_secs(3600), ..RelayOptions::default() };
        let relay = Relay::new(store.clone(), Inbox::new(store.clone())).options(options);
        tokio::spawn(relay.run(std::future::pending()));
    }
    stops.at(Point::Ready, "").await;
    let end = produce.from + produce.count;
    for first in (produce.from..end).step_by(produce.together.max(1) as usize) {
        if produce.on_request && requests.next_line().await?.is_none() {
            return Ok(());
        }
        let events: Vec<_> = (first..end.min(first + produce.together)).map(Done::number).collect();
        let mut tx = store.begin().await?;
        for event in &events {
            S::make(&mut tx, &event.counter).await?;
        }
        let draft = |event: &Done| {
            let draft =
                if produce.newer { Draft::of(&Renamed { name: event.counter.clone() }) } else { Draft::of(event) }?;
            Ok(match produce.delay_ms {
                0 => draft,
                ms => draft.delay(Duration::from_millis(ms)),
            })
        };
        outbox.enqueue_many(&mut tx, events.iter().map(draft).collect::<postrider::Result<Vec<_>>>()?).await?;
        let last = events.last().map(|event| event.counter.clone()).unwrap_or_default();
        stops.at(Point::Enqueued, &last).await;
        store.commit(tx).await?;
        stops.at(Point::Committed, &last).await;
    }
    Ok(())
}
