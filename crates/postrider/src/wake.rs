//! How a relay learns of new events in its own process. A store has one [`Wake`], shared by its clones: `enqueue` pokes it,
//! and the relays of this process listen.
//!
//! A poke comes before the commit, which only the caller knows of. So it names an event, and the relay looks for that event,
//! often at first and then less often, until it is committed or left to the poll.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::presence::Presence;

/// Events that are looked for at the same time, at most. With this many open transactions the relays are busy anyway.
const POKES: usize = 1_024;
/// How long an event is looked for. Most commits come within milliseconds; the poll finds the others.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest and the longest pause between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(64));
/// A pause is this fraction of the time since the poke. It bounds how much later than its commit an event is found.
const SHARE: u32 = 400;

/// Connects `enqueue` with the relays of the same process, and knows what else the process runs.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<WakeInner>);

#[derive(Debug, Default)]
struct WakeInner {
    pokes: Mutex<Vec<Poke>>,
    poked: Notify,
    listeners: AtomicUsize,
    presence: Presence,
}

/// An event that was enqueued in a transaction that may still be open.
#[derive(Debug, Clone)]
pub(crate) struct Poke {
    pub(crate) event_id: String,
    pub(crate) topic: String,
    since: Instant,
}

impl Wake {
    /// What this process runs on the store.
    pub fn presence(&self) -> &Presence {
        &self.0.presence
    }

    /// An event is being written.
    pub(crate) fn poke(&self, event_id: &str, topic: &str) {
        if self.0.listeners.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut pokes = self.pokes();
        if pokes.len() < POKES {
            pokes.push(Poke { event_id: event_id.into(), topic: topic.into(), since: Instant::now() });
        }
        drop(pokes);
        self.0.poked.notify_one();
    }

    /// Pokes are kept until the guard is dropped.
    pub(crate) fn listen(&self) -> Listening {
        self.0.listeners.fetch_add(1, Ordering::Relaxed);
        Listening(self.clone())
    }

    /// Waits for the next poke.
    pub(crate) async fn poked(&self) {
        self.0.poked.notified().await;
    }

    /// The events to look for. Those that take too long are left to the poll.
    pub(crate) fn expected(&self) -> Vec<Poke> {
        let mut pokes = self.pokes();
        pokes.retain(|poke| poke.since.elapsed() < PATIENCE);
        pokes.clone()
    }

    /// These events are committed.
    pub(crate) fn sighted(&self, event_ids: &[String]) {
        self.pokes().retain(|poke| !event_ids.contains(&poke.event_id));
    }

    fn pokes(&self) -> std::sync::MutexGuard<'_, Vec<Poke>> {
        self.0.pokes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Poke {
    /// How long to wait before looking for it again.
    pub(crate) fn pause(&self) -> Duration {
        (self.since.elapsed() / SHARE).clamp(PAUSES.0, PAUSES.1)
    }
}

/// Pokes are kept while it lives.
#[derive(Debug)]
pub(crate) struct Listening(Wake);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.0.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}
