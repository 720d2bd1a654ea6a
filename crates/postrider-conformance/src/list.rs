//! `list`: events by their fields and status, newest first, page by page.

use std::time::Duration;

use postrider::entry::DeliveryStatus;
use postrider::prelude::*;
use postrider::status::EventStatus;
use postrider::store::{Cursor, Filter, History, List, Report};
use postrider::{Aggregate, Draft, Enqueued, Outbox, Rollup, Via};
use serde_json::json;
use time::OffsetDateTime;

use crate::Harness;
use crate::fold::fold_all;
use crate::steps::*;

/// All pages of a list, with `limit` events per page.
async fn pages(h: &impl Harness, filter: Filter, limit: u32) -> Vec<Vec<String>> {
    let mut list = List::new(filter, limit);
    let mut pages = Vec::new();
    loop {
        let page = h.store().list(&list).await.unwrap();
        assert!(page.events.len() <= limit as usize);
        assert!(page.events.iter().all(|record| record.envelope.payload.is_empty()), "payloads are left out");
        pages.push(page.events.iter().map(|record| record.envelope.event_id.to_string()).collect());
        assert!(pages.len() < 1_000, "the list does not end");
        match page.next {
            // Through its text form, as clients send it.
            Some(next) => list.after = Some(next.to_string().parse::<Cursor>().unwrap()),
            None => return pages,
        }
    }
}

async fn listed(h: &impl Harness, filter: Filter) -> Vec<String> {
    pages(h, filter, 500).await.concat()
}

/// Callers check the same result before and after a fold.
async fn always(h: &impl Harness, filter: &Filter, expected: &[&str]) {
    assert_eq!(listed(h, filter.clone()).await, expected, "{filter:?}");
}

fn some(text: &str) -> Option<String> {
    Some(text.into())
}

async fn write<H: Harness>(h: &H, service: &str, drafts: impl IntoIterator<Item = Draft>) -> Vec<Enqueued> {
    let outbox = Outbox::new(h.store().clone()).service(service);
    let mut tx = h.store().begin().await.unwrap();
    let enqueued = outbox.enqueue_many(&mut *tx, drafts.into_iter().collect::<Vec<_>>()).await.unwrap();
    h.store().commit(tx).await.unwrap();
    enqueued
}

/// D.13: newest first; each page continues after the last.
pub async fn pages_come_newest_first_without_gap_or_repeat<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(45)).await;
    let newest_first: Vec<String> = (0..45).rev().map(|n| format!("e{n:05}")).collect();
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        for filter in [Filter::default(), Filter { topic: some(TOPIC), ..Filter::default() }] {
            let pages = pages(&h, filter, 10).await;
            assert_eq!(pages.concat(), newest_first, "folded: {folded}");
            assert!(pages.iter().take(4).all(|page| page.len() == 10), "{pages:?}");
        }
    }
    // Events written between two pages do not move the second page.
    let first = h.store().list(&List::new(Filter::default(), 10)).await.unwrap();
    enqueue_one(&h, draft("later")).await;
    let second = List { after: first.next, ..List::new(Filter::default(), 10) };
    let second = h.store().list(&second).await.unwrap();
    assert_eq!(second.events[0].envelope.event_id.as_str(), "e00034");
}

/// D.13: each filter alone and combined, for folded and unfolded events.
pub async fn every_filter_finds_its_events<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, "order.shipped", "truck", Via::Local).await;
    let order = |id: &str, n: i64| draft(id).aggregate(Aggregate::new("ORDER", n)).trace("t1", None).key("k1");
    write(&h, "shop", [order("a", 7), order("b", 8).parent("a").tenant("acme")]).await;
    let shipped = Draft::json("order.shipped", &json!({})).unwrap();
    write(&h, "depot", [shipped.event_id("c").aggregate(Aggregate::new("TRUCK", 7)).trace("t2", None).key("K1")]).await;
    let none = Filter::default;
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        always(&h, &none(), &["c", "b", "a"]).await;
        always(&h, &Filter { topic: some(TOPIC), ..none() }, &["b", "a"]).await;
        always(&h, &Filter { service: some("depot"), ..none() }, &["c"]).await;
        always(&h, &Filter { trace_id: some("t1"), ..none() }, &["b", "a"]).await;
        always(&h, &Filter { parent_event_id: some("a"), ..none() }, &["b"]).await;
        let order = Filter { aggregate_type: some("ORDER"), ..none() };
        always(&h, &order, &["b", "a"]).await;
        always(&h, &Filter { aggregate_id: some("7"), ..order.clone() }, &["a"]).await;
        always(&h, &Filter { key: some("k1"), ..none() }, &["b", "a"]).await;
        always(&h, &Filter { key: some("K1"), ..none() }, &["c"]).await;
        always(&h, &Filter { tenant_id: some("acme"), ..none() }, &["b"]).await;
        always(&h, &Filter { consumer: some("truck"), ..none() }, &["c"]).await;
        always(&h, &Filter { status: Some(EventStatus::Pending), ..none() }, &["c", "b", "a"]).await;
        always(&h, &Filter { status: Some(EventStatus::Failed), ..none() }, &[]).await;
        always(&h, &Filter { delivery_status: Some(DeliveryStatus::New), ..none() }, &["c", "b", "a"]).await;
        always(&h, &Filter { delivery_status: Some(DeliveryStatus::Dead), ..none() }, &[]).await;
        let mixed = Filter { topic: some(TOPIC), service: some("shop"), tenant_id: some("acme"), ..none() };
        always(&h, &mixed, &["b"]).await;
        let waiting = Filter { delivery_status: Some(DeliveryStatus::New), consumer: some(LANE), ..mixed.clone() };
        always(&h, &Filter { status: Some(EventStatus::Pending), ..waiting.clone() }, &["b"]).await;
        always(&h, &Filter { consumer: some("truck"), ..waiting }, &[]).await;
        always(&h, &Filter { trace_id: some("t2"), ..mixed }, &[]).await;
    }
}

/// CONTRACT: the delivery status in a list is always current.
pub async fn statuses_and_deliveries_are_listed_as_they_stand<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "remote", Via::External).await;
    enqueue(&h, ["done", "dead", "waiting"].map(draft)).await;
    let lease = claim(&h, 2).await;
    let [done, dead] = lease.ids()[..] else { panic!("{lease:?}") };
    h.store().settle(lease.token, &[done], History::Keep).await.unwrap();
    h.store().bury(lease.token, &[buried(dead)], History::Keep).await.unwrap();
    let ok = Report { event_id: "done".into(), consumer: "remote".into(), success: true, ..Report::default() };
    h.store().append_consumption(&ok).await.unwrap();
    fold_all(&h).await;
    let by = |status| Filter { status: Some(status), ..Filter::default() };
    always(&h, &by(EventStatus::Consumed), &["done"]).await;
    always(&h, &by(EventStatus::Partial), &["dead"]).await;
    always(&h, &by(EventStatus::Pending), &["waiting"]).await;
    let dead = Filter { delivery_status: Some(DeliveryStatus::Dead), ..Filter::default() };
    always(&h, &dead, &["dead"]).await;
    always(&h, &Filter { consumer: some(LANE), ..dead.clone() }, &["dead"]).await;
    always(&h, &Filter { consumer: some("remote"), ..dead }, &[]).await;
    always(&h, &Filter { consumer: some("remote"), ..Filter::default() }, &["waiting", "dead", "done"]).await;
    // A redrive is visible at once: the old status no longer matches.
    h.store().redrive("dead", LANE, None).await.unwrap();
    always(&h, &by(EventStatus::Partial), &[]).await;
    fold_all(&h).await;
    always(&h, &by(EventStatus::Retrying), &["dead"]).await;
}

/// D.13: several statuses are one list, newest first, page by page.
pub async fn several_statuses_are_one_list<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, drafts(30)).await;
    let lease = claim(&h, 20).await;
    let ids = lease.ids();
    let (done, dead) = ids.split_at(10);
    h.store().settle(lease.token, done, History::Keep).await.unwrap();
    h.store().bury(lease.token, &dead.iter().map(|id| buried(*id)).collect::<Vec<_>>(), History::Keep).await.unwrap();
    let of = |statuses: &[EventStatus]| Filter { statuses: statuses.to_vec(), ..Filter::default() };
    let names = |range: std::ops::Range<u32>| range.rev().map(|n| format!("e{n:05}")).collect::<Vec<_>>();
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        let open = of(&[EventStatus::Pending, EventStatus::Sent, EventStatus::Retrying]);
        assert_eq!(listed(&h, open).await, names(20..30), "folded: {folded}");
    }
    let ended = of(&[EventStatus::Consumed, EventStatus::Failed]);
    let pages = pages(&h, ended.clone(), 6).await;
    assert_eq!(pages.concat(), names(0..20));
    assert!(pages.iter().take(3).all(|page| page.len() == 6), "{pages:?}");
    let both = of(&[EventStatus::Pending, EventStatus::Consumed, EventStatus::Failed]);
    assert_eq!(listed(&h, both).await, names(0..30));
    let one = Filter { status: Some(EventStatus::Failed), ..ended };
    assert_eq!(listed(&h, one).await, names(10..20), "both must match");
    let none = Filter { status: Some(EventStatus::Expired), ..of(&[EventStatus::Failed]) };
    assert_eq!(listed(&h, none).await, Vec::<String>::new());
}

/// D.3: events that wait for a subscriber can be listed, until there is one.
pub async fn events_without_a_subscriber_are_listed<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("heard")).await;
    let waiting = |id: &str| Draft::json("order.lonely", &json!({})).unwrap().event_id(id);
    enqueue(&h, ["a", "b"].map(waiting)).await;
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        let unheard = Filter { unheard: true, ..Filter::default() };
        always(&h, &unheard, &["b", "a"]).await;
        always(&h, &Filter { topic: some("order.lonely"), ..unheard.clone() }, &["b", "a"]).await;
        always(&h, &Filter { topic: some(TOPIC), ..unheard.clone() }, &[]).await;
        always(&h, &Filter { status: Some(EventStatus::Sent), ..unheard }, &[]).await;
    }
    subscribe(&h, "order.lonely", "friend", Via::Local).await;
    h.store().route(100).await.unwrap();
    always(&h, &Filter { unheard: true, ..Filter::default() }, &[]).await;
}

/// CONTRACT: `from` and `to` compare the time at which the database stored the event.
pub async fn times_bound_a_list<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    for n in (1..=6_u32).rev() {
        enqueue_one(&h, draft(format!("{n}h"))).await;
        age(&h, HOUR).await;
    }
    let hours_ago = |hours: f64| -> Option<OffsetDateTime> {
        Some(OffsetDateTime::now_utc() - Duration::from_secs_f64(hours * 3600.0))
    };
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        let from = Filter { from: hours_ago(3.5), ..Filter::default() };
        always(&h, &from, &["1h", "2h", "3h"]).await;
        let between = Filter { to: hours_ago(1.5), ..from };
        always(&h, &between, &["2h", "3h"]).await;
        always(&h, &Filter { topic: some(TOPIC), ..between.clone() }, &["2h", "3h"]).await;
        // The history of one consumer by time.
        always(&h, &Filter { consumer: some(LANE), ..between.clone() }, &["2h", "3h"]).await;
        always(&h, &Filter { consumer: some("other"), ..between }, &[]).await;
        always(&h, &Filter { to: hours_ago(99.0), ..Filter::default() }, &[]).await;
    }
}

/// CONTRACT: a page scans a limited number of rows, however few match, and returns where to continue.
pub async fn few_among_many_are_found_page_by_page<H: Harness>(h: H) {
    subscribe(&h, "*", LANE, Via::Local).await;
    let many = (0..12_000).map(|n| match n {
        50 => draft("needle").tenant("acme"),
        n => draft(format!("e{n:05}")),
    });
    enqueue(&h, many).await;
    fold_all(&h).await;
    let filter = Filter { topic: some(TOPIC), delivery_status: Some(DeliveryStatus::New), ..Filter::default() };
    let needle = Filter { service: some("unknown"), ..filter.clone() };
    assert_eq!(listed(&h, needle).await, Vec::<String>::new());
    let needle = Filter { tenant_id: some("acme"), ..filter };
    assert_eq!(pages(&h, needle, 5).await, [["needle"]], "the index that finds it leads");
    // No index but time applies: two pages, the first of them empty.
    let unindexed = Filter { delivery_status: Some(DeliveryStatus::Dead), ..Filter::default() };
    assert!(pages(&h, unindexed, 5).await.iter().all(Vec::is_empty));
}

/// D.13: a page is full while enough events match the whole filter, not only its leading column.
pub async fn pages_of_two_filters_are_full<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    let many =
        (0..60).map(|n| draft(format!("e{n:02}")).tenant(["acme", "other"][n % 2]).key(["k0", "k1", "k2"][n % 3]));
    enqueue(&h, many).await;
    fold_all(&h).await;
    let both = Filter { tenant_id: some("acme"), key: some("k0"), ..Filter::default() };
    let pending = Filter { status: Some(EventStatus::Pending), ..both.clone() };
    let waiting = Filter { delivery_status: Some(DeliveryStatus::New), ..both.clone() };
    let all: Vec<String> = (0..60).rev().filter(|n| n % 6 == 0).map(|n| format!("e{n:02}")).collect();
    for filter in [both, pending, waiting] {
        let pages = pages(&h, filter, 5).await;
        assert_eq!(pages.concat(), all);
        assert!(pages.iter().take(2).all(|page| page.len() == 5), "{pages:?}");
    }
}

/// CONTRACT: a pending event is listed at once, even if its sequence number is lower than those already folded.
pub async fn an_event_that_commits_late_is_listed_at_once<H: Harness>(h: H) {
    if !h.features().concurrent_transactions {
        return skipped("one writer at a time: numbers are committed in order");
    }
    subscribe_lane(&h).await;
    enqueue(&h, drafts(3)).await;
    let mut tx = h.store().begin().await.unwrap();
    let outbox = Outbox::new(h.store().clone());
    outbox.enqueue(&mut *tx, draft("late").tenant("acme")).await.unwrap();
    enqueue_one(&h, draft("quick").tenant("acme")).await;
    fold_all(&h).await;
    let acme = Filter { tenant_id: some("acme"), ..Filter::default() };
    always(&h, &acme, &["quick"]).await;
    h.store().commit(tx).await.unwrap();
    for filter in [acme.clone(), Filter { status: Some(EventStatus::Pending), topic: some(TOPIC), ..acme }] {
        always(&h, &filter, &["quick", "late"]).await;
    }
}

/// F16: an event that commits after thousands of later ones were folded is listed by its attributes too, before anything happens
/// to it.
pub async fn an_event_that_commits_very_late_is_listed_too<H: Harness>(h: H) {
    if !h.features().concurrent_transactions {
        return skipped("one writer at a time: numbers are committed in order");
    }
    subscribe_lane(&h).await;
    let mut tx = h.store().begin().await.unwrap();
    let outbox = Outbox::new(h.store().clone());
    outbox.enqueue(&mut *tx, draft("late").tenant("acme")).await.unwrap();
    for batch in 0..6 {
        enqueue(&h, (0..1_000).map(|n| draft(format!("{batch}-{n}")))).await;
    }
    fold_all(&h).await;
    h.store().commit(tx).await.unwrap();
    let acme = Filter { tenant_id: some("acme"), ..Filter::default() };
    Rollup::new(h.store().clone()).drain().await.unwrap();
    always(&h, &acme, &["late"]).await;
    assert_eq!(h.store().mark_missed(Some(0)).await.unwrap(), None, "there is nothing before the first");
}

/// A page size outside 1 to 500 and an unknown cursor are refused.
pub async fn what_cannot_be_asked_is_refused<H: Harness>(h: H) {
    for limit in [0, 501] {
        let refused = h.store().list(&List::new(Filter::default(), limit)).await.unwrap_err().to_string();
        assert!(refused.contains("limit must be 1 to 500"), "{refused}");
    }
    let half = Filter { aggregate_id: some("7"), ..Filter::default() };
    assert!(h.store().list(&List::new(half, 5)).await.is_err());
    for cursor in ["", "a", "-1", "0"] {
        assert!(cursor.parse::<Cursor>().is_err(), "{cursor:?}");
    }
}

/// Values that only look alike are different.
pub async fn odd_values_are_compared_byte_for_byte<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    for (id, key) in [("a", "K"), ("b", "k"), ("c", "k "), ("d", "订单")] {
        enqueue_one(&h, draft(id).key(key).tenant(key)).await;
    }
    fold_all(&h).await;
    for (id, key) in [("a", "K"), ("b", "k"), ("c", "k "), ("d", "订单")] {
        always(&h, &Filter { key: some(key), ..Filter::default() }, &[id]).await;
        always(&h, &Filter { topic: some(TOPIC), tenant_id: some(key), ..Filter::default() }, &[id]).await;
    }
}
