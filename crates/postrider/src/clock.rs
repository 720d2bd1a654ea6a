//! The process's own time. It is used only to describe events (`occurredAt`, the id's timestamp). Leases, due times
//! and expiry use the database's clock, so a wrong clock here does no harm.

#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use time::OffsetDateTime;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// The time, UTC.
    fn now(&self) -> OffsetDateTime;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> OffsetDateTime {
        let now = OffsetDateTime::now_utc();
        #[cfg(feature = "testing")]
        let now = now + time::Duration::milliseconds(SKEW_MS.load(Ordering::Relaxed));
        now
    }
}

/// How much the clock of this process is wrong.
#[cfg(feature = "testing")]
static SKEW_MS: AtomicI64 = AtomicI64::new(0);

/// Makes the clock of this process wrong by `milliseconds`, as on a machine without time synchronisation.
#[cfg(feature = "testing")]
pub(crate) fn skew(milliseconds: i64) {
    SKEW_MS.store(milliseconds, Ordering::Relaxed);
}

/// A clock that is set by hand, for tests and simulations. Clones are the same clock.
///
/// Give it to an outbox, and to the store in memory, which then has no other time: delayed and failed deliveries
/// become due when the test advances the clock.
///
/// ```
/// use postrider::clock::ManualClock;
/// use postrider::store::memory::MemoryStore;
/// use postrider::prelude::*;
/// use postrider::{Draft, Outbox};
/// # use postrider::{Event, Failure, Inbox, OutsideConsumer, Received, Relay};
/// # use std::time::Duration;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Reminder { order_id: i64 }
/// # impl Event for Reminder { const TOPIC: &'static str = "order.reminder"; }
/// # struct Mail;
/// # impl OutsideConsumer for Mail {
/// #     const NAME: &'static str = "mail";
/// #     type Event = Reminder;
/// #     async fn handle(&self, _: Received<Reminder>) -> Result<(), Failure> { Ok(()) }
/// # }
/// # #[tokio::main]
/// # async fn main() -> postrider::Result<()> {
///
/// let clock = ManualClock::at(time::macros::datetime!(2026-03-01 12:00 UTC));
/// let store = MemoryStore::with_clock(clock.clone());
/// let outbox = Outbox::new(store.clone()).clock(clock.clone());
/// let inbox = || Inbox::new(store.clone()).outside(Mail);
///
/// let mut tx = store.begin().await?;
/// outbox.enqueue(&mut tx, Draft::of(&Reminder { order_id: 7 })?.delay(Duration::from_secs(3600))).await?;
/// store.commit(tx).await?;
///
/// Relay::new(store.clone(), inbox()).drain().await?;
/// assert_eq!(store.counts().await?["mail"].new, 1, "not yet");
///
/// clock.advance(Duration::from_secs(3600));
/// Relay::new(store.clone(), inbox()).drain().await?;
/// assert!(store.counts().await?.is_empty(), "an hour later");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<OffsetDateTime>>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn at(start: OffsetDateTime) -> Self {
        Self(Arc::new(Mutex::new(start)))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> OffsetDateTime {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
