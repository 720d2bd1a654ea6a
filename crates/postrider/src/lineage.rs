//! Lineage: what caused an event and what it caused. An event that a consumer writes inherits trace and parent from
//! the event that it consumes. So a trace is a tree, or several if parts were pruned or come from elsewhere.

use std::collections::{BTreeMap, HashSet};

use crate::error::Result;
use crate::limits;
use crate::scope::Scope;
use crate::status::Record;
use crate::store::{Cursor, Filter, List, Store};

/// Maximum number of parents that are followed: longer than any real chain.
const GENERATIONS: usize = 64;
/// Events per read, and reads, in search of the first events of traces.
const ROOTS_PAGE: u32 = 100;
const ROOTS_PAGES: usize = 5;

/// All events of a trace.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Sorted by the time at which they occurred.
    pub events: Vec<Record>,
    /// The tree, as indexes into `events`.
    pub roots: Vec<Node>,
    /// Whether there are more than [`limits::TRACE_EVENTS`], of which these are the newest.
    pub cut: bool,
}

/// An event and what it caused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its index in [`Trace::events`].
    pub event: usize,
    /// Sorted by time.
    pub children: Vec<Node>,
}

/// The newest traces.
#[derive(Debug, Clone)]
pub struct Traces {
    /// The newest first, each with its first event in front.
    pub traces: Vec<(String, Trace)>,
    /// Where the next ones start; `None` at the end.
    pub next: Option<Cursor>,
}

/// Traces by their first event, which nothing in the store caused, the newest first. Looks at a bounded number of events, so
/// there may be fewer than `limit` although there are more.
pub async fn newest(store: &dyn Store, limit: usize, after: Option<Cursor>, scope: &Scope) -> Result<Traces> {
    let mut list = List { after, ..List::new(Filter::within(scope), ROOTS_PAGE) };
    let (mut traces, mut known, mut next) = (Vec::new(), HashSet::new(), None);
    for _ in 0..ROOTS_PAGES {
        let page = store.list(&list).await?;
        for event in &page.events {
            let root = event.envelope.trace_id.as_ref().filter(|_| event.envelope.parent_event_id.is_none());
            if let Some(id) = root.filter(|id| known.insert((*id).clone())) {
                traces.push((id.clone(), trace(store, id, scope).await?));
            }
            if traces.len() == limit {
                return Ok(Traces { traces, next: Some(Cursor(event.sequence)) });
            }
        }
        next = page.next;
        if next.is_none() {
            break;
        }
        list.after = next;
    }
    Ok(Traces { traces, next })
}

/// All events with this trace id, inside the scope.
pub async fn trace(store: &dyn Store, trace_id: &str, scope: &Scope) -> Result<Trace> {
    let filter = Filter { trace_id: Some(trace_id.into()), ..Filter::within(scope) };
    let (mut events, cut) = all(store, filter, limits::TRACE_EVENTS).await?;
    events.sort_by_key(|record| (record.envelope.occurred_at, record.sequence));
    let roots = tree(&events);
    Ok(Trace { events, roots, cut })
}

/// The events that an event directly caused, inside the scope, sorted by time.
pub async fn children(store: &dyn Store, event_id: &str, scope: &Scope) -> Result<Vec<Record>> {
    let filter = Filter { parent_event_id: Some(event_id.into()), ..Filter::within(scope) };
    let (mut events, _) = all(store, filter, limits::PAGE_EVENTS as usize).await?;
    events.sort_by_key(|record| (record.envelope.occurred_at, record.sequence));
    Ok(events)
}

/// The events that caused an event, the nearest first, as far as they still exist and are inside
/// the scope.
pub async fn parents(store: &dyn Store, event: &Record, scope: &Scope) -> Result<Vec<Record>> {
    let mut parents: Vec<Record> = Vec::new();
    let mut known = HashSet::from([event.envelope.event_id.clone()]);
    let mut next = event.envelope.parent_event_id.clone();
    // Ids chosen by callers may form a cycle.
    while let Some(id) = next.filter(|id| known.insert(id.clone())).filter(|_| parents.len() < GENERATIONS) {
        let found = store.find(id.as_str()).await?.filter(|parent| scope.has_event(parent));
        let Some(parent) = found else { break };
        next = parent.envelope.parent_event_id.clone();
        parents.push(parent);
    }
    Ok(parents)
}

/// The newest `most` events that match, and whether there are more.
pub(crate) async fn all(store: &dyn Store, filter: Filter, most: usize) -> Result<(Vec<Record>, bool)> {
    let mut list = List::new(filter, limits::PAGE_EVENTS);
    let mut events = Vec::new();
    loop {
        let page = store.list(&list).await?;
        events.extend(page.events);
        match page.next {
            Some(_) if events.len() > most => break,
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    let cut = events.len() > most;
    events.truncate(most);
    Ok((events, cut))
}

/// Builds the tree. An event without a parent in the list is a root, and so is one of each cycle.
fn tree(events: &[Record]) -> Vec<Node> {
    let places: BTreeMap<&str, usize> =
        events.iter().enumerate().map(|(place, record)| (record.envelope.event_id.as_str(), place)).collect();
    let parent = |place: usize| {
        let parent = events[place].envelope.parent_event_id.as_ref();
        parent.and_then(|id| places.get(id.as_str()).copied()).filter(|parent| *parent != place)
    };
    let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for place in 0..events.len() {
        if let Some(parent) = parent(place) {
            children.entry(parent).or_default().push(place);
        }
    }
    let mut placed = HashSet::new();
    let roots = (0..events.len()).filter(|place| parent(*place).is_none());
    let mut nodes: Vec<Node> = roots.map(|root| node(root, &children, &mut placed)).collect();
    for place in 0..events.len() {
        if !placed.contains(&place) {
            nodes.push(node(place, &children, &mut placed));
        }
    }
    nodes
}

fn node(event: usize, children: &BTreeMap<usize, Vec<usize>>, placed: &mut HashSet<usize>) -> Node {
    placed.insert(event);
    let mut below = Vec::new();
    for child in children.get(&event).into_iter().flatten() {
        if !placed.contains(child) {
            below.push(node(*child, children, placed));
        }
    }
    Node { event, children: below }
}
