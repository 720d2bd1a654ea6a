//! Whether a consumer may be renamed.

use crate::redrive::Refusal;

/// Which rows have a consumer's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NameUse {
    /// A subscription that is not removed.
    pub(crate) subscribed: bool,
    /// Such a subscription through the broker.
    pub(crate) by_broker: bool,
    /// A delivery in its lane.
    pub(crate) delivered: bool,
    /// An inbox row.
    pub(crate) received: bool,
}

impl NameUse {
    fn any(self) -> bool {
        self.subscribed || self.delivered || self.received
    }
}

/// What a rename moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renaming {
    /// Everything.
    WithSubscriptions,
    /// Deliveries, inbox and attempts: the subscriptions were renamed or removed before.
    WithoutSubscriptions,
}

/// Decides whether the consumer may be renamed, and what is moved.
pub(crate) fn decide_rename(from: &str, old: &NameUse, to: &str, new: &NameUse) -> Result<Renaming, Refusal> {
    if !old.any() {
        Err(Refusal::NoSuchConsumer(from.into()))
    } else if old.by_broker {
        Err(Refusal::BrokerQueue(from.into()))
    } else if !old.subscribed {
        // The old name gets no more events. What is left of it may go to a consumer that exists: rows of one event under both
        // names are refused when they are written.
        Ok(Renaming::WithoutSubscriptions)
    } else if new.any() {
        Err(Refusal::NameInUse(to.into()))
    } else {
        Ok(Renaming::WithSubscriptions)
    }
}
