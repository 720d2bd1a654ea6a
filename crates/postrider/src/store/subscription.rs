//! Which consumer receives which topic, which lanes are paused, and how often each tries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use base64::prelude::*;

use crate::error::{Error, Result};
use crate::limits;
use crate::store::History;
use crate::subscription::{RABBITMQ, StoredSubscription, Subscription, Via};

/// Subscriptions and paused lanes.
#[async_trait]
pub trait Subscriptions: Send + Sync {
    /// Registers a consumer that is defined in code. Writes only if the subscription is unknown: what an operator has
    /// disabled, changed or removed stays as it is. If the consumer has another `via` by now, a new topic gets that one.
    async fn register(&self, subscription: &Subscription) -> Result<()>;

    /// Writes an operator's choice and replaces what is stored, as [`Subscriptions::change_subscription`] does.
    async fn set_subscription(&self, subscription: &Subscription) -> Result<()> {
        self.change_subscription(&SubscriptionChange::new(subscription.clone())).await.map(drop)
    }

    /// Removes a subscription permanently. What waits is still delivered. Returns false if it does not exist.
    async fn remove_subscription(&self, topic: &str, consumer: &str) -> Result<bool> {
        let removal =
            SubscriptionRemoval { waiting: Some(Waiting::Deliver), ..SubscriptionRemoval::new(topic, consumer) };
        Ok(self.end_subscription(&removal).await?.is_some())
    }

    /// Writes an operator's choice and replaces what is stored. It counts for events that are written after it. What waits
    /// is still delivered, also if the subscription is disabled.
    ///
    /// A consumer has one `via`. If that changes, everything that waits for the consumer moves in the same transaction:
    ///
    /// - Between `local`, `pull` and `webhook` nothing moves, because they share the consumer's lane. What a worker holds
    ///   stays its own.
    /// - To `rabbitmq`: into the consumer's queue, and its reports are expected. To `external`: its reports are expected. From
    ///   these two: what the broker has not confirmed, and all that an external consumer has not reported, is due in the
    ///   consumer's lane, or in the broker's lane. What the broker has confirmed stays in the consumer's queue.
    /// - A delivery that moves is taken from its holder, whose result is refused. A dead one leaves its last failure in the
    ///   history, and a redrive uses the new `via`.
    /// - A producer's transaction that is open during the change may write one more delivery into the old lane. A relay moves
    ///   it, or the same subscription written again.
    ///
    /// Returns [`Error::Refused`] if the consumer has other subscriptions by another `via`
    /// ([`SecondVia`](crate::redrive::Refusal::SecondVia)), or if the stored one is not as the caller expects
    /// ([`Stale`](crate::redrive::Refusal::Stale)).
    async fn change_subscription(&self, change: &SubscriptionChange) -> Result<SubscriptionChanged>;

    /// Removes a subscription permanently. Returns `None` if it does not exist.
    ///
    /// Returns [`Error::Refused`] if deliveries wait and `waiting` does not say what becomes of them
    /// ([`DeliveriesWait`](crate::redrive::Refusal::DeliveriesWait)), or if it is not as the caller expects.
    async fn end_subscription(&self, removal: &SubscriptionRemoval) -> Result<Option<SubscriptionRemoved>>;

    /// The subscriptions to a topic, or all; by topic, sort order and consumer. Removed ones are left out.
    async fn subscriptions(&self, topic: Option<&str>) -> Result<Vec<StoredSubscription>>;

    /// The removed subscriptions, as they were, by topic and consumer. What was set up for them may still be there.
    async fn removed_subscriptions(&self) -> Result<Vec<StoredSubscription>>;

    /// Stops or resumes the claims of a lane on every instance; the choice survives restarts. Relays apply it within
    /// two seconds, and finish what they have claimed.
    async fn set_paused(&self, lane: &str, paused: bool) -> Result<()>;

    /// The lanes that are paused.
    async fn paused(&self) -> Result<BTreeSet<String>>;

    /// Records how a lane works, for operators, views and checks. A relay does so when it starts. `*` stands for lanes that
    /// have no record of their own.
    async fn record_lane(&self, lane: &str, settings: LaneSettings) -> Result<()>;

    /// How each recorded lane works.
    async fn lanes(&self) -> Result<BTreeMap<String, LaneSettings>>;

    /// Gives a consumer another name, in one transaction: its subscriptions, its deliveries (waiting, leased and dead), its
    /// inbox rows, its attempts and its pause. What was consumed under the old name is not consumed again, and keys stay in
    /// order. Rename before a program with the new name starts.
    ///
    /// - The old subscriptions are kept as removed ones, so that a restart of the old program does not bring them back.
    /// - A worker that holds a delivery may still settle, retry or release it. A consumer in a transaction has its effect
    ///   rolled back ([`Error::LeaseLost`]); the effect happens under the new name, when the lease has ended.
    /// - A producer's transaction that is open during the rename may write one more delivery for the old name. Call it again:
    ///   if no subscription has the old name, the new one may be in use, and what is left moves.
    /// - Audit records, and bulk operations that name the consumer, keep the old name.
    ///
    /// Returns [`Error::Refused`] if nothing has the old name, if the new one is in use, or if the consumer reads a queue of
    /// the broker.
    async fn rename_consumer(&self, from: &str, to: &str) -> Result<Renamed>;
}

/// How a lane works, as its relay is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSettings {
    /// How often it tries a delivery.
    pub max_attempts: u32,
    /// Whether its attempts are kept.
    pub history: History,
}

/// An operator's change of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionChange {
    /// The subscription as it is to be.
    pub subscription: Subscription,
    /// The consumer's other subscriptions get the same `via` and endpoint.
    pub all_topics: bool,
    /// Change it only if it has one of these versions ([`Subscription::version`]); `*` is any.
    pub if_version: Option<Vec<String>>,
    /// What becomes of the secret that signs its calls.
    pub secret: SecretChange,
}

impl SubscriptionChange {
    /// A change without conditions, of this subscription only.
    pub fn new(subscription: Subscription) -> Self {
        Self { subscription, all_topics: false, if_version: None, secret: SecretChange::Keep }
    }

    /// What it has done, for the audit.
    pub(super) fn done(&self, moved: u64, waiting: u64, secret: Option<&str>) -> serde_json::Value {
        let mut done = serde_json::json!({ "moved": moved, "waiting": waiting });
        if let Some(secret) = secret {
            done["secret"] = secret.into();
        }
        done
    }

    /// Checks the subscription, and that a secret is for a webhook.
    pub(super) fn check(&self) -> Result<()> {
        self.subscription.check()?;
        match (&self.secret, self.subscription.via) {
            (SecretChange::Set(_), via) if via != Via::Webhook => {
                let message = format!("signs the calls of a webhook, and `{}` is none: leave it out", via.as_str());
                Err(Error::invalid("secret", message))
            }
            _ => Ok(()),
        }
    }
}

/// How long the secret before the present one signs beside it, so that a receiver can change to the new one.
pub const SECRET_ROTATION: Duration = Duration::from_secs(24 * 3600);

/// What becomes of the secret of a webhook that has its own. What is subscribed anew, or is no webhook any more, keeps none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SecretChange {
    /// It stays as it is.
    #[default]
    Keep,
    /// There is none any more, nor the one before it: the secrets of the relay sign.
    Remove,
    /// This one signs from now on. The one before it signs beside it for [`SECRET_ROTATION`].
    Set(SecretText),
}

/// A secret as Standard Webhooks writes it: `whsec_` and 24 to 64 bytes in base64. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    const PREFIX: &str = "whsec_";
    /// Length in bytes, by the standard.
    const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

    /// The text, to be stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key that it stands for.
    pub fn key(&self) -> Vec<u8> {
        Self::decode(&self.0).unwrap_or_default()
    }

    fn decode(text: &str) -> Option<Vec<u8>> {
        let encoded = text.strip_prefix(Self::PREFIX).unwrap_or(text);
        BASE64_STANDARD.decode(encoded).ok().filter(|bytes| Self::BYTES.contains(&bytes.len()))
    }
}

impl FromStr for SecretText {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match Self::decode(text) {
            Some(_) => Ok(Self(text.into())),
            None => {
                let message = "must be whsec_ and 24 to 64 bytes in base64: openssl rand -base64 32";
                Err(Error::invalid("secret", message.into()))
            }
        }
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(***)")
    }
}

/// The secrets of one webhook that has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnSecrets {
    /// Its topic.
    pub topic: String,
    /// Its consumer.
    pub consumer: String,
    /// The present one, and the one before it during a rotation.
    pub secrets: Vec<SecretText>,
}

/// What a change has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionChanged {
    /// The subscription as it is stored.
    pub stored: StoredSubscription,
    /// How many events wait for the consumer another way than before.
    pub moved: u64,
    /// How many events of this subscription wait: they are still delivered, also if it is disabled.
    pub waiting: u64,
}

/// The removal of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRemoval {
    /// Its topic.
    pub topic: String,
    /// Its consumer.
    pub consumer: String,
    /// What becomes of the deliveries that wait; `None`: it is refused while there are any.
    pub waiting: Option<Waiting>,
    /// Remove it only if it has one of these versions; `*` is any.
    pub if_version: Option<Vec<String>>,
}

impl SubscriptionRemoval {
    /// A removal that is refused while deliveries wait.
    pub fn new(topic: impl Into<String>, consumer: impl Into<String>) -> Self {
        Self { topic: topic.into(), consumer: consumer.into(), waiting: None, if_version: None }
    }

    /// The error text of what is discarded.
    pub(super) fn reason(&self) -> String {
        format!("the subscription of {} to {} was removed, and with it what waited", self.consumer, self.topic)
    }
}

/// What becomes of deliveries that wait for a removed subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// They are delivered as if it were still there.
    Deliver,
    /// Each is ended, also those that are dead: the reason is its last attempt, with the code
    /// [`DISCARDED`](crate::entry::DISCARDED).
    Discard,
}

/// What a removal has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionRemoved {
    /// How many events wait: they are still delivered.
    pub waiting: u64,
    /// How many were discarded.
    pub discarded: u64,
}

/// What a rename has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Renamed {
    /// Subscriptions.
    pub subscriptions: u64,
    /// Deliveries: waiting, leased and dead.
    pub deliveries: u64,
    /// Inbox rows.
    pub received: u64,
    /// Attempts in the history.
    pub attempts: u64,
}

/// Checks the names of a rename.
pub(super) fn check_rename(from: &str, to: &str) -> Result<()> {
    limits::name("to", to)?;
    if to == RABBITMQ || to.starts_with("postrider") {
        return Err(Error::invalid("to", format!("`{RABBITMQ}` and names that start with `postrider` are reserved")));
    }
    if from == to {
        return Err(Error::invalid("to", "is the name that the consumer has".into()));
    }
    Ok(())
}
