//! The status of an event, for people. One pure function over the facts: the same facts always give the same status.

mod standing;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub(crate) use standing::is_untried_since;
pub use standing::{Kept, Record, Standing};

/// The status of an event as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventStatus {
    /// Stored, not sent yet.
    Pending,
    /// Sent to a consumer, or confirmed by the broker.
    Sent,
    /// Every expected consumer has consumed it. Final.
    Consumed,
    /// Some consumers gave up, others did not.
    Partial,
    /// All expected consumers gave up.
    Failed,
    /// Another attempt follows.
    Retrying,
    /// Past its expiry. Final.
    Expired,
}

impl EventStatus {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Sent, Self::Consumed, Self::Partial, Self::Failed, Self::Retrying, Self::Expired];

    /// Its name in SQL, API and console.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Sent => "SENT",
            Self::Consumed => "CONSUMED",
            Self::Partial => "PARTIAL",
            Self::Failed => "FAILED",
            Self::Retrying => "RETRYING",
            Self::Expired => "EXPIRED",
        }
    }

    /// Whether no later change of the event changes the status.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Consumed | Self::Expired)
    }
}

impl FromStr for EventStatus {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid("status", format!("must be one of {words}, is {text:?}"))
        })
    }
}

/// The state of one expected consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerState {
    /// An attempt succeeded. Final: a later failure does not undo the effect.
    Ok,
    /// The last attempt failed and another follows.
    Retrying,
    /// No more attempts.
    Failed,
    /// No result yet.
    Waiting,
}

/// One attempt of one consumer: the fields that the status depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Whether the effect happened.
    pub success: bool,
    /// Whether it will be tried again after a failure.
    pub will_retry: bool,
}

/// The state of a consumer, from its attempts in the order of their numbers.
pub fn consumer_state(attempts: &[Attempt]) -> ConsumerState {
    match attempts.last() {
        _ if attempts.iter().any(|attempt| attempt.success) => ConsumerState::Ok,
        Some(last) if last.will_retry => ConsumerState::Retrying,
        Some(_) => ConsumerState::Failed,
        None => ConsumerState::Waiting,
    }
}

/// Everything that the status depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The state of every expected consumer.
    pub consumers: Vec<ConsumerState>,
    /// Past `expireAt`, or expired by hand.
    pub expired: bool,
    /// Redriven, and not sent again since.
    pub redriven: bool,
    /// The broker's lane has given up.
    pub broker_dead: bool,
    /// Sent to a consumer or confirmed by the broker at least once.
    pub sent: bool,
}

/// The status: the first line that matches.
pub fn status_of(facts: &Facts) -> EventStatus {
    use ConsumerState::{Failed, Ok, Retrying};
    let all = |state| !facts.consumers.is_empty() && facts.consumers.iter().all(|consumer| *consumer == state);
    let any = |state| facts.consumers.contains(&state);
    match () {
        () if all(Ok) => EventStatus::Consumed,
        () if facts.expired => EventStatus::Expired,
        () if facts.redriven || any(Retrying) => EventStatus::Retrying,
        () if facts.broker_dead || all(Failed) => EventStatus::Failed,
        () if any(Failed) => EventStatus::Partial,
        () if facts.sent => EventStatus::Sent,
        () => EventStatus::Pending,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state() -> impl Strategy<Value = ConsumerState> {
        prop::sample::select(vec![
            ConsumerState::Ok,
            ConsumerState::Retrying,
            ConsumerState::Failed,
            ConsumerState::Waiting,
        ])
    }

    prop_compose! {
        fn facts()(
            consumers in prop::collection::vec(state(), 0..5),
            (expired, redriven, broker_dead, sent) in any::<(bool, bool, bool, bool)>(),
        ) -> Facts {
            Facts { consumers, expired, redriven, broker_dead, sent }
        }
    }

    /// D.6: the truth table, line by line.
    #[test]
    fn the_first_line_that_fits() {
        use ConsumerState::{Failed, Ok, Retrying, Waiting};
        let facts =
            |consumers: &[ConsumerState]| Facts { consumers: consumers.to_vec(), sent: true, ..Facts::default() };
        let table = [
            (facts(&[Ok, Ok]), EventStatus::Consumed),
            (Facts { expired: true, redriven: true, broker_dead: true, ..facts(&[Ok]) }, EventStatus::Consumed),
            (Facts { expired: true, ..facts(&[Ok, Waiting]) }, EventStatus::Expired),
            (Facts { expired: true, ..facts(&[Retrying]) }, EventStatus::Expired),
            (Facts { redriven: true, ..facts(&[Failed]) }, EventStatus::Retrying),
            (facts(&[Ok, Retrying, Failed]), EventStatus::Retrying),
            (facts(&[Failed, Failed]), EventStatus::Failed),
            (Facts { broker_dead: true, ..facts(&[Ok, Waiting]) }, EventStatus::Failed),
            (facts(&[Ok, Failed]), EventStatus::Partial),
            (facts(&[Waiting, Failed]), EventStatus::Partial),
            (facts(&[Ok, Waiting]), EventStatus::Sent),
            (facts(&[]), EventStatus::Sent),
            (Facts { sent: false, ..facts(&[Waiting]) }, EventStatus::Pending),
            (Facts::default(), EventStatus::Pending),
        ];
        for (facts, expected) in table {
            assert_eq!(status_of(&facts), expected, "{facts:?}");
        }
    }

    proptest! {
        #[test]
        fn the_order_of_consumers_does_not_matter(facts in facts(), seed in any::<prop::sample::Index>()) {
            let mut turned = facts.clone();
            if !turned.consumers.is_empty() {
                let by = seed.index(turned.consumers.len());
                turned.consumers.rotate_left(by);
            }
            prop_assert_eq!(status_of(&facts), status_of(&turned));
        }

        /// CONSUMED is final: no later expiry, redrive or broker failure changes it.
        #[test]
        fn consumed_depends_on_the_consumers_alone(facts in facts()) {
            let all_ok = !facts.consumers.is_empty() && facts.consumers.iter().all(|c| *c == ConsumerState::Ok);
            prop_assert_eq!(status_of(&facts) == EventStatus::Consumed, all_ok);
        }

        #[test]
        fn expired_unless_consumed(facts in facts()) {
            let status = status_of(&Facts { expired: true, ..facts });
            prop_assert!(matches!(status, EventStatus::Expired | EventStatus::Consumed));
        }

        /// A consumer's success is final, whatever came before or after it.
        #[test]
        fn one_success_settles_a_consumer(attempts in prop::collection::vec(any::<(bool, bool)>(), 0..8)) {
            let attempts: Vec<_> = attempts.into_iter().map(|(success, will_retry)| Attempt { success, will_retry }).collect();
            let ok = attempts.iter().any(|attempt| attempt.success);
            prop_assert_eq!(consumer_state(&attempts) == ConsumerState::Ok, ok);
        }
    }
}
