//! `append_consumption`: reports of remote consumers are appended and numbered, never overwritten.

use postrider::Via;
use postrider::prelude::*;
use postrider::store::{Appended, Report};

use crate::Harness;
use crate::steps::*;

const REMOTE: &str = "member-service";

async fn a_remote_consumer(h: &impl Harness) {
    subscribe(h, TOPIC, REMOTE, Via::External).await;
    enqueue_one(h, draft("e")).await;
}

fn report(success: bool) -> Report {
    Report { event_id: "e".into(), consumer: REMOTE.into(), success, ..Report::default() }
}

/// D.5: attempt 0 is the expectation; the first report is attempt 1.
pub async fn reports_are_numbered_from_one<H: Harness>(h: H) {
    a_remote_consumer(&h).await;
    for n in 1..=3 {
        let appended = h.store().append_consumption(&report(n == 3)).await.unwrap();
        assert_eq!(appended, Appended::Attempt(n));
    }
    let attempts = find(&h, "e").await.consumptions;
    let attempts: Vec<_> = attempts.iter().map(|c| (c.attempt, c.success)).collect();
    assert_eq!(attempts, [(0, None), (1, Some(false)), (2, Some(false)), (3, Some(true))]);
}

/// D.5: 32 concurrent callbacks become 32 attempts.
pub async fn concurrent_reports_are_numbered_without_gap_or_repeat<H: Harness>(h: H) {
    a_remote_consumer(&h).await;
    let callbacks = (0..32).map(|_| {
        let h = h.clone();
        async move { h.store().append_consumption(&report(true)).await.unwrap() }
    });
    let mut numbers: Vec<u32> = together(callbacks)
        .await
        .into_iter()
        .map(|appended| match appended {
            Appended::Attempt(n) => n,
            other => panic!("{other:?}"),
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=32).collect::<Vec<_>>());
    assert_eq!(find(&h, "e").await.consumptions.len(), 33);
}

/// D.5: a repeated callback id returns the attempt of the first.
pub async fn a_repeated_callback_is_the_same_attempt<H: Harness>(h: H) {
    a_remote_consumer(&h).await;
    subscribe(&h, TOPIC, "other", Via::External).await;
    enqueue_one(&h, draft("f")).await;
    let with = |id: &str, success| Report { callback_id: Some(id.into()), ..report(success) };
    let append = async |report: Report| h.store().append_consumption(&report).await.unwrap();
    assert_eq!(append(with("c1", false)).await, Appended::Attempt(1));
    assert_eq!(append(with("C1", false)).await, Appended::Attempt(2), "compared byte for byte");
    assert_eq!(append(with("c1", true)).await, Appended::Repeated(1));
    assert_eq!(append(report(true)).await, Appended::Attempt(3));
    assert_eq!(append(report(true)).await, Appended::Attempt(4), "without an id each is its own");
    assert_eq!(find(&h, "e").await.consumptions[1].success, Some(false), "the first word stands");
    // A callback id is unique per event and consumer.
    let other_event = Report { event_id: "f".into(), ..with("c1", true) };
    assert_eq!(append(other_event.clone()).await, Appended::Attempt(1));
    let other_consumer = Report { consumer: "other".into(), ..other_event };
    assert_eq!(append(other_consumer).await, Appended::Attempt(1));
}

/// D.5: the same for concurrent repeats.
pub async fn a_callback_repeated_at_once_is_the_same_attempt<H: Harness>(h: H) {
    a_remote_consumer(&h).await;
    let callbacks = (0..8).map(|_| {
        let h = h.clone();
        let report = Report { callback_id: Some("c1".into()), ..report(true) };
        async move { h.store().append_consumption(&report).await.unwrap() }
    });
    let answers = together(callbacks).await;
    let appended = answers.iter().filter(|a| **a == Appended::Attempt(1)).count();
    let repeated = answers.iter().filter(|a| **a == Appended::Repeated(1)).count();
    assert_eq!((appended, repeated), (1, 7), "{answers:?}");
}

/// Refused: an unknown event, an unknown consumer, and a consumer with a lane of its own, whose deliveries already
/// record its attempts.
pub async fn an_unexpected_report_is_refused<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    a_remote_consumer(&h).await;
    let strangers = [
        Report { event_id: "unknown".into(), ..report(true) },
        Report { consumer: "stranger".into(), ..report(true) },
        Report { consumer: LANE.into(), ..report(true) },
    ];
    for stranger in strangers {
        assert_eq!(h.store().append_consumption(&stranger).await.unwrap(), Appended::NotExpected);
    }
    assert_eq!(find(&h, "e").await.consumptions.len(), 1);
}

/// Every field comes back, including the consumer's own time if it sends one.
pub async fn every_field_comes_back<H: Harness>(h: H) {
    a_remote_consumer(&h).await;
    let now = h.store().now().await.unwrap();
    let full = Report {
        will_retry: true,
        error: Some("余额不足".into()),
        code: Some("E402".into()),
        consumed_at: Some(now - HOUR),
        ..report(false)
    };
    h.store().append_consumption(&full).await.unwrap();
    h.store().append_consumption(&report(true)).await.unwrap();
    let attempts = find(&h, "e").await.consumptions;
    assert_eq!((attempts[1].success, attempts[1].will_retry), (Some(false), true));
    assert_eq!((attempts[1].error.as_deref(), attempts[1].code.as_deref()), (Some("余额不足"), Some("E402")));
    let millis = |at: time::OffsetDateTime| at.unix_timestamp_nanos() / 1_000_000;
    assert_eq!(attempts[1].consumed_at.map(millis), Some(millis(now - HOUR)));
    assert!(is_about((now - attempts[1].created_at).unsigned_abs(), std::time::Duration::ZERO));
    assert!(is_about((now - attempts[2].consumed_at.unwrap()).unsigned_abs(), std::time::Duration::ZERO));
}

/// F39: a report is saved whatever its error text contains.
pub async fn an_error_of_any_text_is_saved_and_cut<H: Harness>(h: H) {
    a_remote_consumer(&h).await;
    let terrible = Report { error: Some(oversized_text()), code: Some(oversized_text()), ..report(false) };
    assert_eq!(h.store().append_consumption(&terrible).await.unwrap(), Appended::Attempt(1));
    let attempts = find(&h, "e").await.consumptions;
    assert!(is_cut_to_limit(attempts[1].error.as_deref()));
}
