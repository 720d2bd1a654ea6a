//! A rolling deployment: programs of an older and a newer version run side by side, with other names for a field of the
//! payload and for a consumer.

use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::{Consumer, Draft, Event, Failure, Inbox, Received, Relay};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::steps::*;
use crate::{Conn, Harness};

/// Between two looks at the store, which announces nothing to a case.
const PAUSE: Duration = Duration::from_millis(20);

/// The payload of the older program.
#[derive(Serialize, Deserialize)]
struct Old {
    n: String,
}

impl Event for Old {
    const TOPIC: &'static str = TOPIC;
}

/// The payload of the newer program: `n` is called `name`.
#[derive(Serialize, Deserialize)]
struct New {
    name: String,
}

impl Event for New {
    const TOPIC: &'static str = TOPIC;
    const VERSION: u32 = 2;

    fn upcast(_: u32, payload: serde_json::Value) -> serde_json::Result<Self> {
        let old: Old = serde_json::from_value(payload)?;
        Ok(Self { name: old.n })
    }
}

/// Adds to the counter of the consumer and the event.
macro_rules! consumer {
    ($program:ident, $name:literal, $event:ty, $field:ident, $counts:literal) => {
        struct $program<H>(H);

        impl<H: Harness> Consumer<H::Store> for $program<H> {
            const NAME: &'static str = $name;
            type Event = $event;

            async fn handle(&self, tx: &mut Conn<H>, event: Received<$event>) -> Result<(), Failure> {
                Ok(self.0.add(tx, &format!("{} {}", $counts, event.$field)).await?)
            }
        }
    };
}

consumer!(OldPoints, "points", Old, n, "points");
// The newer program calls it `bonus`.
consumer!(NewPoints, "bonus", New, name, "points");
consumer!(OldMail, "mail", Old, n, "mail");
consumer!(NewMail, "mail", New, name, "mail");

struct Program {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<postrider::Result<()>>,
}

impl Program {
    async fn old<H: Harness>(h: &H) -> Self {
        Self::start(h, Inbox::new(h.store().clone()).consumer(OldPoints(h.clone())).consumer(OldMail(h.clone()))).await
    }

    async fn new<H: Harness>(h: &H) -> Self {
        Self::start(h, Inbox::new(h.store().clone()).consumer(NewPoints(h.clone())).consumer(NewMail(h.clone()))).await
    }

    async fn start<H: Harness>(h: &H, inbox: Inbox<H::Store>) -> Self {
        inbox.register().await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let relay = Relay::new(h.store().clone(), inbox);
        Self { stop, ended: tokio::spawn(relay.run(async { stopped.await.unwrap_or_default() })) }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

async fn write<H: Harness>(h: &H, draft: postrider::Result<Draft>, name: &str) {
    for consumer in ["points", "mail"] {
        h.make_counter(&format!("{consumer} {name}")).await;
    }
    enqueue_one(h, draft.unwrap().event_id(name)).await;
}

/// Waits until the event has both effects. A retry is made due.
async fn effects<H: Harness>(h: &H, name: &str) {
    while h.counter(&format!("points {name}")).await + h.counter(&format!("mail {name}")).await < 2 {
        if find(h, name).await.deliveries.iter().any(|delivery| delivery.status == DeliveryStatus::Failed) {
            age(h, MINUTE).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// D.2, F19: a renamed field and a renamed consumer while both versions of a program run: each event has each effect once, nothing is
/// dead, and nothing is left in the lane of the old name.
pub async fn a_rolling_deployment_kills_and_strands_nothing<H: Harness>(h: H) {
    let old = Program::old(&h).await;
    write(&h, Draft::of(&Old { n: "a".into() }), "a").await;
    effects(&h, "a").await;

    // A newer producer comes first, although docs/renames.md advises otherwise. The older consumers cannot read its events.
    write(&h, Draft::of(&New { name: "b".into() }), "b").await;
    let undecodable = async || {
        let found = find(&h, "b").await;
        found.consumptions.iter().filter(|attempt| attempt.code.as_deref() == Some("undecodable")).count()
    };
    while undecodable().await < 2 {
        tokio::time::sleep(PAUSE).await;
    }
    assert!(find(&h, "b").await.deliveries.iter().all(|delivery| delivery.status == DeliveryStatus::Failed));

    // The rename, while the older program runs; then the newer one, side by side with it.
    h.store().rename_consumer("points", "bonus").await.unwrap();
    let new = Program::new(&h).await;
    write(&h, Draft::of(&Old { n: "c".into() }), "c").await;
    write(&h, Draft::of(&New { name: "d".into() }), "d").await;
    // An older instance restarts in between: its registration brings the old name back neither now nor later.
    old.stop().await;
    let old = Program::old(&h).await;
    write(&h, Draft::of(&Old { n: "e".into() }), "e").await;
    old.stop().await;
    for name in ["a", "b", "c", "d", "e"] {
        effects(&h, name).await;
    }
    new.stop().await;
    for name in ["a", "b", "c", "d", "e"] {
        let counters = (h.counter(&format!("points {name}")).await, h.counter(&format!("mail {name}")).await);
        assert_eq!(counters, (1, 1), "{name}");
    }
    let left = h.store().counts().await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}
