//! Whether the store can be written. It is asked every few seconds, and never by a request: readiness is asked for without a
//! token.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider::Obstacle;

use crate::App;

/// How soon a full disk or a replaced file shows, and its end.
const EVERY: Duration = Duration::from_secs(5);

/// What the last probe has found.
#[derive(Default)]
pub(crate) struct Probed(Mutex<Option<Obstacle>>);

impl Probed {
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, found: Option<Obstacle>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Some(obstacle) if *known != found => tracing::error!("not ready: {obstacle}"),
            None if known.is_some() => tracing::info!("the store can be written again"),
            _ => {}
        }
        *known = found;
    }
}

/// The code of an obstacle, for programs.
pub(crate) fn code(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Full => "storeFull",
        Obstacle::ReadOnly => "storeReadOnly",
        Obstacle::Replaced => "storeReplaced",
        _ => "storeAway",
    }
}

/// Probes until the server stops.
pub(crate) async fn watch(app: App) {
    loop {
        // A store that does not answer at all is found by the request that asks.
        app.probed.set(app.store.probe().await.err().and_then(|error| error.obstacle()));
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}
