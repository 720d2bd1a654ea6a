//! How many events match a filter, and how they divide: by status, topic, consumer, service and tenant. And which topics there
//! are. The work is bounded: beyond a bound, a number is an estimate and says so.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use crate::error::Result;
use crate::limits;
use crate::scope::Scope;
use crate::status::{EventStatus, Record};
use crate::store::{Counted, Filter, List, Store};
use crate::subscription::{EVERY_TOPIC, Subscription};

/// The most topics that are counted one by one.
const TOPICS: usize = 200;

/// How many events match, and how they divide. What has no event is left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// All of them.
    pub total: Counted,
    /// By status.
    pub by_status: BTreeMap<EventStatus, Counted>,
    /// By topic.
    pub by_topic: BTreeMap<String, Counted>,
    /// By expected consumer; an event may have several.
    pub by_consumer: BTreeMap<String, Counted>,
    /// By the service that published them.
    pub by_service: BTreeMap<String, Counted>,
    /// By tenant.
    pub by_tenant: BTreeMap<String, Counted>,
}

/// Counts the events that match. Few are all read; of many, each status is counted by its index, and the newest page stands for
/// how the rest divides.
pub async fn counts(store: &dyn Store, filter: &Filter) -> Result<Counts> {
    let page = store.list(&List::new(filter.clone(), limits::PAGE_EVENTS)).await?;
    if page.next.is_none() {
        return Ok(Counts::of(&page.events, None, &filter.scope));
    }
    let mut by_status = BTreeMap::new();
    for status in EventStatus::ALL {
        if filter.wants(status) {
            let one = Filter { status: Some(status), statuses: Vec::new(), ..filter.clone() };
            by_status.insert(status, store.count_events(&one).await?);
        }
    }
    by_status.retain(|_, counted: &mut Counted| counted.value > 0);
    Ok(Counts::of(&page.events, Some(by_status), &filter.scope))
}

impl Counts {
    /// From events: all that match, or some of them and the counts of all by status.
    fn of(events: &[Record], by_status: Option<BTreeMap<EventStatus, Counted>>, scope: &Scope) -> Self {
        let mut counts = Self::default();
        let add = |counts: &mut BTreeMap<String, Counted>, name: Option<&str>| {
            if let Some(name) = name {
                let counted = counts.entry(name.to_owned()).or_insert(Counted { value: 0, exact: true });
                counted.value += 1;
            }
        };
        for event in events {
            let envelope = &event.envelope;
            let status = counts.by_status.entry(event.standing().status).or_insert(Counted { value: 0, exact: true });
            status.value += 1;
            add(&mut counts.by_topic, Some(&envelope.topic));
            add(&mut counts.by_service, envelope.initiator.service.as_deref());
            add(&mut counts.by_tenant, envelope.tenant_id.as_deref());
            for consumer in event.consumers().into_keys().filter(|consumer| scope.has_consumer(consumer)) {
                add(&mut counts.by_consumer, Some(consumer));
            }
        }
        let sample = events.len() as u64;
        counts.total = Counted { value: sample, exact: true };
        if let Some(by_status) = by_status {
            counts.total = Counted {
                value: by_status.values().map(|counted| counted.value).sum(),
                exact: by_status.values().all(|counted| counted.exact),
            };
            counts.by_status = by_status;
            counts.scale(sample);
        }
        counts
    }

    /// Lets so many events stand for all.
    fn scale(&mut self, sample: u64) {
        let total = u128::from(self.total.value.max(sample));
        let facets = [&mut self.by_topic, &mut self.by_consumer, &mut self.by_service, &mut self.by_tenant];
        for counted in facets.into_iter().flat_map(BTreeMap::values_mut) {
            let value = u128::from(counted.value) * total / u128::from(sample.max(1));
            *counted = Counted { value: u64::try_from(value).unwrap_or(u64::MAX), exact: false };
        }
    }
}

/// A topic: its events and its subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub topic: String,
    /// Its stored events.
    pub events: Counted,
    /// When its newest event was stored.
    pub last_seen_at: Option<OffsetDateTime>,
    /// Consumers with an enabled subscription to it, or to all topics.
    pub subscribers: u32,
    /// Stored events that wait for a subscriber.
    pub unheard: Counted,
}

/// The topics of all subscriptions and of the newest events, inside the scope, by name.
pub async fn topics(store: &dyn Store, scope: &Scope) -> Result<Vec<Topic>> {
    let stored = store.subscriptions(None).await?.into_iter().map(|one| one.subscription);
    let subscriptions: Vec<_> = stored.filter(|one| scope.has_subscription(one)).collect();
    let newest = store.list(&List::new(Filter::within(scope), limits::PAGE_EVENTS)).await?.events;
    let subscribed = subscriptions.iter().map(|one| one.topic.as_str()).filter(|topic| *topic != EVERY_TOPIC);
    let names: BTreeSet<&str> = subscribed.chain(newest.iter().map(|one| one.envelope.topic.as_str())).collect();
    let mut topics = Vec::new();
    for topic in names.into_iter().take(TOPICS) {
        let filter = Filter { topic: Some(topic.into()), ..Filter::within(scope) };
        let last = store.list(&List::new(filter.clone(), 1)).await?.events.pop();
        let subscribers = subscribers(&subscriptions, topic);
        let unheard = if subscribers == 0 {
            store.count_events(&Filter { unheard: true, ..filter.clone() }).await?
        } else {
            // The router gives them to the subscribers at its next look.
            Counted { value: 0, exact: true }
        };
        topics.push(Topic {
            topic: topic.into(),
            events: store.count_events(&filter).await?,
            last_seen_at: last.map(|record| record.created_at),
            subscribers,
            unheard,
        });
    }
    Ok(topics)
}

fn subscribers(subscriptions: &[Subscription], topic: &str) -> u32 {
    let of_topic = subscriptions.iter().filter(|one| one.enabled && (one.topic == topic || one.topic == EVERY_TOPIC));
    of_topic.map(|one| one.consumer.as_str()).collect::<BTreeSet<_>>().len() as u32
}
