//! Whether the store answers. While it does not, one task asks it now and then, and all others wait: an outage must not
//! become a storm of connections.

use tokio::sync::watch;

use crate::error::Error;
use crate::observe;

/// Up, or down since so many questions.
pub(super) struct Health {
    up: watch::Sender<bool>,
}

impl Default for Health {
    fn default() -> Self {
        Self { up: watch::Sender::new(true) }
    }
}

impl Health {
    pub(super) fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Takes note of an error. True: it means that the store is away, and what failed may be done again later.
    pub(super) fn note(&self, error: &Error) -> bool {
        let away = matches!(error, Error::Unavailable(_));
        if away && self.up.send_replace(false) {
            observe::store_unavailable();
            tracing::error!(error = %crate::consumer::Failure::from_error(error), "the store does not answer: the relay waits for it");
        }
        away
    }

    /// The store has answered.
    pub(super) fn recovered(&self) {
        if !self.up.send_replace(true) {
            tracing::info!("the store answers again");
        }
    }

    /// Waits until the store answers.
    pub(super) async fn up(&self) {
        // Fails only if the sender is gone, and we hold it.
        let _ = self.up.subscribe().wait_for(|up| *up).await;
    }

    /// Waits until it does not.
    pub(super) async fn down(&self) {
        let _ = self.up.subscribe().wait_for(|up| !*up).await;
    }
}
