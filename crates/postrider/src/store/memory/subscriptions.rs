//! Subscriptions and paused lanes.

use std::collections::BTreeSet;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::State;
use crate::error::Result;
use crate::store::Subscriptions;
use crate::subscription::{StoredSubscription, Subscription};

#[async_trait]
impl Subscriptions for MemoryStore {
    async fn register(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        self.write(|state, now| {
            let id = (subscription.topic.clone(), subscription.consumer.clone());
            state.subscriptions.entry(id).or_insert_with(|| stored(subscription, now, now));
        })
        .await;
        Ok(())
    }

    async fn set_subscription(&self, subscription: &Subscription) -> Result<()> {
        subscription.check()?;
        self.write(|state, now| {
            let id = (subscription.topic.clone(), subscription.consumer.clone());
            let created_at = state.subscriptions.get(&id).map_or(now, |known| known.created_at);
            state.subscriptions.insert(id, stored(subscription, created_at, now));
        })
        .await;
        Ok(())
    }

    async fn remove_subscription(&self, topic: &str, consumer: &str) -> Result<bool> {
        Ok(self
            .write(|state, now| match state.subscriptions.get_mut(&(topic.into(), consumer.into())) {
                Some(known) if !known.removed => {
                    known.removed = true;
                    known.subscription.enabled = false;
                    known.updated_at = now;
                    true
                }
                _ => false,
            })
            .await)
    }

    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>> {
        Ok(self.read(|state, _| state.subscriptions(topic)))
    }

    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()> {
        self.write(|state, _| if paused { state.paused.insert(lane.into()) } else { state.paused.remove(lane) }).await;
        Ok(())
    }

    async fn paused(&self) -> Result<BTreeSet<String>> {
        Ok(self.read(|state, _| state.paused.clone()))
    }
}

impl State {
    pub(super) fn subscriptions(&self, topic: Option<&str>) -> Vec<StoredSubscription> {
        let wanted = |s: &&StoredSubscription| !s.removed && topic.is_none_or(|topic| s.subscription.topic == topic);
        let mut found: Vec<_> = self.subscriptions.values().filter(wanted).cloned().collect();
        found.sort_by(|a, b| {
            let order = |s: &StoredSubscription| (s.subscription.topic.clone(), s.subscription.sort_order);
            // They are sorted by consumer already, and the sort is stable.
            order(a).cmp(&order(b))
        });
        found
    }

    pub(super) fn subscribed<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a Subscription> {
        let present = self.subscriptions.values().filter(|stored| !stored.removed);
        let subscriptions = present.map(|stored| &stored.subscription);
        subscriptions.filter(move |subscription| subscription.hears(topic))
    }
}

fn stored(subscription: &Subscription, created_at: OffsetDateTime, updated_at: OffsetDateTime) -> StoredSubscription {
    StoredSubscription { subscription: subscription.clone(), removed: false, created_at, updated_at }
}
