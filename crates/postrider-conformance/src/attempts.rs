//! `attempts`: what one consumer did, by time.

use std::time::Duration;

use postrider::Via;
use postrider::prelude::*;
use postrider::store::{AttemptList, AttemptPlace, History, Report};
use time::OffsetDateTime;
use time::macros::datetime;

use crate::Harness;
use crate::steps::*;

const NOON: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);

async fn report(h: &impl Harness, event_id: &str, success: bool, minutes: i64) {
    let report = Report {
        event_id: event_id.into(),
        consumer: "remote".into(),
        success,
        will_retry: !success,
        consumed_at: Some(NOON + time::Duration::minutes(minutes)),
        ..Report::default()
    };
    h.store().append_consumption(&report).await.unwrap();
}

/// Event and attempt of each.
async fn attempts(h: &impl Harness, list: &AttemptList) -> Vec<(String, u32)> {
    let attempts = h.store().attempts(list).await.unwrap();
    attempts.into_iter().map(|one| (one.event_id, one.consumption.attempt)).collect()
}

fn named(attempts: &[(&str, u32)]) -> Vec<(String, u32)> {
    attempts.iter().map(|(event_id, attempt)| ((*event_id).to_owned(), *attempt)).collect()
}

/// D.6: by the time of consumption, not by the age of the event; other consumers and attempt 0 are not among them.
pub async fn a_consumer_has_a_history_by_time<H: Harness>(h: H) {
    subscribe(&h, TOPIC, "remote", Via::External).await;
    subscribe_lane(&h).await;
    assert!(attempts(&h, &AttemptList::of("remote", 10)).await.is_empty());
    for id in ["a", "b", "c"] {
        enqueue_one(&h, draft(id).tenant("acme")).await;
    }
    report(&h, "c", false, 1).await;
    report(&h, "a", true, 3).await;
    report(&h, "c", true, 4).await;
    report(&h, "b", true, 2).await;
    let lease = claim(&h, 3).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();

    let all = AttemptList::of("remote", 10);
    assert_eq!(attempts(&h, &all).await, named(&[("c", 2), ("a", 1), ("b", 1), ("c", 1)]));
    let minute = |n| Some(NOON + time::Duration::minutes(n));
    let between = AttemptList { from: minute(2), to: minute(4), ..all.clone() };
    assert_eq!(attempts(&h, &between).await, named(&[("a", 1), ("b", 1)]), "from is inside, to is not");
    assert_eq!(attempts(&h, &AttemptList { to: minute(1), ..all.clone() }).await, []);
    let shown = h.store().attempts(&AttemptList { limit: 1, ..all }).await.unwrap().remove(0);
    assert_eq!((shown.topic.as_str(), shown.tenant_id.as_deref()), (TOPIC, Some("acme")));
    assert_eq!((shown.consumption.success, shown.consumption.consumed_at), (Some(true), minute(4)));
    let local = attempts(&h, &AttemptList::of(LANE, 10)).await;
    assert_eq!(local.len(), 3);
    assert!(h.store().attempts(&AttemptList::of(LANE, 0)).await.is_err());
    assert!(h.store().attempts(&AttemptList::of(LANE, 501)).await.is_err());
}

/// Attempts that were written together have the same time, and each is on exactly one page.
pub async fn pages_of_a_history_have_no_gap_and_no_repeat<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(25)).await;
    for limit in [7, 25] {
        let lease = claim(&h, limit).await;
        let failures: Vec<_> = lease.ids().into_iter().map(|id| failed(id, Duration::ZERO)).collect();
        h.store().retry(lease.token, &failures, History::Keep).await.unwrap();
    }
    let all = attempts(&h, &AttemptList::of(LANE, 500)).await;
    assert_eq!(all.len(), 32);
    let mut list = AttemptList::of(LANE, 5);
    let mut paged = Vec::new();
    loop {
        let page = h.store().attempts(&list).await.unwrap();
        let Some(last) = page.last() else { break };
        // Through its text form, as clients send it.
        list.after = Some(last.place.to_string().parse::<AttemptPlace>().unwrap());
        paged.extend(page.into_iter().map(|one| (one.event_id, one.consumption.attempt)));
    }
    assert_eq!(paged, all);
    for bad in ["", "1", "1.2", "1.2.x", "1.2.3.4", "99999999999999999999999999999.1.1"] {
        assert!(bad.parse::<AttemptPlace>().is_err(), "{bad}");
    }
}
