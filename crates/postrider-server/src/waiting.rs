//! Long polls. One task asks the store for all waiting consumers, so that a thousand of them cost one query per interval;
//! a publish through this server triggers the query at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::App;

/// The shortest time between two queries.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The lanes with waiting consumers, and how many wait for each.
#[derive(Default)]
pub(crate) struct Waiting {
    lanes: Mutex<HashMap<String, (usize, Arc<Notify>)>>,
    look: Notify,
}

/// One waiting consumer; dropping it ends the wait.
pub(crate) struct Place<'a> {
    waiting: &'a Waiting,
    lane: String,
    notify: Arc<Notify>,
}

impl Waiting {
    /// Triggers the next query.
    pub(crate) fn look(&self) {
        self.look.notify_one();
    }

    /// Starts to wait for a lane: deliveries that become due from now on wake it.
    pub(crate) fn join(&self, lane: &str) -> Place<'_> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let (waiters, notify) = lanes.entry(lane.to_owned()).or_default();
        *waiters += 1;
        let notify = Arc::clone(notify);
        drop(lanes);
        self.look();
        Place { waiting: self, lane: lane.into(), notify }
    }

    fn lanes(&self) -> Vec<(String, Arc<Notify>)> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|(lane, (_, notify))| (lane.clone(), Arc::clone(notify))).collect()
    }
}

impl Place<'_> {
    /// Waits until a delivery of the lane is due. Wakes one consumer of the lane at a time.
    pub(crate) async fn due(&self) {
        self.notify.notified().await;
    }

    /// Triggers a query for the other consumers of the lane.
    pub(crate) fn wake_next(&self) {
        self.waiting.look();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lanes = self.waiting.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((waiters, _)) = lanes.get_mut(&self.lane) {
            *waiters -= 1;
            if *waiters == 0 {
                lanes.remove(&self.lane);
            }
        }
    }
}

/// Queries for all waiting consumers until the server stops.
pub(crate) async fn watch(app: App) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.waiting.look.notified() => {}
            () = tokio::time::sleep(app.options.due_interval) => {}
        }
        let lanes = app.waiting.lanes();
        if lanes.is_empty() {
            continue;
        }
        let names: Vec<&str> = lanes.iter().map(|(lane, _)| lane.as_str()).collect();
        match app.store.next_due(&names).await {
            Ok(dues) => {
                for ((_, notify), due) in lanes.iter().zip(dues) {
                    if due.is_some_and(|due| due.is_zero()) {
                        notify.notify_one();
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "waiting consumers are not woken: the store is away"),
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}
