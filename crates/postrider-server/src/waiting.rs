//! Consumers that wait for events. One task asks the store for all of them, so that a thousand waiting consumers cost one
//! query now and then; whoever publishes through this server makes it look at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::App;

/// How often to look for what other processes have written, and for what falls due.
const LOOK: Duration = Duration::from_millis(250);
/// Two looks are at least this far apart, whatever asks for them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The lanes that somebody waits for.
#[derive(Default)]
pub(crate) struct Waiting {
    lanes: Mutex<HashMap<String, (usize, Arc<Notify>)>>,
    look: Notify,
}

/// A place among those who wait; dropped, it is given up.
pub(crate) struct Place<'a> {
    waiting: &'a Waiting,
    lane: String,
    bell: Arc<Notify>,
}

impl Waiting {
    /// Something was written: look soon.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    /// Begins to wait for a lane. What becomes due from now on rings.
    pub(crate) fn join(&self, lane: &str) -> Place<'_> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let (places, bell) = lanes.entry(lane.to_owned()).or_default();
        *places += 1;
        let bell = Arc::clone(bell);
        drop(lanes);
        self.look();
        Place { waiting: self, lane: lane.into(), bell }
    }

    fn lanes(&self) -> Vec<(String, Arc<Notify>)> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|(lane, (_, bell))| (lane.clone(), Arc::clone(bell))).collect()
    }
}

impl Place<'_> {
    /// Waits until something of the lane is due. One of those who wait for it is woken at a time.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Others who wait may have something to do too.
    pub(crate) fn pass_on(&self) {
        self.waiting.look();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lanes = self.waiting.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((places, _)) = lanes.get_mut(&self.lane) {
            *places -= 1;
            if *places == 0 {
                lanes.remove(&self.lane);
            }
        }
    }
}

/// Looks for all who wait, until the server stops.
pub(crate) async fn watch(app: App) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.waiting.look.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        let lanes = app.waiting.lanes();
        if lanes.is_empty() {
            continue;
        }
        let names: Vec<&str> = lanes.iter().map(|(lane, _)| lane.as_str()).collect();
        match app.store.next_due(&names).await {
            Ok(dues) => {
                for ((_, bell), due) in lanes.iter().zip(dues) {
                    if due.is_some_and(|due| due.is_zero()) {
                        bell.notify_one();
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "nobody can be told what is due: the store is away"),
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}
