//! `beat`, `leave`, `instances`: which processes are live and what they run. And what a store tells about itself.

use postrider::Via;
use postrider::prelude::*;
use postrider::presence::{BrokerReport, BrokerState, JOBS, Running, SubscriptionProblem, unserved};
use postrider::store::{Beat, JobPlan, LIVE};
use time::OffsetDateTime;

use crate::Harness;
use crate::steps::*;

async fn beat(h: &impl Harness, id: &str, running: &Running) {
    let beat = Beat { instance_id: id, role: "all", version: "1.2.3", running };
    h.store().beat(&beat).await.unwrap();
}

async fn live(h: &impl Harness) -> Vec<String> {
    h.store().instances(LIVE).await.unwrap().into_iter().map(|one| one.instance_id).collect()
}

/// G.9: a process that does not write its row any more is not live, and one that ends removes it.
pub async fn a_process_is_live_while_it_beats<H: Harness>(h: H) {
    let nothing = Running::default();
    assert!(live(&h).await.is_empty());
    beat(&h, "a", &nothing).await;
    beat(&h, "b", &nothing).await;
    assert_eq!(live(&h).await, ["a", "b"]);
    age(&h, MINUTE).await;
    beat(&h, "b", &nothing).await;
    assert_eq!(live(&h).await, ["b"]);
    let all = h.store().instances(HOUR).await.unwrap();
    assert_eq!(all.len(), 2, "the other was live within an hour");
    let now = h.store().now().await.unwrap();
    let b = &all[1];
    assert!(is_about((now - b.started_at).unsigned_abs(), MINUTE), "{b:?}");
    assert!((now - b.seen_at).unsigned_abs() < MINUTE / 2, "{b:?}");
    h.store().leave("b").await.unwrap();
    h.store().leave("b").await.unwrap();
    assert!(live(&h).await.is_empty());
    age(&h, 2 * HOUR).await;
    beat(&h, "c", &nothing).await;
    assert_eq!(h.store().instances(24 * HOUR).await.unwrap().len(), 1, "the rows of dead processes are removed");
}

/// G.9, D.4: lanes, loops, the broker's state and the problems of subscriptions come back as they were written.
pub async fn what_a_process_runs_comes_back<H: Harness>(h: H) {
    let since = OffsetDateTime::from_unix_timestamp(1_700_000_000).unwrap();
    let mut running = Running {
        lanes: [LANE.to_owned(), "größe".to_owned()].into(),
        loops: ["rollup".to_owned()].into(),
        broker: Some(BrokerReport { state: BrokerState::Away, since, error: Some("refused".into()) }),
        problems: vec![SubscriptionProblem {
            topic: TOPIC.into(),
            consumer: LANE.into(),
            problem: "no exchange".into(),
        }],
    };
    for _ in 0..2 {
        beat(&h, "a", &running).await;
        let [one] = &h.store().instances(LIVE).await.unwrap()[..] else { panic!("one") };
        assert_eq!((one.role.as_str(), one.version.as_str(), &one.running), ("all", "1.2.3", &running));
        running.lanes.clear();
        running.broker = None;
    }
}

/// G.9: lanes with waiting deliveries and loops that no live process runs.
pub async fn what_no_process_runs_is_found<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "renamed", Via::Local).await;
    enqueue(&h, drafts(2)).await;
    let loops = |found: &postrider::presence::Unserved| found.loops.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let found = unserved(h.store()).await.unwrap();
    let lanes: Vec<_> = found.lanes.iter().map(|one| (one.lane.as_str(), one.waiting)).collect();
    assert_eq!((found.live, lanes), (0, vec![(LANE, 2), ("renamed", 2)]));
    assert_eq!(loops(&found), ["router", "rollup", "operations", "retention", "alerts", "promises"], "there is no job");
    let all = ["router", "rollup", "operations", "retention", "alerts", "promises"].map(str::to_owned);
    beat(&h, "a", &Running { lanes: [LANE.to_owned()].into(), loops: all.into(), ..Running::default() }).await;
    let slot = h.store().now().await.unwrap() + HOUR;
    let plan = JobPlan { name: "reaper", schedule: "0 0 * * * ?", zone: "UTC", next_slot: Some(slot) };
    h.store().plan_job(&plan).await.unwrap();
    let found = unserved(h.store()).await.unwrap();
    let lanes: Vec<_> = found.lanes.iter().map(|one| one.lane.as_str()).collect();
    assert_eq!((found.live, lanes, loops(&found)), (1, vec!["renamed"], vec![JOBS]));
    age(&h, MINUTE).await;
    assert_eq!(unserved(h.store()).await.unwrap().lanes.len(), 2, "its process has died");
}

/// G.9: kind, version and size.
pub async fn the_store_tells_what_it_is<H: Harness>(h: H) {
    let about = h.store().about().await.unwrap();
    assert!(["memory", "sqlite", "postgres", "mysql"].contains(&about.kind), "{about:?}");
    assert!(about.version.starts_with(|first: char| first.is_ascii_digit()), "{about:?}");
    assert_eq!(about.sizes.is_empty(), about.kind == "memory", "{about:?}");
    assert!(about.sizes.iter().any(|(_, bytes)| *bytes > 0) || about.kind == "memory", "{about:?}");
}
