//! Wake-ups of relays: within this process, from other processes, and by the clock.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::wake::Wake;

/// Wake-ups of relays. None is needed for correctness: a relay that polls finds everything.
#[async_trait]
pub trait Wakeups: Send + Sync {
    /// Connects the enqueuers and relays of this process. All clones of a store share it.
    fn wake(&self) -> &Wake;

    /// Notifies the relays of other processes, under the name `from`, that there is something to claim. A store that
    /// cannot do this relies on polling.
    async fn announce(&self, _from: &str) -> Result<()> {
        Ok(())
    }

    /// Calls `announced` with the sender of each announcement, until the connection fails.
    async fn listen(&self, _announced: &(dyn for<'a> Fn(&'a str) + Send + Sync)) -> Result<()> {
        std::future::pending().await
    }

    /// Returns those of the events whose transactions have committed.
    async fn sight(&self, event_ids: &[&str]) -> Result<Vec<String>>;

    /// Whether an event from a plain `INSERT` waits for the router. Relays ask often: it must cost next to nothing, whatever
    /// the size of the tables.
    async fn arrived(&self) -> Result<bool>;

    /// For each lane, the time from now until its next delivery is due or the next lease ends; `None` if nothing waits.
    async fn next_due(&self, lanes: &[&str]) -> Result<Vec<Option<Duration>>>;
}
