//! From the rows of an event to the facts that its status depends on, and to the figures beside it. Pure: the
//! roll-up, lists, the detail and a redrive all use these functions, so that they always agree.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::{Attempt, ConsumerState, EventStatus, Facts, consumer_state, status_of};
use crate::entry::{DISCARDED, DeliveryStatus};
use crate::envelope::Envelope;
use crate::store::{Consumption, Delivery, Routing};
use crate::subscription::RABBITMQ;

/// Actions of people: the only facts that are in no other row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// How often it was redriven.
    pub redrives: u32,
    /// When it was last redriven.
    pub redriven_at: Option<OffsetDateTime>,
    /// When it was expired by hand.
    pub expired_at: Option<OffsetDateTime>,
}

/// An event and its rows at one moment.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its place in the order of events.
    pub sequence: i64,
    /// The event; lists leave payload and metadata out.
    pub envelope: Envelope,
    /// Whether it has its deliveries.
    pub routing: Routing,
    /// When the database stored it.
    pub created_at: OffsetDateTime,
    /// Past its `expireAt`, by the database's clock.
    pub expired: bool,
    /// Actions of people.
    pub kept: Kept,
    /// The stored status for lists; `None` if the roll-up has not folded it yet.
    pub listed: Option<EventStatus>,
    /// When the roll-up first stored that status.
    pub listed_at: Option<OffsetDateTime>,
    /// Its remaining deliveries, by lane and target.
    pub deliveries: Vec<Delivery>,
    /// Every attempt, by consumer and number. Attempt 0 only of remote consumers; readers use [`Record::history`].
    pub consumptions: Vec<Consumption>,
}

/// The status of an event with figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The status.
    pub status: EventStatus,
    /// Number of expected consumers.
    pub expected: u32,
    /// Number of consumers that have consumed it.
    pub consumed: u32,
    /// Number of consumers that gave up and need a redrive.
    pub failed: u32,
    /// How often it was redriven.
    pub redrives: u32,
    /// When it was first sent to a consumer, or confirmed by the broker.
    pub sent_at: Option<OffsetDateTime>,
    /// When it was last sent or confirmed.
    pub last_sent_at: Option<OffsetDateTime>,
    /// When it last changed.
    pub updated_at: OffsetDateTime,
    /// The last error that no success has followed.
    pub last_error: Option<String>,
}

impl Record {
    /// Every expected consumer and its state.
    pub fn consumers(&self) -> BTreeMap<&str, ConsumerState> {
        let mut attempts: BTreeMap<&str, Vec<Attempt>> = BTreeMap::new();
        for one in self.consumptions.iter().filter(|one| one.consumer != RABBITMQ) {
            let of_consumer = attempts.entry(&one.consumer).or_default();
            // Attempt 0 only marks the consumer as expected.
            of_consumer.extend(one.success.map(|success| Attempt { success, will_retry: one.will_retry }));
        }
        let mut states: BTreeMap<_, _> =
            attempts.into_iter().map(|(consumer, attempts)| (consumer, consumer_state(&attempts))).collect();
        for delivery in &self.deliveries {
            // The broker lane belongs to no consumer; a lane of its own means that the consumer is expected.
            let Some(consumer) = delivery.consumer() else { continue };
            let state = states.entry(consumer).or_insert(ConsumerState::Waiting);
            // Without history, the delivery is the only source.
            if *state == ConsumerState::Waiting && delivery.lane != RABBITMQ {
                *state = match delivery.status {
                    DeliveryStatus::Dead => ConsumerState::Failed,
                    DeliveryStatus::Failed => ConsumerState::Retrying,
                    DeliveryStatus::New | DeliveryStatus::Processing => ConsumerState::Waiting,
                };
            }
        }
        states
    }

    /// Every attempt as readers see it, by consumer and number: each expected consumer begins with attempt 0. For a remote
    /// consumer it is a row of its own; for one with a lane the delivery, or its first attempt, has the same meaning.
    pub fn history(&self) -> Vec<Consumption> {
        let has_row = |consumer: &str| self.consumptions.iter().any(|one| one.consumer == consumer && one.attempt == 0);
        let expected = self.consumers().into_keys().filter(|consumer| !has_row(consumer));
        let expected = expected.map(|consumer| Consumption {
            consumer: consumer.into(),
            attempt: 0,
            success: None,
            will_retry: false,
            consumed_at: None,
            error: None,
            code: None,
            created_at: self.created_at,
        });
        let mut history: Vec<_> = expected.chain(self.consumptions.iter().cloned()).collect();
        history.sort_by(|a, b| (&a.consumer, a.attempt).cmp(&(&b.consumer, b.attempt)));
        history
    }

    /// The facts that the status depends on.
    pub fn facts(&self) -> Facts {
        // No delivery and no attempt: it went to lanes without history.
        let without_history =
            self.routing == Routing::Routed && self.deliveries.is_empty() && self.consumptions.is_empty();
        Facts {
            consumers: self.consumers().into_values().collect(),
            expired: self.expired || self.kept.expired_at.is_some(),
            redriven: self
                .kept
                .redriven_at
                .is_some_and(|at| self.deliveries.iter().any(|one| is_untried_since(one, at))),
            broker_dead: self
                .deliveries
                .iter()
                .any(|one| one.lane == RABBITMQ && one.target.is_none() && one.status == DeliveryStatus::Dead),
            sent: without_history || self.sendings().next().is_some(),
        }
    }

    /// The status and figures, from all rows.
    pub fn standing(&self) -> Standing {
        let facts = self.facts();
        let count = |state| facts.consumers.iter().filter(|one| **one == state).count() as u32;
        let attempts = self.consumptions.iter().map(|one| one.created_at);
        let by_hand = [self.kept.redriven_at, self.kept.expired_at].into_iter().flatten();
        Standing {
            status: status_of(&facts),
            expected: facts.consumers.len() as u32,
            consumed: count(ConsumerState::Ok),
            failed: count(ConsumerState::Failed),
            redrives: self.kept.redrives,
            sent_at: self.sendings().min(),
            last_sent_at: self.sendings().max(),
            updated_at: attempts.chain(by_hand).fold(self.created_at, OffsetDateTime::max),
            last_error: self.last_error(),
        }
    }

    /// Since when it has this status: as the roll-up stored it, or else since its last change.
    pub fn status_at(&self, standing: &Standing) -> OffsetDateTime {
        let seen = self.listed_at.filter(|_| self.listed == Some(standing.status));
        seen.unwrap_or(standing.updated_at)
    }

    /// When it was sent: to a consumer, whatever the result, or to the broker, which confirmed.
    fn sendings(&self) -> impl Iterator<Item = OffsetDateTime> {
        // A discard is recorded as an attempt, but nothing was sent.
        let is_try = |one: &&Consumption| one.attempt > 0 && one.code.as_deref() != Some(DISCARDED);
        let attempts = self.consumptions.iter().filter(is_try);
        let handed = attempts.filter(|one| one.consumer != RABBITMQ || one.success == Some(true));
        handed.map(|one| one.created_at)
    }

    fn last_error(&self) -> Option<String> {
        let consumers = self.consumers();
        let open = |one: &&Consumption| match one.consumer.as_str() {
            RABBITMQ => self.deliveries.iter().any(|delivery| delivery.lane == RABBITMQ),
            consumer => consumers.get(consumer) != Some(&ConsumerState::Ok),
        };
        let failures = self.consumptions.iter().filter(|one| one.error.is_some()).filter(open);
        let last = failures.max_by_key(|one| (one.created_at, one.attempt)).and_then(|one| one.error.clone());
        last.or_else(|| self.deliveries.iter().find_map(|delivery| delivery.last_error.clone()))
    }
}

/// Whether that redrive made it due, and there is no result since.
pub(crate) fn is_untried_since(delivery: &Delivery, redriven_at: OffsetDateTime) -> bool {
    let untried = match delivery.status {
        DeliveryStatus::New => true,
        DeliveryStatus::Processing => delivery.attempts <= 1,
        DeliveryStatus::Failed | DeliveryStatus::Dead => false,
    };
    untried && delivery.due_at >= redriven_at
}
