//! Lineage: a trace as a timeline and a tree, and the parents and children of an event.

use postrider::lineage::{self, Node};
use postrider::{Draft, Scope};

use crate::Harness;
use crate::fold::fold_all;
use crate::steps::*;

fn child(id: &str, parent: &str) -> Draft {
    draft(id).trace("t", None).parent(parent)
}

fn shape(trace: &lineage::Trace) -> String {
    fn written(nodes: &[Node], trace: &lineage::Trace) -> String {
        let one = |node: &Node| {
            let id = trace.events[node.event].envelope.event_id.to_string();
            match &node.children[..] {
                [] => id,
                below => format!("{id}({})", written(below, trace)),
            }
        };
        nodes.iter().map(one).collect::<Vec<_>>().join(" ")
    }
    written(&trace.roots, trace)
}

fn ids(records: &[postrider::status::Record]) -> Vec<&str> {
    records.iter().map(|record| record.envelope.event_id.as_str()).collect()
}

/// D.10: one tree and one timeline, the same before and after the roll-up has folded the events.
pub async fn a_trace_is_a_tree_and_a_timeline<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("order").trace("t", None)).await;
    enqueue(&h, [child("points", "order"), child("mail", "order")]).await;
    enqueue_one(&h, child("level", "points")).await;
    enqueue_one(&h, draft("stranger").trace("T", None)).await;
    enqueue_one(&h, child("orphan", "pruned")).await;
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        let trace = lineage::trace(h.store(), "t", &Scope::default()).await.unwrap();
        assert_eq!(ids(&trace.events), ["order", "points", "mail", "level", "orphan"]);
        assert_eq!(shape(&trace), "order(points(level) mail) orphan");
        assert!(!trace.cut);
    }
    assert!(lineage::trace(h.store(), "nothing", &Scope::default()).await.unwrap().events.is_empty());
}

/// D.10: looked up by event id.
pub async fn parents_and_children_of_an_event<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue_one(&h, draft("a").trace("t", None)).await;
    enqueue_one(&h, child("b", "a")).await;
    enqueue(&h, [child("c", "b"), child("d", "b")]).await;
    for folded in [false, true] {
        if folded {
            fold_all(&h).await;
        }
        assert_eq!(ids(&lineage::children(h.store(), "b", &Scope::default()).await.unwrap()), ["c", "d"]);
        assert_eq!(
            ids(&lineage::parents(h.store(), &find(&h, "c").await, &Scope::default()).await.unwrap()),
            ["b", "a"]
        );
        assert!(lineage::parents(h.store(), &find(&h, "a").await, &Scope::default()).await.unwrap().is_empty());
        assert!(lineage::children(h.store(), "d", &Scope::default()).await.unwrap().is_empty());
    }
}

/// Callers choose ids and parents, so a cycle is possible. The query ends, and shows each event once.
pub async fn a_cycle_is_shown_once<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, [child("a", "b"), child("b", "a"), child("self", "self")]).await;
    let trace = lineage::trace(h.store(), "t", &Scope::default()).await.unwrap();
    assert_eq!(shape(&trace), "self a(b)");
    assert_eq!(ids(&lineage::parents(h.store(), &find(&h, "a").await, &Scope::default()).await.unwrap()), ["b"]);
}

/// D.10: the result is limited, and marked as cut.
pub async fn a_trace_that_is_too_large_is_cut<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    enqueue(&h, (0..1_100).map(|n| draft(format!("e{n:05}")).trace("t", None))).await;
    let trace = lineage::trace(h.store(), "t", &Scope::default()).await.unwrap();
    assert_eq!((trace.events.len(), trace.cut), (1_000, true));
    assert_eq!(trace.events[0].envelope.event_id.as_str(), "e00100", "the newest are shown");
}

/// D.10: the newest traces by their first event, page by page, each once.
pub async fn the_newest_traces_come_first<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    for n in 0..5 {
        let (root, trace) = (format!("root-{n}"), format!("trace-{n}"));
        enqueue(
            &h,
            [draft(root.clone()).trace(trace.clone(), None), draft(format!("also-{n}")).trace(trace.clone(), None)],
        )
        .await;
        enqueue_one(&h, draft(format!("child-{n}")).trace(trace, None).parent(root)).await;
    }
    enqueue_one(&h, child("orphan", "pruned")).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = lineage::newest(h.store(), 2, after, &Scope::default()).await.unwrap();
        seen.extend(page.traces.iter().map(|(id, trace)| (id.clone(), trace.events.len())));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    // Two events of a trace that nothing caused are on two pages if the page ends between them.
    seen.dedup();
    let expected: Vec<_> = (0..5).rev().map(|n| (format!("trace-{n}"), 3)).collect();
    assert_eq!(seen, expected);
}
