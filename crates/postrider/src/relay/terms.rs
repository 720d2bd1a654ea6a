//! What the subscriptions say about the lanes: rate, timeouts, attempts, and how the consumer gets its events. An operator
//! changes them at run time, so a relay reads them again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::store::{Store, SubscriptionChange};
use crate::subscription::{StoredSubscription, Via};
use crate::transport::{LaneOptions, TopicLimits};

/// Moves what is in the lane of a consumer that is reached another way. A producer whose transaction was open when the `via`
/// changed may have written it, or the `via` was changed in the table.
pub(super) async fn move_late(store: &dyn Store, subscriptions: &[StoredSubscription]) -> Result<()> {
    let remote = subscriptions.iter().filter(|stored| stored.subscription.is_expected_remotely());
    let remote: BTreeMap<_, _> =
        remote.map(|stored| (stored.subscription.consumer.as_str(), &stored.subscription)).collect();
    let lanes: Vec<_> = remote.keys().copied().collect();
    if lanes.is_empty() {
        return Ok(());
    }
    let dues = store.next_due(&lanes).await?;
    for (subscription, _) in remote.into_values().zip(dues).filter(|(_, due)| due.is_some()) {
        // Writing the same subscription again moves it, unless it was changed meanwhile.
        let if_version = Some(vec![subscription.version()]);
        let again = SubscriptionChange { if_version, ..SubscriptionChange::new(subscription.clone()) };
        match store.change_subscription(&again).await {
            Ok(changed) => {
                let (consumer, events) = (&subscription.consumer, changed.moved);
                tracing::info!(consumer, events, "moved what waited in the old lane of a consumer");
            }
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The terms of every consumer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Terms(BTreeMap<String, LaneTerms>);

/// The terms of one consumer.
#[derive(Debug, PartialEq)]
pub(super) struct LaneTerms {
    via: Via,
    per_second: Option<u32>,
    by_topic: BTreeMap<String, TopicLimits>,
}

impl Terms {
    pub(super) fn read(subscriptions: &[StoredSubscription]) -> Self {
        let mut terms: BTreeMap<String, LaneTerms> = BTreeMap::new();
        for subscription in subscriptions.iter().map(|stored| &stored.subscription) {
            let new = LaneTerms { via: subscription.via, per_second: None, by_topic: BTreeMap::new() };
            let lane = terms.entry(subscription.consumer.clone()).or_insert(new);
            lane.per_second = [lane.per_second, subscription.rate_per_second].into_iter().flatten().min();
            let timeout = subscription.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()));
            if timeout.is_some() || subscription.max_attempts.is_some() {
                lane.by_topic.insert(
                    subscription.topic.clone(),
                    TopicLimits { timeout, max_attempts: subscription.max_attempts },
                );
            }
        }
        Self(terms)
    }

    pub(super) fn of(&self, lane: &str) -> Option<&LaneTerms> {
        self.0.get(lane)
    }

    /// Adds the lanes whose consumers get their events another way than by the `via` of their transport. What waits for a
    /// consumer without a subscription is still delivered.
    pub(super) fn rest<'a>(
        &self,
        lanes: impl Iterator<Item = (&'a str, Option<Via>)>,
        known: &BTreeSet<String>,
        resting: &mut BTreeSet<String>,
    ) {
        for (lane, served) in lanes {
            let present = self.of(lane).map(|terms| terms.via);
            if let (Some(served), Some(present)) = (served, present)
                && served != present
            {
                if !known.contains(lane) {
                    let (via, served) = (present.as_str(), served.as_str());
                    tracing::warn!(lane, via, served, "the lane rests: its consumer gets its events another way");
                }
                resting.insert(lane.into());
            }
        }
    }
}

impl LaneTerms {
    /// The options of a lane under these terms.
    pub(super) fn applied_to(&self, options: &LaneOptions) -> LaneOptions {
        let mut applied = options.clone();
        applied.per_second = self.per_second.or(options.per_second);
        applied.by_topic.extend(self.by_topic.clone());
        applied
    }
}
